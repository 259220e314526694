// NCCL, or RCCL, as the engine of ranks on GPUs.
import { BACKENDS, type GpuKind } from "../../../ffi/gpu/backends.ts";
import { findNccl } from "../../../ffi/nccl/find.ts";
import { openNccl } from "../../../ffi/nccl/nccl.ts";
import { messageOf } from "../../base/errors.ts";
import type { FoundEngine, GpuEngine } from "../engines.ts";
import { queryRas } from "./ras.ts";
import { openNcclCollectives } from "./setup.ts";

export const engine: GpuEngine = { open: openNcclCollectives, ask: (env) => queryRas(env), find };

function find(torch: string, kind: GpuKind, env: Record<string, string>): FoundEngine {
  let at: { path: string; from: string } | null = null;
  try {
    const { chosen, rejected } = findNccl(torch, env, BACKENDS[kind]);
    at = chosen;
    if (!at) {
      const why = rejected.map(({ dir, reason }) => `${dir}: ${reason}`).join("; ");
      return { path: null, from: "", version: null, against: null, why };
    }
    const { version, against } = openNccl(at.path, kind);
    return { ...at, version: /\d+(\.\d+)+/.exec(version)?.[0] ?? version, against, why: "" };
  } catch (error) {
    return {
      path: at?.path ?? null,
      from: at?.from ?? "",
      version: null,
      against: null,
      why: messageOf(error),
    };
  }
}
