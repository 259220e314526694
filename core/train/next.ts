// The commands that make sense when a run is over, to be pasted where its lines were printed.
import { programAsCalled } from "../cluster/script/program.ts";
import { quoted } from "../cluster/script/shell_words.ts";
import { calledAs } from "../dist/launch/rank.ts";
import type { Where } from "../dist/where.ts";
import { isThere } from "../there.ts";
import { stepsInAll } from "./batch_math.ts";
import { bestPath, latestPath } from "./names.ts";
import type { Prepared } from "./prepare.ts";
import type { Ending } from "./run.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** What stands before the program, between it and its flags, and behind them, in a command that starts as many ranks. */
export interface Started {
  readonly before: readonly string[];
  readonly command: readonly string[];
  readonly behind: readonly string[];
}

type Ranks = Pick<Where, "world" | "nodes" | "localWorld" | "launcher">;

/** `device`: what the ranks compute on. */
export function startedBy(
  { world, nodes, localWorld, launcher }: Ranks,
  device: "cpu" | "cuda",
  env: Env,
): Started {
  const bare: Started = { before: [], command: [], behind: [] };
  const batch = env.ENVIRONMENT === "BATCH" && env.SLURM_JOB_ID
    ? "sbatch"
    : env.PBS_ENVIRONMENT === "PBS_BATCH"
    ? "qsub"
    : null;
  if (batch !== null) { // its lines are read on a login node, where nothing is trained
    const each = device === "cuda" ? "--gpus-per-node" : "--ntasks-per-node";
    const partition = env.SLURM_JOB_PARTITION ? ["--partition", env.SLURM_JOB_PARTITION] : [];
    const size = ["--nodes", `${nodes}`, ...(world > 1 || device === "cuda" ? [each, `${localWorld}`] : [])];
    return { ...bare, command: [batch], behind: [...size, ...partition, "--submit"] };
  }
  const launched = calledAs();
  if (launched.length > 0) return { ...bare, command: launched };
  if (world === 1) return bare;
  if (launcher === "slurm") return { ...bare, before: ["srun", "-N", `${nodes}`, "-n", `${world}`] };
  return nodes === 1
    ? { ...bare, command: ["launch", "-n", `${world}`, "--"] }
    : { ...bare, before: ["mpirun", "-n", `${world}`] };
}

/** [what for, command line] */
export function nextCommands(
  prepared: Prepared,
  ending: Ending,
  /** Null where no command of ours does this run again. */
  argv: readonly string[] | null,
  started: Started,
): [string, string][] {
  const { run, places } = prepared;
  const best = isThere(bestPath(places)) && run.cursor.best ? bestPath(places) : latestPath(places);
  const libtorch = run.config.environment.libtorch;
  const same = libtorch !== "" && !Deno.env.get("HPCTRAIN_LIBTORCH") ? ["--libtorch", libtorch] : [];
  return [
    ...(argv === null ? [] : goingOn(prepared, ending, argv, started)),
    ...(run.val ? [["evaluate", line("eval", best, ...same)] as [string, string]] : []),
    ["look inside", line("inspect", latestPath(places))],
    ...(run.wandbFolder !== null && run.config.wandb.mode !== "online"
      ? [["upload to W&B", line("sync-wandb", run.wandbFolder)] as [string, string]]
      : []),
  ];
}

/**
 * By the path of the checkpoint: beside a run of the same name, `auto` may mean the other one.
 * A run that ended at a limit gets twice of it; one that stopped early would stop again, and gets nothing.
 */
function goingOn(
  { run: { cursor, config: { training }, plan }, places }: Prepared,
  { stopped }: Ending,
  argv: readonly string[],
  started: Started,
): [string, string][] {
  const resume = ["--resume", latestPath(places)];
  if (stopped) return [["go on", again(argv, resume, started)]];
  const { max_steps: most, epochs } = training;
  const longer = most > 0 && cursor.step >= most
    ? ["--max-steps", `${cursor.step * 2}`, ...moreEpochs(2 * cursor.step)]
    : cursor.epoch >= epochs
    ? ["--epochs", `${cursor.epoch * 2}`]
    : null;
  return longer === null ? [] : [["train on", again(argv, [...resume, ...longer], started)]];

  /** As many as those steps take. */
  function moreEpochs(steps: number): string[] {
    if (stepsInAll({ epochs, max_steps: 0 }, plan) >= steps) return [];
    return ["--epochs", `${Math.ceil(steps / plan.stepsPerEpoch)}`];
  }
}

/** The command that was given, with flags added or given another value. */
function again(
  argv: readonly string[],
  more: readonly string[],
  { before, command, behind }: Started,
): string {
  const all = [...more, ...behind];
  const given = (word: string | undefined) => word?.startsWith("--") && all.includes(word);
  const kept = argv.filter((word, i) => !given(word.split("=")[0]) && !given(argv[i - 1]));
  return [quoted(before), line(...command, ...kept, ...all)].filter((part) => part !== "").join(" ");
}

/** A command line to paste into a shell. */
const line = (...words: string[]): string => `${programAsCalled()} ${quoted(words)}`;
