// The engine of ranks on GPUs: NCCL, or RCCL. It is a part of the program, loaded where ranks have GPUs.
import type { GpuKind } from "../../ffi/gpu/backends.ts";
import type { Device } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { PARTS, type Parts } from "../parts.ts";
import type { OpenedCollectives } from "./collectives.ts";
import type { RankContext } from "./context.ts";
import type { FlightRecorder } from "./flight_recorder.ts";

export type Network = "auto" | "infiniband" | "ethernet";

export interface GpuNeeds {
  readonly share: (bytes?: Uint8Array) => Uint8Array;
  readonly network: Network;
  readonly logs: string;
}

export interface GpuEngineOptions extends GpuNeeds {
  readonly where: RankContext;
  readonly device: Device;
  readonly env: Record<string, string>;
  readonly flight: FlightRecorder;
  readonly timeout: number;
}

/** The engine's own service says it of a stall. */
export interface Ras {
  readonly text: string;
  readonly line: string;
}

/** The library that ranks here would take. */
export interface FoundEngine {
  readonly path: string | null;
  readonly from: string;
  /** It is null where the library can't be opened. */
  readonly version: string | null;
  readonly against: string | null;
  readonly why: string;
}

export interface GpuEngine {
  open(options: GpuEngineOptions): Promise<OpenedCollectives>;
  /** Null where nobody answers. It never waits for long, and never throws. */
  ask(env: Readonly<Record<string, string | undefined>>): Promise<Ras | null>;
  /** `torch` is libtorch's folder. */
  find(torch: string, kind: GpuKind, env: Record<string, string>): FoundEngine;
}

const ENGINES: Parts<{ readonly engine: GpuEngine }> = PARTS.engines;

export async function gpuEngine(): Promise<GpuEngine> {
  const [part] = Object.values(ENGINES);
  if (part) return (await part.load()).engine;
  throw new UserError(
    "environment",
    "This hpctrain is built without NCCL, so ranks on GPUs can't communicate: start one rank, or add --device cpu.",
  );
}
