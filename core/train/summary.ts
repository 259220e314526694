// The first and last lines of a run, and the commands that make sense next.
import { EXIT } from "../base/errors.ts";
import { blockParameters, parameterCount } from "../models/model.ts";
import { percentages, type Spent, TIME_PART_LABELS } from "../run/account.ts";
import { startLine } from "../run/console.ts";
import { isPlain } from "../run/best.ts";
import { lossText } from "../run/live_line.ts";
import { VERSION } from "../base/version.ts";
import { graphMemory } from "./memory.ts";
import { bestPath, latestPath } from "./run_folder.ts";
import type { Trainer } from "./trainer.ts";
import type { Ending } from "./stop.ts";
import { pathExists } from "../base/files.ts";
import { commandWithoutSecrets, valuesWithoutSecrets, withoutSecrets } from "../base/secrets.ts";
import { programAsCalled, shellLine } from "../base/shell.ts";
import { formatBytes, formatDuration, formatPlural, formatValue } from "../base/format.ts";
import { jobLineIn } from "../ranks/job/scheduler.ts";
import { launchCommand } from "../ranks/launch/rank.ts";
import { versionOfUse } from "../../ffi/libraries/find.ts";
import type { RankContext } from "../ranks/context.ts";
import { goesBack } from "./restart.ts";
import { stepsInAll } from "./batches.ts";

interface Context {
  /** Null where a program of the user's own trains. */
  readonly argv: readonly string[] | null;
  readonly world: { readonly ranks: number; readonly device: "cpu" | "cuda" };
  readonly master: string | null;
  /** The keys are paths of settings. */
  readonly origins: Readonly<Record<string, string>>;
}

export function announce(
  trainer: Trainer,
  { argv, world, master, origins }: Context,
): void {
  const { launch, paths, data, model, plan, shortage, notes, compiling, lineage, config, cursor, gpu } =
    trainer;
  const { console, events, warn } = trainer, { libtorch, resume, again } = launch;
  console.line(startLine(world));
  if (world.ranks > 1 && master !== null) console.line(masterLine(master));
  for (const note of notes) console.line(note);
  console.line(`Run ${paths.run}: ${paths.logs}`);
  for (const line of lineage.lines) console.line(line);
  if (resume !== null || again) events.rewind(cursor);
  if (resume !== null) {
    events.emit({ kind: "resume", step: cursor.step, epoch: cursor.epoch, path: resume.path });
  }
  events.emit({
    kind: "run",
    run: paths.run,
    version: VERSION,
    command: commandWithoutSecrets(argv ?? []),
    model: model.name,
    parameters: parameterCount(model.root),
    block_parameters: blockParameters(model),
    world_size: world.ranks,
    device: world.device,
    libtorch: versionOfUse(libtorch),
    libtorch_from: `${libtorch.from}: ${libtorch.dir}`,
    host: Deno.hostname(),
    pid: Deno.pid,
    steps_per_epoch: plan.stepsPerEpoch,
    ...(data.validation && { validation: data.validation }),
    sample_orders: data.orders,
    ...(gpu && { gpu }),
  });
  events.emit({ kind: "config", config: valuesWithoutSecrets(config), origins });
  for (const message of compiling) {
    console.line(message);
    events.emit({ kind: "compiled", step: cursor.step, message });
  }
  for (const message of data.warnings) warn(message, cursor.step);
  if (shortage !== null) warn(shortage, cursor.step, "memory");
}

/** It is the last event of every run. */
export function exit(
  { cursor: { step, epoch, samples }, events, times }: Trainer,
  code: number,
  message: string,
  requeues = false,
): { seconds: number; spent: Spent } {
  events.emit(times.since(step, samples));
  const { seconds, spent } = times.whole();
  const more = requeues ? { requeues } as const : {};
  events.emit({
    kind: "exit",
    code,
    message: withoutSecrets(message),
    step,
    epoch,
    seconds,
    ...more,
    ...spent,
  });
  return { seconds, spent };
}

export function conclude(
  trainer: Trainer,
  ending: Ending,
  argv: readonly string[] | null,
  started: Started,
): void {
  const { cursor, console, paths } = trainer;
  const latest = latestPath(paths);
  // Another run's checkpoint may have had the best.
  const best = cursor.best && pathExists(bestPath(paths)) ? bestPath(paths) : null;
  const code = ending.stopped ? EXIT.stopped : EXIT.done;
  const requeues = goesBack(Deno.env.toObject(), ending, trainer.config.cluster.max_requeues);
  const { seconds, spent } = exit(trainer, code, ending.outcome, requeues);
  const [headline, ...rest] = runSummaryLines({
    outcome: ending.outcome,
    epochs: cursor.epoch,
    steps: cursor.step,
    seconds,
    best: cursor.best ? { ...cursor.best, ...monitoredIn(cursor) } : undefined,
    losses: trainer.losses,
    scaled: trainer.data.train.targetScale !== undefined,
    spent,
    onGpu: trainer.pass.onGpu,
    ...(trainer.pass.onGpu && { memory: { used: trainer.memory(), graphs: graphMemory(trainer) } }),
    files: [
      ["checkpoint", latest],
      ...(best ? [["best", best] as const] : []),
      ["events", `${paths.logs}/events.jsonl`],
      ...trainer.outputs.flatMap(({ name, path }) => path === null ? [] : [[name, path] as const]),
    ],
    next: nextCommands(trainer, ending, argv, started),
  });
  console.final(headline);
  const goodput = trainer.lineage.summary();
  if (goodput !== null) console.line(goodput);
  for (const line of rest) console.line(line);
}

type Env = Readonly<Record<string, string | undefined>>;

/** Words before the program, between it and its flags, and behind them. */
export interface Started {
  readonly before: readonly string[];
  readonly command: readonly string[];
  readonly behind: readonly string[];
  /** The launcher numbers the ranks, so flags of this one's place are no part of the line. */
  readonly numbered?: boolean;
}

const PLACE = ["--world-size", "--rank", "--local-rank", "--master-addr", "--master-port"];

type Ranks = Pick<RankContext, "world" | "nodes" | "localWorld" | "launcher">;

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
  if (batch !== null) { // its lines are read on a login node
    const each = device === "cuda" ? "--gpus-per-node" : "--ntasks-per-node";
    const made = jobLineIn(env);
    if (made) {
      const size = [
        ...(made.nodes === nodes ? [] : ["--nodes", `${nodes}`]),
        ...(made.ranks === localWorld ? [] : [each, `${localWorld}`]),
      ];
      return { ...bare, command: [batch, ...made.flags], behind: [...size, "--submit"], numbered: true };
    }
    // Somebody's own script: what the scheduler says of the job.
    const partition = env.SLURM_JOB_PARTITION ? ["--partition", env.SLURM_JOB_PARTITION] : [];
    const size = ["--nodes", `${nodes}`, ...(world > 1 || device === "cuda" ? [each, `${localWorld}`] : [])];
    const cores = env.SLURM_CPUS_PER_TASK ? ["--cpus-per-task", env.SLURM_CPUS_PER_TASK] : [];
    return {
      ...bare,
      command: [batch],
      behind: [...size, ...cores, ...partition, "--submit"],
      numbered: true,
    };
  }
  const launched = launchCommand();
  if (launched.length > 0) return { ...bare, command: launched };
  if (world === 1) return bare;
  if (launcher === "slurm") return { ...bare, before: ["srun", "-N", `${nodes}`, "-n", `${world}`] };
  return nodes === 1
    ? { ...bare, command: ["launch", "-n", `${world}`, "--"] }
    : { ...bare, before: ["mpirun", "-n", `${world}`] };
}

function nextCommands(
  trainer: Trainer,
  ending: Ending,
  argv: readonly string[] | null,
  started: Started,
): [string, string][] {
  const { paths, cursor, config, data } = trainer;
  const best = pathExists(bestPath(paths)) && cursor.best ? bestPath(paths) : latestPath(paths);
  const libtorch = config.environment.libtorch;
  const kept = argv?.includes("--sandbox") ? ["--sandbox"] : [];
  const same = libtorch !== "" && !Deno.env.get("HPCTRAIN_LIBTORCH") ? ["--libtorch", libtorch] : [];
  return [
    ...(argv === null ? [] : goingOn(trainer, ending, argv, started)),
    ...(data.val ? [["evaluate", line("eval", best, ...same, ...kept)] satisfies [string, string]] : []),
    ["report", line("report", paths.logs)],
    ["watch", line("watch", paths.logs)],
    ["look inside", line("inspect", latestPath(paths), ...kept)],
    ...trainer.outputs.flatMap(({ next }): [string, string][] =>
      next === null ? [] : [[next.label, line(...next.words)]]
    ),
  ];
}

/**
 * Beside a run of the same name, `auto` may mean the other one. A run that ended at a limit gets twice of it;
 * one that stopped early gets nothing.
 */
function goingOn(
  { cursor, config: { training }, plan, paths }: Trainer,
  { stopped }: Ending,
  argv: readonly string[],
  started: Started,
): [string, string][] {
  const resume = ["--resume", latestPath(paths)];
  if (stopped) return [["go on", again(argv, resume, started)]];
  const { max_steps: most, epochs } = training;
  const longer = most > 0 && cursor.step >= most
    ? ["--max-steps", `${cursor.step * 2}`, ...moreEpochs(2 * cursor.step)]
    : cursor.epoch >= epochs
    ? ["--epochs", `${cursor.epoch * 2}`]
    : null;
  return longer === null ? [] : [["train on", again(argv, [...resume, ...longer], started)]];

  function moreEpochs(steps: number): string[] {
    if (stepsInAll({ epochs, max_steps: 0 }, plan) >= steps) return [];
    return ["--epochs", `${Math.ceil(steps / plan.stepsPerEpoch)}`];
  }
}

/** Flags are added, or given another value. */
function again(
  argv: readonly string[],
  more: readonly string[],
  { before, command, behind, numbered = false }: Started,
): string {
  const all = [...more, ...behind], gone = [...all, ...(numbered ? PLACE : [])];
  const given = (word: string | undefined) =>
    word?.startsWith("--") && gone.includes(word.replaceAll("_", "-"));
  const kept = (words: readonly string[]) =>
    commandWithoutSecrets(words).filter((word, i) => !given(word.split("=")[0]) && !given(words[i - 1]));
  return [shellLine(before), line(...kept(command), ...kept(argv), ...all)].filter((part) => part !== "")
    .join(" ");
}

const line = (...words: string[]): string => `${programAsCalled()} ${shellLine(words)}`;

export function masterLine(host: string): string {
  return `Master node: ${host}`;
}

interface RunSummary {
  outcome: string;
  epochs: number;
  steps: number;
  seconds: number;
  /** `value` is of what is monitored in place of the validation loss. */
  best?: { epoch: number; valLoss: number; monitor?: string; value?: number };
  /** All losses are of scaled targets. */
  scaled?: boolean;
  losses?: {
    readonly step?: { readonly step: number; readonly loss: number };
    readonly epoch?: { readonly epoch: number; readonly loss: number };
  };
  /** `onGpu` marks the account as the host's. */
  spent?: Spent;
  onGpu?: boolean;
  /** The GPU's, in bytes: all that is in use, and what captured steps hold of it. */
  memory?: { used: number; graphs: number };
  files: readonly (readonly [what: string, path: string])[];
  next: readonly (readonly [why: string, command: string])[];
}

const monitoredIn = ({ judged }: Trainer["cursor"]) =>
  judged === undefined || judged.kept.length === 0 || isPlain({ name: judged.monitor, mode: judged.mode })
    ? {}
    : { monitor: judged.monitor, value: judged.kept[0].value };

/** --quiet keeps the first line. */
export function runSummaryLines(r: RunSummary): string[] {
  const done = `${formatPlural(r.epochs, "epoch")}, ${formatPlural(r.steps, "step")}`;
  const best = r.best
    ? ` Best ${
      r.best.monitor === undefined
        ? `Val Loss: ${lossText(r.best.valLoss, r.scaled)}`
        : `${r.best.monitor}: ${formatValue(r.best.value!)}`
    } at epoch ${r.best.epoch}.`
    : "";
  return [
    `${r.outcome} after ${formatDuration(r.seconds)}: ${done}.${best}`,
    ...timeLine(r),
    ...lossLine(r),
    ...memoryLine(r),
    ...table("Made", r.files),
    ...table("Next", r.next),
  ];
}

/** A step's loss and the mean over an epoch are different numbers. */
function lossLine({ losses: { epoch, step } = {}, scaled }: RunSummary): string[] {
  const parts = [
    ...(epoch ? [`${lossText(epoch.loss, scaled)} as the mean of epoch ${epoch.epoch}`] : []),
    ...(step ? [`${lossText(step.loss, scaled)} at step ${step.step}`] : []),
  ];
  return parts.length > 0 ? [`Training loss: ${parts.join(", ")}`] : [];
}

function timeLine({ spent, onGpu }: RunSummary): string[] {
  if (spent === undefined) return [];
  const parts = percentages(spent).map(([name, share]) => `${share.toFixed(1)}% ${TIME_PART_LABELS[name]}`);
  return [`Of that time${onGpu ? ", as the host saw it" : ""}: ${parts.join(", ")}`];
}

function memoryLine({ memory }: RunSummary): string[] {
  if (memory === undefined) return [];
  const { used, graphs } = memory;
  const part = graphs > 0 ? `, ${formatBytes(graphs)} of it for captured steps (--no-compile)` : "";
  return [`GPU memory in use at the end: ${formatBytes(used)}${part}`];
}

function table(title: string, rows: RunSummary["files"]): string[] {
  if (rows.length === 0) return [];
  const width = Math.max(...rows.map(([label]) => label.length));
  return [`${title}:`, ...rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}`)];
}
