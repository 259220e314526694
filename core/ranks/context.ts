// The rank context: this process's place among all ranks, from flags, else from the innermost launcher's
// environment.
import { messageOf, UserError } from "../base/errors.ts";
import {
  type Env,
  expandNodes,
  firstSet,
  inSlurmStep,
  type LauncherName,
  launchersIn,
  type LauncherValue,
  type LauncherValues,
  quoted,
  sameNode,
  uniqueNodes,
  wholeVariable,
} from "./launchers.ts";

/** This process's place among all ranks. */
export interface RankContext {
  /** From 0 to `world` - 1. */
  readonly rank: number;
  /** How many ranks there are. */
  readonly world: number;
  /** Its number among the ranks of its node. */
  readonly localRank: number;
  /** How many ranks its node has. */
  readonly localWorld: number;
  /** Number of this node, of `nodes`. */
  readonly node: number;
  /** How many nodes take part. */
  readonly nodes: number;
  /** In the launcher's order. Empty where several nodes take part and nothing names them. */
  readonly nodeNames: readonly string[];
  /**
   * Rank 0's address. The host is null where only MPI knows it; the port is null where rank 0 takes a free
   * one.
   */
  readonly master: { readonly host: string | null; readonly port: number | null };
  /** Who numbered the ranks. */
  readonly launcher: LaunchedRank["launcher"];
  /** The launcher and its variables, in the first line that a run prints. */
  readonly description: string;
}

/** Facts of the machine that no launcher's variable has. */
export interface Surroundings {
  /** The lines of PBS_NODEFILE. */
  readonly pbsNodes?: readonly string[];
  /** This machine's name. */
  readonly hostname: string;
}

/** A pure function of its arguments; without `around` it looks at this process. */
export function rankContext(
  env: Env,
  flags: PlaceFlags = {},
  around: Surroundings = surroundings(env),
): RankContext {
  const { pbsNodes = [], hostname } = around;
  const place = launchedRank(env, flags);
  const { rank, world, launcher, description } = place;
  if (world === 1) {
    const master = { host: flags.masterAddr ?? hostname, port: flags.masterPort ?? null };
    const alone = {
      localRank: flags.localRank ?? 0,
      localWorld: 1,
      node: 0,
      nodes: 1,
      nodeNames: [hostname],
    };
    return { rank, world, ...alone, master, launcher, description };
  }
  const list = nodeList(env, pbsNodes, place);
  const host = flags.masterAddr ?? (env.MASTER_ADDR?.trim() || undefined);
  const port = flags.masterPort ?? portIn(env) ?? null;
  const local = localRanks(place, flags, list.length || (loopback(host) ? 1 : undefined));
  const { localRank, localWorld } = local;
  const nodes = place.nodes ?? Math.min(list.length || world, Math.ceil(world / localWorld));
  const nodeNames = nodes === 1 ? [hostname] : list.length >= nodes ? list.slice(0, nodes) : [];
  const mine = nodeNames.findIndex((name) => sameNode(name, hostname));
  const node = place.node ?? (mine >= 0 ? mine : Math.min(nodes - 1, Math.floor(rank / localWorld)));
  const master = { host: host ?? nodeNames[0] ?? null, port };
  return { rank, world, localRank, localWorld, node, nodes, nodeNames, master, launcher, description };
}

/** An unset number is undefined. */
export function placeFlags(
  { rank, world_size, local_rank, master_addr, master_port }: {
    rank: number;
    world_size: number;
    local_rank: number;
    master_addr: string;
    master_port: number;
  },
): PlaceFlags {
  return {
    rank: rank < 0 ? undefined : rank,
    world: world_size || undefined,
    localRank: local_rank < 0 ? undefined : local_rank,
    masterAddr: master_addr || undefined,
    masterPort: master_port || undefined,
  };
}

/**
 * Where nothing says it, ranks fill one node after the other, each with the same number; or each has its own
 * node.
 */
function localRanks(place: LaunchedRank, flags: PlaceFlags, known: number | undefined) {
  const { rank, world } = place;
  // In `srun hpctrain --local-rank $SLURM_LOCALID` the batch shell writes the same number for all: srun's own counts.
  const given = place.localRank ?? flags.localRank;
  const nodes = place.nodes ?? known;
  const least = (given ?? 0) + 1;
  const localWorld = place.localWorld ?? Math.max(least, nodes ? Math.ceil(world / nodes) : 1);
  return { localRank: given ?? rank % localWorld, localWorld };
}

const loopback = (host: string | undefined) => host === undefined || /^(localhost|127\..*|::1)$/.test(host);

function nodeList(env: Env, pbsNodes: readonly string[], { launcher }: LaunchedRank): string[] {
  const ofStep = inSlurmStep(env) && (launcher === "slurm" || launcher === "torchrun");
  const names = [...(ofStep ? ["SLURM_STEP_NODELIST"] : []), "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
  const found = firstSet(names, env);
  return found ? expandNodes(found.value, found.name) : uniqueNodes(pbsNodes);
}

function portIn(env: Env): number | undefined {
  const port = wholeVariable(env, "MASTER_PORT");
  if (port === undefined || port <= 65535) return port || undefined;
  throw new UserError("usage", `MASTER_PORT is ${port}: ports end at 65535. Unset it to have one chosen.`);
}

const surroundings = (env: Env): Surroundings => ({ hostname: Deno.hostname(), pbsNodes: pbsNodesIn(env) });

/** The lines of the job's file of nodes: one for each rank that mpiexec would start. */
export function pbsNodesIn({ PBS_NODEFILE: path }: Env): string[] {
  if (!path) return [];
  try {
    return Deno.readTextFileSync(path).split("\n").map((line) => line.trim()).filter((line) => line !== "");
  } catch (cause) {
    // A job's variables outlive it in a shell that was opened inside; mpiexec gives the rest.
    if (cause instanceof Deno.errors.NotFound) return [];
    throw new UserError(
      "usage",
      `PBS_NODEFILE names ${path}, which can't be read: ${messageOf(cause)}.`,
    );
  }
}

/** The user's flags, or the values of a file; the rest is undefined. */
export interface PlaceFlags {
  /** --rank */
  readonly rank?: number;
  /** --world-size */
  readonly world?: number;
  /** --local-rank */
  readonly localRank?: number;
  /** --master-addr */
  readonly masterAddr?: string;
  /** --master-port */
  readonly masterPort?: number;
}

/**
 * An undefined value is unknown.
 * @internal
 */
interface LaunchedRank extends Readonly<Partial<Record<LauncherValue, number>>> {
  readonly rank: number;
  readonly world: number;
  readonly launcher: "flags" | LauncherName | "alone";
  readonly description: string;
}

type Whole = LauncherValues & { readonly rank: number; readonly world: number };

const NUMBERING = "srun (#SBATCH --ntasks-per-node=...), mpirun and torchrun number the ranks";

function launchedRank(env: Env, flags: PlaceFlags): LaunchedRank {
  const { rank, world } = flags;
  if (world !== undefined && (rank !== undefined || world === 1)) {
    const place = {
      rank: rank ?? 0,
      world,
      launcher: "flags",
      description: "Ranks: from --rank and --world-size.",
    } as const;
    return sound(place, [`--rank is ${place.rank}`, `--world-size is ${world}`]);
  }
  const found = launchersIn(env).map((values) => ({ ...values, world: values.world ?? world }));
  if (found.length === 0 && rank === undefined && world === undefined) {
    return { rank: 0, world: 1, launcher: "alone", description: alone(env) };
  }
  const place = found.length === 0 ? undefined : innermost(found, env);
  const flag = rank !== undefined && rank !== place?.rank
    ? `--rank is ${rank}`
    : world !== undefined && world !== place?.world
    ? `--world-size is ${world}`
    : "";
  if (place && flag === "") return place;
  const but = place
    ? `but this is rank ${place.rank} of ${place.world} by what started it. ${place.description} Give`
    : `and nothing says ${rank !== undefined ? "of how many" : "which rank this is"}: give`;
  throw new UserError(
    "usage",
    `${flag}, ${but} --rank and --world-size both to each process, or neither; ${NUMBERING}.`,
  );
}

/**
 * One launcher may work inside another: torchrun in each task of srun, mpirun whose daemons SLURM started.
 * The innermost one's ranks are the real ones. The outer one must have room for it: a smaller world, or an
 * inner launcher that counts its local ranks, which no `export RANK=0` in a batch script does.
 */
function innermost(found: readonly LauncherValues[], env: Env): LaunchedRank {
  const whole = found.filter((values): values is Whole =>
    values.rank !== undefined && values.world !== undefined
  );
  // SLURM's variables reach everything inside a step, and nothing starts srun inside.
  const inner = whole.find(({ launcher }) => launcher.name !== "slurm") ?? whole[0];
  if (!inner) throw incomplete(found[0], env);
  const agrees = ({ rank = inner.rank, world = inner.world }: LauncherValues) =>
    rank === inner.rank && world === inner.world;
  const outside = (other: LauncherValues) =>
    other.rank !== undefined && other.world !== undefined &&
    (inner.world > other.world || inner.localWorld !== undefined);
  const odd = found.find((other) => !agrees(other) && !outside(other));
  if (odd) throw disagree(inner, odd, env);
  const same = whole.filter(agrees);
  const [{ launcher }] = same;
  const by = [quoted(same[0], "rank", env), quoted(same[0], "world", env)] as const;
  // Two launchers that agree complete each other: one of them may lack LOCAL_RANK.
  const completed = Object.assign({}, ...same.toReversed().map(givenIn)) as Whole;
  return sound({
    ...completed,
    launcher: launcher.name,
    description: `Ranks: from ${launcher.called} (${by.join(", ")}).`,
  }, by);
}

const givenIn = (values: LauncherValues) =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));

function sound(place: LaunchedRank, [rankIs, worldIs]: readonly [string, string]): LaunchedRank {
  const { rank, world, localRank, localWorld = world, node, nodes = world } = place;
  const wrong = world < 1
    ? `${worldIs}: a world has one rank at least`
    : rank >= world
    ? `${rankIs} and ${worldIs}: ranks go from 0 to ${world - 1}`
    : localWorld > world || localWorld < 1
    ? `${worldIs}, but ${localWorld} ranks are said to be on this node`
    : localRank !== undefined && localRank >= localWorld
    ? `the local rank is ${localRank}, but this node has ${localWorld} ranks, from 0 to ${localWorld - 1}`
    : node !== undefined && node >= nodes
    ? `this is said to be node ${node}, but there are ${nodes}, from 0 to ${nodes - 1}`
    : "";
  if (wrong === "") return place;
  const from = place.launcher === "flags" ? "" : ` ${place.description}`;
  throw new UserError("usage", `These can't be: ${wrong}.${from} Don't set them by hand: ${NUMBERING}.`);
}

function incomplete(half: LauncherValues, env: Env): UserError {
  const { rank, launcher } = half;
  const [is, isNot] = rank === undefined ? ["world", "rank"] as const : ["rank", "world"] as const;
  return new UserError(
    "usage",
    `${quoted(half, is, env)}, but ${launcher.names[isNot].join(" or ")} is not set: a rank needs both. ` +
      `Unset ${setIn(half, env)} to train in one process; for more, ${NUMBERING}.`,
  );
}

function disagree(inner: LauncherValues, odd: LauncherValues, env: Env): UserError {
  const says = (values: LauncherValues) =>
    `${quoted(values, "rank", env)} and ${quoted(values, "world", env)}`;
  const byHand = [inner, odd].find(({ launcher }) => launcher.name === "torchrun");
  const other = byHand === inner ? odd : inner;
  const fix = byHand
    ? `Unset ${setIn(byHand, env)} and let ${other.launcher.called} number the ranks` +
      (other.launcher.name === "slurm" ? " (#SBATCH --ntasks-per-node=... says how many a node gets)." : ".")
    : `Use one of the two: with srun, #SBATCH --ntasks-per-node=... says how many ranks a node gets.`;
  return new UserError("usage", `Two launchers disagree: ${says(inner)}, but ${says(odd)}. ${fix}`);
}

const setIn = ({ launcher }: LauncherValues, env: Env) =>
  [...launcher.names.rank, ...launcher.names.world].filter((name) => env[name]).join(" and ");

function alone(env: Env): string {
  if (env.SLURM_JOB_ID) {
    const { SLURM_JOB_ID: job, SLURM_NTASKS: tasks = "1" } = env;
    return Number(tasks) > 1
      ? `One process; SLURM job ${job} has ${tasks} tasks, which srun would start.`
      : `One process, in SLURM job ${job}.`;
  }
  return env.PBS_JOBID
    ? `One process, in PBS job ${env.PBS_JOBID}; mpiexec would start one in each slot.`
    : "One process.";
}
