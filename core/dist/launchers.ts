// What each launcher's variables say of this process, unjudged: one line a launcher. May import errors and
// node_list.
import { UserError } from "../errors.ts";
import { expandCounts } from "./node_list.ts";

export type LauncherName = "torchrun" | "slurm" | "openmpi" | "pals" | "mpich";
/** A process's environment. */
export type Env = Readonly<Record<string, string | undefined>>;

export type Value = "rank" | "world" | "localRank" | "localWorld" | "node" | "nodes";

export interface Launcher {
  readonly name: LauncherName;
  /** What a person calls it. */
  readonly called: string;
  /** The variables of each value; the first that is set wins. */
  readonly names: Readonly<Record<Value, readonly string[]>>;
}

export interface Said extends Readonly<Partial<Record<Value, number>>> {
  readonly launcher: Launcher;
}

/** In the order in which they are believed where they say the same. */
const LAUNCHERS: readonly Launcher[] = [
  {
    name: "torchrun",
    called: "the environment",
    names: {
      rank: ["RANK"],
      world: ["WORLD_SIZE"],
      localRank: ["LOCAL_RANK"],
      localWorld: ["LOCAL_WORLD_SIZE"],
      node: ["GROUP_RANK", "NODE_RANK"],
      nodes: ["GROUP_WORLD_SIZE"],
    },
  },
  {
    name: "slurm",
    called: "srun",
    names: {
      rank: ["SLURM_PROCID"],
      // Of the step first: the others may be the allocation's.
      world: ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"],
      localRank: ["SLURM_LOCALID"],
      localWorld: [], // From a list, by slurmLocalWorld.
      node: ["SLURM_NODEID"],
      nodes: ["SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"],
    },
  },
  {
    name: "openmpi",
    called: "Open MPI",
    names: {
      rank: ["OMPI_COMM_WORLD_RANK"],
      world: ["OMPI_COMM_WORLD_SIZE"],
      localRank: ["OMPI_COMM_WORLD_LOCAL_RANK"],
      localWorld: ["OMPI_COMM_WORLD_LOCAL_SIZE"],
      node: [],
      nodes: [],
    },
  },
  {
    name: "pals",
    called: "PALS",
    names: {
      rank: ["PALS_RANKID"],
      world: ["PALS_SIZE", "PMI_SIZE"],
      localRank: ["PALS_LOCAL_RANKID"],
      localWorld: ["PALS_LOCAL_SIZE"],
      node: ["PALS_NODEID"],
      nodes: [],
    },
  },
  {
    name: "mpich",
    called: "MPICH's mpiexec",
    names: {
      rank: ["PMI_RANK"],
      world: ["PMI_SIZE"],
      localRank: ["MPI_LOCALRANKID", "PMI_LOCAL_RANK"],
      localWorld: ["MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"],
      node: [],
      nodes: [],
    },
  },
];

/** Those that say a rank. WORLD_SIZE counts alone too: somebody set it, and a world of one has but rank 0. */
export function launchersIn(env: Env): Said[] {
  return LAUNCHERS.filter(({ name }) => name !== "slurm" || inSlurmStep(env))
    .map((launcher) => said(launcher, env))
    .filter(({ rank, world, launcher: { name } }) =>
      rank !== undefined || (name === "torchrun" && world !== undefined)
    )
    .map((found) => found.rank === undefined && found.world === 1 ? { ...found, rank: 0 } : found);
}

/** The variable that says a value, and what it says: "SLURM_NTASKS is 4". */
export function quoted({ launcher }: Said, value: Value, env: Env): string {
  const name = launcher.names[value].find((name) => env[name]) ?? launcher.names[value][0];
  return `${name} is ${env[name] || "not set"}`;
}

/**
 * SLURM numbers the tasks of a step. In an allocation alone (a batch script, a login shell of salloc) its
 * variables are a promise: there the step is missing, or one of the two that SLURM makes for the script itself.
 */
export function inSlurmStep(env: Env): boolean {
  const step = env.SLURM_STEP_ID || env.SLURM_STEPID;
  return !!env.SLURM_PROCID && !!step && !/^(batch|interactive|extern|42949672\d\d)$/.test(step);
}

export function wholeNumber(env: Env, name: string): number | undefined {
  const text = env[name]?.trim();
  if (!text) return undefined;
  if (!/^\d{1,7}$/.test(text)) {
    throw new UserError(
      "usage",
      `${name} is "${text}": a whole number is expected. Launchers set it (srun, mpirun, torchrun); ` +
        "unset it to train in one process.",
    );
  }
  return Number(text);
}

function said(launcher: Launcher, env: Env): Said {
  const values = Object.entries(launcher.names).map(([value, names]) => {
    const name = names.find((name) => env[name]?.trim());
    return [value, name && wholeNumber(env, name)];
  });
  const found: Said = { launcher, ...Object.fromEntries(values) };
  return launcher.name === "slurm" ? { ...found, localWorld: slurmLocalWorld(found, env) } : found;
}

function slurmLocalWorld({ node, world }: Said, env: Env): number | undefined {
  const name = ["SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"].find((name) => env[name]);
  if (!name) return undefined;
  const counts = expandCounts(env[name]!, name);
  // The allocation's counts are not those of a smaller step.
  return counts.reduce((a, b) => a + b, 0) === world ? counts[node ?? 0] : undefined;
}
