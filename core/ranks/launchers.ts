// Launchers stand inside each other, as torchrun in each task of srun does: the innermost counts, and the others must agree with
// it or have room for it. Two processes that both take themselves for rank 0 hang, or write one file twice.
import { UserError } from "../base/errors.ts";

export type LauncherName = "torchrun" | "slurm" | "openmpi" | "pals" | "mpich";
/** A process's environment. */
export type Env = Readonly<Record<string, string | undefined>>;

/** Names a rank's own part of the launch's folder; only ranks that `hpctrain launch` started have it. */
export const LAUNCH_VARIABLE = "HPCTRAIN_LAUNCH";

export type LauncherValue = "rank" | "world" | "localRank" | "localWorld" | "node" | "nodes";

interface Launcher {
  readonly name: LauncherName;
  readonly called: string;
  readonly names: Readonly<Record<LauncherValue, readonly string[]>>;
}

export interface LauncherValues extends Readonly<Partial<Record<LauncherValue, number>>> {
  readonly launcher: Launcher;
}

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
      // The step's variables come first: the others may be the allocation's.
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

/**
 * Each of them gives a rank. WORLD_SIZE counts alone too: somebody set it, and a world of one has but rank 0.
 */
export function launchersIn(env: Env): LauncherValues[] {
  return LAUNCHERS.filter(({ name }) => name !== "slurm" || inSlurmStep(env))
    .map((launcher) => valuesOf(launcher, env))
    .filter(({ rank, world, launcher: { name } }) =>
      rank !== undefined || (name === "torchrun" && world !== undefined)
    )
    .map((found) => found.rank === undefined && found.world === 1 ? { ...found, rank: 0 } : found);
}

export function quoted({ launcher }: LauncherValues, value: LauncherValue, env: Env): string {
  const name = launcher.names[value].find((name) => env[name]) ?? launcher.names[value][0];
  return `${name} is ${env[name] || "not set"}`;
}

/**
 * SLURM numbers the tasks of a step. In an allocation alone (a batch script, a login shell of salloc) its
 * variables are a promise: there the step is missing, or one of the two that SLURM makes for the script
 * itself.
 */
export function inSlurmStep(env: Env): boolean {
  const step = env.SLURM_STEP_ID || env.SLURM_STEPID;
  return !!env.SLURM_PROCID && !!step && !/^(batch|interactive|extern|42949672\d\d)$/.test(step);
}

export function wholeVariable(env: Env, name: string): number | undefined {
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

function valuesOf(launcher: Launcher, env: Env): LauncherValues {
  const values = Object.entries(launcher.names).map(([value, names]) => {
    const name = names.find((name) => env[name]?.trim());
    return [value, name && wholeVariable(env, name)];
  });
  const found: LauncherValues = { launcher, ...Object.fromEntries(values) };
  return launcher.name === "slurm" ? { ...found, localWorld: slurmLocalWorld(found, env) } : found;
}

export function firstSet(names: readonly string[], env: Env): { name: string; value: string } | null {
  for (const name of names) {
    const value = env[name];
    if (value) return { name, value };
  }
  return null;
}

function slurmLocalWorld({ node, world }: LauncherValues, env: Env): number | undefined {
  const found = firstSet(["SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"], env);
  if (!found) return undefined;
  const counts = expandCounts(found.value, found.name);
  return counts.reduce((a, b) => a + b, 0) === world ? counts[node ?? 0] : undefined;
}

/** No machine has more nodes, so a longer list is a typing error. */
const MOST_NODES = 100_000;

/** Prints what `scontrol show hostnames` would. `from` is the variable that the list comes from. */
export function expandNodes(list: string, from: string): string[] {
  const names = cut(list, from, list).flatMap((item) => expandItem(item, from, list));
  if (names.length > MOST_NODES) throw broken(list, from, `it names ${names.length} nodes`);
  return names;
}

/** "2(x3),1" is two tasks on each of three nodes, then one on the fourth. */
export function expandCounts(list: string, from: string): number[] {
  return list.split(",").flatMap((part) => {
    const [whole, count, times = "1"] = part.trim().match(/^(\d+)(?:\(x(\d+)\))?$/) ?? [];
    if (!whole || Number(times) > MOST_NODES) {
      throw new UserError("usage", `${from} is "${list}": numbers such as "2(x3),1" are expected. Unset it.`);
    }
    return Array<number>(Number(times)).fill(Number(count));
  });
}

export function uniqueNodes(lines: readonly string[]): string[] {
  return [...new Set(lines.map((line) => line.trim()).filter((line) => line !== ""))];
}

/** A list may have "node1" where the machine's name is "node1.cluster.example". */
export function sameNode(a: string, b: string): boolean {
  const [short, other] = [a, b].map((name) => name.toLowerCase().split(".")[0]);
  const whole = a.includes(".") && b.includes(".");
  return whole ? a.toLowerCase() === b.toLowerCase() : short === other;
}

function cut(text: string, from: string, list: string): string[] {
  const items = [""];
  let depth = 0;
  for (const letter of text) {
    if (letter === "[") depth++;
    if (letter === "]") depth--;
    if (depth < 0) throw broken(list, from, "its brackets don't match");
    if (letter === "," && depth === 0) items.push("");
    else items[items.length - 1] += letter;
  }
  if (depth !== 0) throw broken(list, from, "its brackets don't match");
  return items.map((item) => item.trim()).filter((item) => item !== "");
}

/** "r[1-2]n[01-04]": the last bracket counts fastest. */
function expandItem(item: string, from: string, list: string): string[] {
  return item.split(/(\[[^\]]*\])/).reduce((starts, part) => {
    const ends = part.startsWith("[") ? expandRange(part.slice(1, -1), from, list) : [part];
    if (starts.length * ends.length > MOST_NODES) throw broken(list, from, "it names too many nodes");
    return starts.flatMap((start) => ends.map((end) => start + end));
  }, [""]);
}

function expandRange(ranges: string, from: string, list: string): string[] {
  return ranges.split(",").flatMap((range) => {
    const [whole, first, last = first] = range.trim().match(/^(\d+)(?:-(\d+))?$/) ?? [];
    const count = Number(last) - Number(first) + 1;
    if (!whole || !(count >= 1)) throw broken(list, from, `"${range}" is no range`);
    if (count > MOST_NODES) throw broken(list, from, `"${range}" names ${count} nodes`);
    // 001-012 keeps its zeros, 8-12 has none.
    return Array.from({ length: count }, (_, i) => String(Number(first) + i).padStart(first.length, "0"));
  });
}

function broken(list: string, from: string, why: string): UserError {
  return new UserError(
    "usage",
    `${from} is "${list}", and ${why}: a list such as "gpu[001-003,7],login1" is expected. ` +
      "The scheduler sets it; don't set it yourself.",
  );
}
