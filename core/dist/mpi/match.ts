// Whether MPI sees the ranks that were started: a launcher and a library that don't match give as many silent worlds of
// one.
import { UserError } from "../../errors.ts";
import type { Opened } from "../cpu/engine.ts";
import type { Answer } from "../cpu/thread.ts";

/** The library and the place that it must agree with. */
export interface Started {
  readonly path: string;
  readonly rank: number;
  readonly world: number;
  /** Who numbered the ranks, in a sentence. */
  readonly said: string;
}

/** MPI works, and knows nothing of the other ranks. */
export class Singleton extends UserError {
  constructor(sentence: string, readonly version: string) {
    super("environment", sentence);
  }
}

/** What is right is given back; else a sentence about what is wrong. */
export function checkOpened(answer: Answer, { path, rank, world, said }: Started): Opened {
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
    throw new Singleton(
      `${world} ranks were started, but MPI counts ${size}: what started them and the MPI library don't match, and ` +
        `each would train alone. ${said} The library is ${version}, ${path}. ${
          srunMpi(said, version)
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
        `number. ${said} Don't give --rank or RANK to processes that mpirun or srun numbers.`,
    );
  }
  return answer;
}

/** srun speaks several languages, and each family of MPI understands one. */
const srunMpi = (said: string, version: string): string =>
  /^Ranks: from srun /.test(said)
    ? `Start them with srun --mpi=${
      /Open MPI/.test(version) ? "pmix" : "pmi2"
    } (\`srun --mpi=list\` says which this ` +
      "SLURM has). Or: "
    : "";
