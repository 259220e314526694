// Opens what the ranks communicate by: NCCL on GPUs, MPI on CPUs, nothing for one rank alone. May import ffi, its
// siblings, errors.
import { findMpi, noMpiSentence } from "../../ffi/mpi/find.ts";
import type { Device } from "../../ffi/tensor.ts";
import { UserError } from "../errors.ts";
import { alone } from "./alone.ts";
import { cpusHere } from "./cpus.ts";
import type { Collectives } from "./collectives.ts";
import { type Flight, openFlight } from "./flight.ts";
import { openMpiEngine } from "./mpi/engine.ts";
import { type NcclNeeds, openNccl } from "./nccl/open.ts";
import type { Where } from "./where.ts";

export interface OpenOptions {
  readonly where: Where;
  readonly device: Device;
  /** --distributed-backend. */
  readonly backend: "auto" | "nccl" | "mpi";
  readonly env: Record<string, string>;
  /** For these collectives alone; left out, nobody looks at it. */
  readonly flight?: Flight;
  /** Seconds to wait for the other ranks: --timeout. */
  readonly timeout: number;
  /** Needed on GPUs. */
  readonly nccl?: NcclNeeds;
  /** What another rank has failed with, as the control plane knows it: who waits for that rank then ends. */
  readonly failed?: () => string | null;
}

/** Every rank calls it, and it comes to its end when all have. `said`: what was chosen, in a line or several. */
export async function openCollectives(
  { where, device, backend, env, flight = openFlight(), timeout, nccl, failed = () => null }: OpenOptions,
): Promise<{ collectives: Collectives; said: string }> {
  const { rank, world, said } = where;
  if (world === 1) return { collectives: alone(), said: "One rank: there is nothing to communicate." };
  if (backend === "nccl" && device === "cpu") {
    throw new UserError(
      "usage",
      "--distributed-backend nccl is for ranks on GPUs, and this one computes on its CPU: leave it out to have MPI.",
    );
  }
  if (backend !== "mpi" && device !== "cpu") {
    if (!nccl) throw new Error("internal: NCCL has no way to share its id.");
    return await openNccl({ where, device, env, flight, timeout, ...nccl });
  }
  if (device !== "cpu") {
    throw new UserError(
      "usage",
      `--distributed-backend mpi works on host memory, and this rank computes on ${device}: leave it out to have NCCL, ` +
        "or add --device cpu.",
    );
  }
  mustBeStartedByMpi(where, env);
  const { chosen, rejected } = findMpi(env);
  if (!chosen) throw new UserError("environment", noMpiSentence(rejected));
  const collectives = await openMpiEngine({
    path: chosen.path,
    rank,
    world,
    said,
    flight,
    timeout,
    crowded: where.localWorld > cpusHere(),
    failed,
  });
  return {
    collectives,
    said: `Communication: ${collectives.version} (${chosen.path}, ${chosen.from}).`,
  };
}

/** MPI would start, alone in each process, and that takes a while. */
function mustBeStartedByMpi({ world, said }: Where, env: Record<string, string>): void {
  if (Object.keys(env).some((name) => /^(OMPI|PMIX?|PALS|SLURM|MPI)_/.test(name))) return;
  throw new UserError(
    "usage",
    `${world} ranks on CPUs communicate by MPI, and nothing of MPI started them. ${said} ` +
      `Start them with \`hpctrain launch -n ${world} -- ...\`, \`mpirun -n ${world} hpctrain ...\` or ` +
      `\`srun -n ${world} hpctrain ...\`.`,
  );
}
