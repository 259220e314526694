// A job from which the scripts of SLURM and PBS are rendered: plain data, complete, and the same for the same
// request.
import type { ShellWord } from "../../base/shell.ts";

export interface ScriptJob {
  /** For the head of the script. */
  readonly made: { readonly version: string; readonly command: readonly string[] };
  /** As the user calls it; a directive gets what is a name for a scheduler too. */
  readonly name: string;
  /** The executable, or what runs the sources. */
  readonly program: readonly string[];
  /** The command of the job: "train" and its flags, for example. */
  readonly words: readonly ShellWord[];
  /** Variables of the job's environment that stand for a flag of the command: [["EPOCHS", "epochs"], ...]. */
  readonly overrides: readonly (readonly [variable: string, flag: string])[];
  /** Variables that training understands and this command does not: refused where they are set. */
  readonly useless: readonly string[];
  /** Variables of the environment in which the job was made that gave way to a flag: they must not win now. */
  readonly gaveWay: readonly (readonly [variable: string, value: string])[];
  /** Variables of the environment in which the job was made; the job's own count more. */
  readonly inherited: readonly (readonly [variable: string, value: string])[];
  readonly layout: JobLayout;
  readonly limits: JobLimits;
  readonly site: Site;
  readonly ending: Ending;
  /** Folder of the output, below which slurm/ or pbs/ is. */
  readonly logs: string;
  /** True when stderr has a file of its own there. */
  readonly errFile: boolean;
  /** One job for each number from 0 to `last`, at most so many at once. */
  readonly array?: { readonly last: number; readonly atOnce?: number };
}

export interface JobLayout {
  readonly nodes: number;
  readonly ranksPerNode: number;
  /** A task is a rank, or one that starts the ranks of its node. */
  readonly tasks: "per-rank" | "per-node";
  /** 0: the job computes on CPUs. */
  readonly gpusPerNode: number;
  readonly gpuType: string;
  /** GPUs as the site writes them, instead of --gpus-per-node: "gpu:a100:4". */
  readonly gres: string;
  readonly cpusPerRank: number;
  /** Ranks talk by MPI, so what starts them has to know how. */
  readonly mpi: boolean;
}

/** An empty text leaves it to the site. */
export interface JobLimits {
  readonly time: string;
  readonly mem: string;
  readonly partition: string;
  readonly account: string;
  readonly qos: string;
  readonly constraint: string;
  readonly exclude: string;
  readonly reservation: string;
  readonly exclusive: boolean;
  /** Options of sbatch or qsub that nobody here looks into. */
  readonly more: readonly string[];
}

export interface Site {
  readonly modules: readonly string[];
  /** NAME=VALUE. */
  readonly env: readonly string[];
  /** Lines of shell, as they are. */
  readonly setup: readonly string[];
  readonly mail: string;
  readonly mailType: string;
  /** How srun starts MPI: "auto", or a name for --mpi. */
  readonly mpi: string;
  readonly pbs: Pbs;
}

export interface Pbs {
  readonly dialect: "pro" | "torque";
  readonly launch: "mpiexec" | "pals" | "pbsdsh";
  readonly place: string;
}

export interface Ending {
  /** For --signal: "USR1@120", or "none". */
  readonly signal: string;
  readonly requeue: boolean;
  readonly maxRequeues: number;
  readonly openMode: "append" | "truncate";
}

/** CPUs, memory and ranks are shared out among what a scheduler calls tasks. */
export function tasksOf({ nodes, ranksPerNode, tasks, cpusPerRank }: JobLayout) {
  return tasks === "per-rank"
    ? { perNode: ranksPerNode, all: nodes * ranksPerNode, cpus: cpusPerRank }
    : { perNode: 1, all: nodes, cpus: ranksPerNode * cpusPerRank };
}

/** Each character but letters, digits, dots, dashes and underscores becomes a dash; `most` characters at most. */
export function slug(name: string, most = 60): string {
  const plain = name.normalize("NFKD").replace(/[^\w.-]+/g, "-").replace(/^[^a-zA-Z0-9]+/, "");
  return plain.slice(0, most).replace(/[-.]+$/, "") || "hpctrain";
}
