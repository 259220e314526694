// MPI as an engine of ranks on CPUs, where it started them: they are counted, and it moves their data.
import { findMpi, type MpiLibrary, noMpiSentence } from "../../../ffi/mpi/find.ts";
import { mpiVersion } from "../../../ffi/mpi/mpi.ts";
import { MPI_TYPES } from "../../../ffi/ranks/ring.ts";
import { cpuCount } from "../../base/topology.ts";
import { UserError } from "../../base/errors.ts";
import type { OpenedCollectives } from "../collectives.ts";
import type { RankContext } from "../context.ts";
import type { CpuOptions, OutOfBand } from "../cpu/backends.ts";
import { openCpuEngine, type OpenedTransport } from "../cpu/engine.ts";
import type { CpuThreadAnswer } from "../cpu/thread.ts";
import type { MpiEngine, MpiOffer } from "../engines.ts";
import type { Env } from "../launchers.ts";
import { mpiLauncher } from "./launcher.ts";

export const engine: MpiEngine = {
  find: findMpi,
  version: mpiVersion,
  launcher: mpiLauncher,
  open: (options) => openMpiCollectives(options, namedMpi(options)),
  offer,
};

function namedMpi({ where, env, requested }: CpuOptions): MpiLibrary {
  const { world, description } = where;
  if (!startedByMpi(where, env)) {
    throw new UserError(
      "usage",
      `${requested.by}, and nothing of MPI started these ${world} ranks. ${description} Start them with \`mpirun -n ` +
        `${world} hpctrain ...\` or \`srun -n ${world} hpctrain ...\`; or ${requested.undo}, and they communicate by ` +
        "shared memory on one node and by TCP between nodes.",
    );
  }
  const { chosen, rejected } = findMpi(env);
  if (!chosen) throw new UserError("environment", noMpiSentence(rejected, requested));
  return chosen;
}

/** Only MPI's own launcher lets a rank know of the others: by itself each would be a world of one. */
function startedByMpi({ launcher, world }: RankContext, env: Env): boolean {
  // srun may have a plug-in that speaks to MPI and sets no variable of its own.
  if (launcher !== "torchrun" && launcher !== "flags" && launcher !== "alone") return true;
  return ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PALS_SIZE"].some((name) => Number(env[name]) === world);
}

function offer(where: RankContext, env: Record<string, string>): MpiOffer | string {
  const started = startedByMpi(where, env);
  const { chosen, rejected } = findMpi(env);
  if (chosen && started) {
    return {
      open: (options) => openMpiCollectives(options, chosen),
      attempt: (options, meeting) => attempt(options, meeting, chosen),
    };
  }
  return chosen
    ? "MPI did not start them"
    : started && rejected.length > 0
    ? "no MPI was found that fits what started them"
    : "no MPI was found";
}

async function attempt(
  options: CpuOptions,
  meeting: OutOfBand,
  library: MpiLibrary,
): Promise<OpenedCollectives | string> {
  const opened = await openMpiCollectives(options, library).catch((error: unknown) => {
    if (error instanceof SingletonMpi && !options.env.HPCTRAIN_MPI) return error;
    throw error;
  });
  const alone = meeting.gather("MPI is open", opened instanceof SingletonMpi);
  if (!(opened instanceof SingletonMpi)) return opened;
  if (!alone.every(Boolean)) throw opened;
  return `what started them has not told ${opened.version} about them${
    options.where.launcher === "slurm" ? " (srun --mpi=pmix or pmi2 would)" : ""
  }`;
}

async function openMpiCollectives(
  { where, flight, timeout, failed }: CpuOptions,
  { path, from }: MpiLibrary,
): Promise<OpenedCollectives> {
  const { rank, world, description, launcher } = where;
  const module = new URL("../../../ffi/mpi/mpi.ts", import.meta.url).href;
  const transport = { by: "mpi", module, path, crowded: where.localWorld > cpuCount() } as const;
  const collectives = await openCpuEngine(
    { transport, rank, world, flight, timeout, types: MPI_TYPES, failed },
    (answer) => checkOpened(answer, { path, rank, world, description, launcher }),
  );
  return { collectives, notes: [`Communication: ${collectives.version} (${path}, ${from}).`] };
}

// MPI must count the ranks that were started: a launcher and a library that don't match give as many silent
// worlds of one.

interface MpiStart {
  readonly path: string;
  readonly rank: number;
  readonly world: number;
  readonly description: string;
  readonly launcher: RankContext["launcher"];
}

class SingletonMpi extends UserError {
  constructor(sentence: string, readonly version: string) {
    super("environment", sentence);
  }
}

function checkOpened(
  answer: CpuThreadAnswer,
  { path, rank, world, description, launcher }: MpiStart,
): OpenedTransport {
  if ("failed" in answer) {
    throw new UserError(
      "environment",
      `MPI could not be started: ${answer.failed} (${path}). ` +
        "HPCTRAIN_MPI=/path/to/libmpi.so names another library; it must be that of the launcher.",
    );
  }
  if ("closed" in answer) throw new Error("internal: MPI was closed before it was open.");
  const { version, size } = answer;
  if (size !== world) {
    throw new SingletonMpi(
      `${world} ranks were started, but MPI counts ${size}: what started them and the MPI library don't match, and ` +
        `each would train alone. ${description} The library is ${version}, ${path}. ${
          launcher === "slurm" ? srunMpi(version) : ""
        }Start the ranks with ` +
        `that library's own mpiexec, or with \`hpctrain launch -n ${world} -- ...\`; or name the library of your launcher with ` +
        "HPCTRAIN_MPI=/path/to/libmpi.so.",
      version,
    );
  }
  if (answer.rank !== rank) {
    throw new UserError(
      "environment",
      `This is rank ${rank} by what started it and rank ${answer.rank} to MPI (${version}): every rank must have one ` +
        `number. ${description} Don't give --rank or RANK to processes that mpirun or srun numbers.`,
    );
  }
  return answer;
}

/** srun speaks several protocols, and each family of MPI understands one. */
const srunMpi = (version: string): string =>
  `Start them with srun --mpi=${
    /Open MPI/.test(version) ? "pmix" : "pmi2"
  } (\`srun --mpi=list\` says which this ` +
  "SLURM has). Or: ";
