// A job as plain data, from which the scripts of SLURM and PBS are rendered.
import { formatPlural } from "../../base/format.ts";
import type { ShellWord } from "../../base/shell.ts";

export interface ScriptJob {
  readonly made: {
    readonly version: string;
    readonly command: readonly string[];
    /** As `uname -m` has it where the script is made: "x86_64" or "aarch64". */
    readonly architecture: string;
  };
  /** The flags of the line that made it which are about the job, and not its command's. */
  readonly jobFlags: readonly string[];
  /** Schedulers get a shortened form of it. */
  readonly name: string;
  readonly program: readonly string[];
  readonly words: readonly ShellWord[];
  /** Each variable of the job's environment stands for a flag: [["EPOCHS", "epochs"], ...]. */
  readonly overrides: readonly (readonly [variable: string, flag: string])[];
  /** The command ignores these settings, so the script refuses them. */
  readonly useless: readonly string[];
  /** A flag overrode these variables when the job was made, and must override them in the job. */
  readonly gaveWay: readonly (readonly [variable: string, value: string])[];
  /** The job's own variables override these. */
  readonly inherited: readonly (readonly [variable: string, value: string])[];
  readonly layout: JobLayout;
  readonly limits: JobLimits;
  readonly site: JobSite;
  readonly ending: Ending;
  /** Its subfolder slurm/ or pbs/ holds the output. */
  readonly logs: string;
  readonly errFile: boolean;
  readonly array?: { readonly last: number; readonly atOnce?: number };
}

export interface JobLayout {
  readonly nodes: number;
  readonly ranksPerNode: number;
  /** A task is a rank, or starts the ranks of its node. */
  readonly tasks: "per-rank" | "per-node";
  /** 0 means that the job computes on CPUs. */
  readonly gpusPerNode: number;
  readonly gpuType: string;
  /** It replaces --gpus-per-node in the site's own form: "gpu:a100:4". */
  readonly gres: string;
  readonly cpusPerRank: number;
  /** The starter of the ranks has to support MPI. */
  readonly mpi: boolean;
}

/** The site chooses where a text is empty. */
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
  /** Options of sbatch or qsub pass unchanged. */
  readonly more: readonly string[];
}

export interface JobSite {
  readonly modules: readonly string[];
  /** NAME=VALUE. */
  readonly env: readonly string[];
  /** Names alone: the scheduler brings the values that they have where the job is submitted, and no file has them. */
  readonly passed: readonly string[];
  readonly setup: readonly string[];
  readonly mail: string;
  readonly mailType: string;
  /** srun's --mpi: "auto", or a name. */
  readonly mpi: string;
  /** Options of srun pass unchanged. */
  readonly srun: readonly string[];
  readonly pbs: Pbs;
}

export interface Pbs {
  readonly dialect: "pro" | "torque";
  readonly launch: "mpiexec" | "pals" | "pbsdsh";
  readonly place: string;
}

interface Ending {
  /** For --signal: "USR1@120", or "none". */
  readonly signal: string;
  readonly requeue: boolean;
  readonly maxRequeues: number;
  readonly openMode: "append" | "truncate";
}

export function tasksOf({ nodes, ranksPerNode, tasks, cpusPerRank }: JobLayout) {
  return tasks === "per-rank"
    ? { perNode: ranksPerNode, all: nodes * ranksPerNode, cpus: cpusPerRank }
    : { perNode: 1, all: nodes, cpus: ranksPerNode * cpusPerRank };
}

/** Explains a scheduler's refusal: what it was asked for, and which option changes each part. */
export function requestSentence({ layout, limits }: ScriptJob): string {
  const { nodes, gpusPerNode } = layout, { perNode, cpus } = tasksOf(layout);
  const each = [
    `${perNode} x ${cpus} = ${perNode * cpus} cores (--cpus-per-task changes it)`,
    ...(gpusPerNode > 0 ? [`${formatPlural(gpusPerNode, "GPU")} (--gpus-per-node)`] : []),
    ...(limits.mem === "" ? [] : [`${limits.mem === "0" ? "all its" : limits.mem} memory (--mem)`]),
  ];
  const rest = [
    ...(limits.time === "" ? [] : [`for ${limits.time} (--time)`]),
    ...(limits.partition === "" ? [] : [`in ${limits.partition} (--partition)`]),
  ];
  return `It asked for ${formatPlural(nodes, "node")} (--nodes) with ${
    [each.join(", ") + " each", ...rest].join(", ")
  }.`;
}

/** Each character but letters, digits, dots, dashes and underscores becomes a dash. */
export function slug(name: string, most = 60): string {
  const plain = name.normalize("NFKD").replace(/\p{M}/gu, "").replace(/[^\w.-]+/g, "-").replace(
    /^[^a-zA-Z0-9]+/,
    "",
  );
  return plain.slice(0, most).replace(/[-.]+$/, "") || "hpctrain";
}

/** A job's errors stand beside its output (cluster.err_file). */
export const errBeside = (output: string): string => output.replace(/\.out$/, ".err");
