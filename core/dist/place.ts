// Rank and world: by flags, else by the innermost launcher; what can't be so is refused. May import errors,
// launchers.
import { UserError } from "../errors.ts";
import { type Env, type LauncherName, launchersIn, quoted, type Said, type Value } from "./launchers.ts";

/** What the user gave by flag or in a file; the rest is undefined. */
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
 * A place as it was told; what nobody told is undefined.
 * @internal
 */
export interface Place extends Readonly<Partial<Record<Value, number>>> {
  readonly rank: number;
  readonly world: number;
  readonly launcher: "flags" | LauncherName | "alone";
  readonly said: string;
}

type Whole = Said & { readonly rank: number; readonly world: number };

const NUMBERING = "srun (#SBATCH --ntasks-per-node=...), mpirun and torchrun number the ranks";

export function placeIn(env: Env, flags: PlaceFlags): Place {
  const { rank, world } = flags;
  // One rank needs no number.
  if (world !== undefined && (rank !== undefined || world === 1)) {
    const place = {
      rank: rank ?? 0,
      world,
      launcher: "flags",
      said: "Ranks: from --rank and --world-size.",
    } as const;
    return sound(place, [`--rank is ${place.rank}`, `--world-size is ${world}`]);
  }
  const told = launchersIn(env).map((said) => ({ ...said, world: said.world ?? world }));
  if (told.length === 0 && rank === undefined && world === undefined) {
    return { rank: 0, world: 1, launcher: "alone", said: alone(env) };
  }
  const place = told.length === 0 ? undefined : innermost(told, env);
  const flag = rank !== undefined && rank !== place?.rank
    ? `--rank is ${rank}`
    : world !== undefined && world !== place?.world
    ? `--world-size is ${world}`
    : "";
  if (place && flag === "") return place;
  const but = place
    ? `but this is rank ${place.rank} of ${place.world} by what started it. ${place.said} Give`
    : `and nothing says ${rank !== undefined ? "of how many" : "which rank this is"}: give`;
  throw new UserError(
    "usage",
    `${flag}, ${but} --rank and --world-size both to each process, or neither; ${NUMBERING}.`,
  );
}

/**
 * One launcher may work inside another: torchrun in each task of srun, mpirun whose daemons SLURM started. The
 * innermost one's ranks are the real ones. What says another thing must have room for it outside: a smaller
 * world, or an inner launcher that counts its local ranks, which no `export RANK=0` in a batch script does.
 */
function innermost(told: readonly Said[], env: Env): Place {
  const whole = told.filter((said): said is Whole => said.rank !== undefined && said.world !== undefined);
  // SLURM's variables reach everything that is started inside a step; nothing starts srun inside.
  const inner = whole.find(({ launcher }) => launcher.name !== "slurm") ?? whole[0];
  if (!inner) throw incomplete(told[0], env);
  const agrees = ({ rank = inner.rank, world = inner.world }: Said) =>
    rank === inner.rank && world === inner.world;
  const outside = (other: Said) =>
    other.rank !== undefined && other.world !== undefined &&
    (inner.world > other.world || inner.localWorld !== undefined);
  const odd = told.find((other) => !agrees(other) && !outside(other));
  if (odd) throw disagree(inner, odd, env);
  const same = whole.filter(agrees);
  const [{ launcher }] = same;
  const by = [quoted(same[0], "rank", env), quoted(same[0], "world", env)] as const;
  // Of two that agree, one may say what the other leaves out: LOCAL_RANK, say.
  const completed = Object.assign({}, ...same.toReversed().map(given)) as Whole;
  return sound({
    ...completed,
    launcher: launcher.name,
    said: `Ranks: from ${launcher.called} (${by.join(", ")}).`,
  }, by);
}

const given = (said: Said) =>
  Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));

function sound(place: Place, [rankIs, worldIs]: readonly [string, string]): Place {
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
  const from = place.launcher === "flags" ? "" : ` ${place.said}`;
  throw new UserError("usage", `These can't be: ${wrong}.${from} Don't set them by hand: ${NUMBERING}.`);
}

function incomplete(half: Said, env: Env): UserError {
  const { rank, launcher } = half;
  const [is, isNot] = rank === undefined ? ["world", "rank"] as const : ["rank", "world"] as const;
  return new UserError(
    "usage",
    `${quoted(half, is, env)}, but ${launcher.names[isNot].join(" or ")} is not set: a rank needs both. ` +
      `Unset ${setIn(half, env)} to train in one process; for more, ${NUMBERING}.`,
  );
}

function disagree(inner: Said, odd: Said, env: Env): UserError {
  const says = (said: Said) => `${quoted(said, "rank", env)} and ${quoted(said, "world", env)}`;
  const byHand = [inner, odd].find(({ launcher }) => launcher.name === "torchrun");
  const other = byHand === inner ? odd : inner;
  const fix = byHand
    ? `Unset ${setIn(byHand, env)} and let ${other.launcher.called} number the ranks` +
      (other.launcher.name === "slurm" ? " (#SBATCH --ntasks-per-node=... says how many a node gets)." : ".")
    : `Use one of the two: with srun, #SBATCH --ntasks-per-node=... says how many ranks a node gets.`;
  return new UserError("usage", `Two launchers disagree: ${says(inner)}, but ${says(odd)}. ${fix}`);
}

const setIn = ({ launcher }: Said, env: Env) =>
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
