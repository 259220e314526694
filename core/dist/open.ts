// Opens what the ranks communicate by: NCCL on GPUs; MPI, shared memory or TCP on CPUs; nothing for one rank alone.
import type { Device } from "../../ffi/tensor.ts";
import { UserError } from "../errors.ts";
import { alone } from "./alone.ts";
import type { Collectives } from "./collectives.ts";
import { type CpuBackend, type Meeting, openOnCpus } from "./cpu/open.ts";
import { type Flight, openFlight } from "./flight.ts";
import { type NcclNeeds, openNccl } from "./nccl/open.ts";
import type { Where } from "./where.ts";

export interface OpenOptions {
  readonly where: Where;
  readonly device: Device;
  /** --distributed-backend. */
  readonly backend: CpuBackend | "nccl";
  readonly env: Record<string, string>;
  /** For these collectives alone; left out, nobody looks at it. */
  readonly flight?: Flight;
  /** Seconds to wait for the other ranks: --timeout. */
  readonly timeout: number;
  /** Needed on GPUs. */
  readonly nccl?: NcclNeeds;
  /** Needed on CPUs without MPI: the control plane. */
  readonly meeting?: Meeting;
  /** What another rank has failed with, as the control plane knows it: who waits for that rank then ends. */
  readonly failed?: () => string | null;
}

/** Every rank calls it, and it comes to its end when all have. `said`: what was chosen, in a line or several. */
export async function openCollectives(
  { where, device, backend, env, flight = openFlight(), timeout, nccl, meeting, failed = () => null }:
    OpenOptions,
): Promise<{ collectives: Collectives; said: string }> {
  if (where.world === 1) {
    return { collectives: alone(), said: "One rank: there is nothing to communicate." };
  }
  if (device === "cpu") {
    if (backend === "nccl") {
      throw new UserError(
        "usage",
        "--distributed-backend nccl is for ranks on GPUs, and this one computes on its CPU: leave it out to have MPI, shared " +
          "memory or TCP.",
      );
    }
    return await openOnCpus({ where, backend, env, flight, timeout, meeting, failed });
  }
  if (backend !== "auto" && backend !== "nccl") {
    throw new UserError(
      "usage",
      `--distributed-backend ${backend} works on host memory, and this rank computes on ${device}: leave it out to have ` +
        "NCCL, or add --device cpu.",
    );
  }
  if (!nccl) throw new Error("internal: NCCL has no way to share its id.");
  return await openNccl({ where, device, env, flight, timeout, ...nccl });
}
