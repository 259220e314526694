// From a rank on a CPU to its collectives by MPI: whether MPI can know these ranks, which library fits, what came of opening it.
import { findMpi, type MpiLibrary } from "../../../ffi/mpi/find.ts";
import type { Collectives } from "../collectives.ts";
import { openCpuEngine } from "../cpu/engine.ts";
import { MPI_TYPES } from "../cpu/ring.ts";
import { cpusHere } from "../cpus.ts";
import type { Flight } from "../flight.ts";
import type { Env } from "../launchers.ts";
import type { Where } from "../where.ts";
import { checkOpened } from "./match.ts";

/** MPI as one rank finds it. */
export type MpiHere =
  | { readonly library: MpiLibrary }
  | { readonly library: null; readonly why: string };

/** Only a launcher of MPI's can tell a rank of the others: by itself each would be a world of one. */
export function startedByMpi({ launcher, world }: Where, env: Env): boolean {
  // srun may have a plug-in that speaks to MPI and sets no variable of its own.
  if (launcher !== "torchrun" && launcher !== "flags" && launcher !== "alone") return true;
  return ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PALS_SIZE"].some((name) => Number(env[name]) === world);
}

export function mpiHere(where: Where, env: Record<string, string>): MpiHere {
  const started = startedByMpi(where, env);
  const { chosen, rejected } = findMpi(env);
  if (chosen && started) return { library: chosen };
  const why = chosen
    ? "MPI did not start them"
    : started && rejected.length > 0
    ? "no MPI was found that fits what started them"
    : "no MPI was found";
  return { library: null, why };
}

export interface ByMpi {
  readonly where: Where;
  readonly library: MpiLibrary;
  readonly flight: Flight;
  readonly timeout: number;
  readonly failed: () => string | null;
}

export async function openByMpi(
  { where, library: { path, from }, flight, timeout, failed }: ByMpi,
): Promise<{ collectives: Collectives; said: string }> {
  const { rank, world, said } = where;
  const transport = { by: "mpi", path, crowded: where.localWorld > cpusHere() } as const;
  const collectives = await openCpuEngine(
    { transport, rank, world, flight, timeout, types: MPI_TYPES, failed },
    (answer) => checkOpened(answer, { path, rank, world, said }),
  );
  return { collectives, said: `Communication: ${collectives.version} (${path}, ${from}).` };
}
