// Puts a run together: data, model, optimizer, the checkpoint it goes on from, and where its files go.
// May import everything in core but commands.
import { dirname, join } from "@std/path";
import { UserError } from "../errors.ts";
import type { Libtorch } from "../../ffi/libraries/types.ts";
import { lockFolder } from "../../ffi/lock.ts";
import { endOnInterrupt } from "../../ffi/signals.ts";
import type { Device, Tensor } from "../../ffi/tensor.ts";
import { remove } from "../checkpoint/atomic.ts";
import { openCheckpoint } from "../checkpoint/open.ts";
import { type Cursor, loadTraining, loadWeights, type Parts } from "../checkpoint/training_state.ts";
import type { Config } from "../config/settings.ts";
import { openConsole } from "../track/console.ts";
import { openEvents } from "../track/events.ts";
import { type BatchPlan, planBatches, scaledLearningRate } from "./batch_math.ts";
import { build, type Built } from "./build.ts";
import { memoryInUse } from "./device.ts";
import { createEma } from "./ema.ts";
import { openFeed } from "./feed.ts";
import { type Places, placesOf } from "./names.ts";
import { createOptimizer } from "./optimizers/optimizer.ts";
import { LossScaler } from "./precision.ts";
import type { Resume } from "./resume.ts";
import type { Run } from "./run.ts";
import { openSaver } from "./saver.ts";
import { scheduleOf } from "./schedule_of.ts";
import { watchRequests } from "./stop.ts";

export interface Start {
  readonly config: Config;
  readonly preset: string | null;
  readonly device: Device;
  readonly libtorch: Libtorch;
  /** The checkpoint to go on from, and the run it belongs to; null starts afresh. */
  readonly resume: Resume | null;
  /** Threads that read data, where it is not in memory. */
  readonly loaders: number;
  /** Lines about the settings, to be told with the others. */
  readonly notes: readonly string[];
}

export interface Prepared {
  readonly run: Run;
  readonly places: Places;
  readonly built: Built;
  /** The checkpoint it goes on from. */
  readonly resumedFrom: string | null;
  /** Lines about what was decided, in order. */
  readonly notes: readonly string[];
}

export function prepare(start: Start): Prepared {
  const { config, device } = start;
  const { training } = config;
  const built = build(config, device);
  const { arena, model, data, pass, amp } = built;
  const plan = planBatches(training, data.train.length, 1);
  const peak = scaledLearningRate(training, plan.global);
  const schedule = scheduleOf(training, peak, plan, data.train.facts);
  const optimizer = createOptimizer(training.optimizer, arena);
  const scaler = amp === "fp16"
    ? new LossScaler({
      init: training.loss_scale_init,
      growthInterval: training.loss_scale_growth_interval,
      min: training.loss_scale_min,
      maxSkipped: training.max_skipped_steps,
    }, device)
    : null;
  const ema = training.ema > 0 ? createEma(arena, training.ema) : null;
  const parts: Parts = {
    names: arena.names,
    stateDict: model.root.stateDict(),
    optimizer,
    scaler,
    ema: ema && averagesByName(arena.names, arena.viewsOf(ema.average)),
  };
  const notes = [...start.notes, ...data.notes, model.describe(), plan.said, ...precisionNote(built)];
  const cursor = startFrom(start, parts, ema?.reset, notes);
  const places = claim(start);
  const console = openConsole({ quiet: config.output.quiet, json: config.output.json });
  const events = openEvents(`${places.logs}/events.jsonl`, { warn: console.warn, mirror: console.event });
  const step = {
    pass,
    arena,
    optimizer,
    scaler,
    checkpointing: training.gradient_checkpointing,
    clipNorm: training.clip_norm,
    observe: null,
  };
  const run: Run = {
    name: places.run,
    config,
    train: data.train,
    val: data.val,
    feed: openFeed({
      device,
      channelsLast: built.channelsLast,
      loss: pass.loss,
      threads: {
        count: start.loaders,
        prefetch: config.data.prefetch_mib * MIB,
        lanes: lanesOf(built, config, plan),
      },
    }),
    plan,
    schedule,
    step,
    ema,
    cursor,
    events,
    console,
    requests: watchRequests(places.logs, () => Deno.exit(130), (reason) => {
      endOnInterrupt(); // the save that follows may be long, and nothing of ours runs during it
      console.warn(`${reason}: stopping after a save. Ctrl-C now stops at once, without one.`);
    }),
    saver: openSaver({ config, places, parts, cursor, schedule, events, console }),
    memory: () => memoryInUse(device),
  };
  return { run, places, built, notes, resumedFrom: start.resume?.path ?? null };
}

const MIB = 2 ** 20;

/** Rows of the samples that a part's first and last may be mixed with, read beside its own. */
const MATES = 2;

function lanesOf({ data }: Built, { training }: Config, plan: BatchPlan) {
  const { micro, global } = plan;
  const size = training.eval_batch_size || training.batch_size;
  const train = {
    source: data.train,
    rows: Math.min(micro, global) + MATES,
    parts: Math.ceil(global / micro),
  };
  return data.val ? [train, { source: data.val, rows: size, parts: 1 }] : [train];
}

function averagesByName(names: readonly string[], views: readonly Tensor[]): [string, Tensor][] {
  return names.map((name, i) => [name, views[i]]);
}

function precisionNote({ amp }: Built): string[] {
  return amp === "off" ? [] : [`Mixed precision: ${amp}`];
}

const fresh = (): Cursor => ({
  epoch: 0,
  step: 0,
  stepInEpoch: 0,
  samples: 0,
  sums: [],
  best: null,
  valLoss: null,
});

/** Loads what the run goes on from, or the weights it starts with. */
function startFrom(start: Start, parts: Parts, resetEma: (() => void) | undefined, notes: string[]): Cursor {
  const { resume, config: { training } } = start;
  if (resume) {
    using file = openCheckpoint(resume.path);
    const { cursor, notice } = loadTraining(parts, file.root, resume.path);
    notes.push(...[resume.notice, notice].filter((note) => note !== undefined));
    notes.push(`Resuming from ${resume.path}: epoch ${cursor.epoch}, step ${cursor.step}`);
    return cursor;
  }
  if (training.init_from) {
    using file = openCheckpoint(training.init_from);
    const { notice } = loadWeights(parts.stateDict, file.root, training.init_from);
    notes.push(...(notice ? [notice] : []), `Weights from ${training.init_from}`);
    resetEma?.();
  }
  return fresh();
}

/** The run's places, which no other process writes to while this one lives. */
function claim({ config, preset, resume }: Start): Places {
  for (;;) {
    const places = placesOf(config, preset, resume?.run ?? null);
    refuseUnwritable(places.checkpoints);
    if (!makeLogs(places.logs, resume === null)) continue; // another run took the name just now
    if (lockFolder(places.logs)) return places;
    throw new UserError(
      "usage",
      `Another process is training the run ${places.run} (it holds ${places.logs}). Wait for it, stop it with: ` +
        `touch ${places.logs}/STOP, or start a run of another name with --run-name.`,
    );
  }
}

/** False when a new run finds its folder there already. What else goes wrong is told by who writes there next. */
function makeLogs(logs: string, fresh: boolean): boolean {
  try {
    Deno.mkdirSync(dirname(logs), { recursive: true });
    Deno.mkdirSync(logs);
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return !fresh || !isFolder(logs);
  }
  return true;
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false; // a link to nowhere
  }
}

/** Found out now, not when the first epoch is over and can't be saved. */
function refuseUnwritable(folder: string): void {
  const probe = join(folder, `.probe-${Deno.pid}`);
  try {
    Deno.mkdirSync(folder, { recursive: true });
    try {
      Deno.writeFileSync(probe, new Uint8Array(4096)); // a full disk still takes an empty file
    } finally {
      remove(probe);
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split(" (os error")[0] : String(cause);
    throw new UserError(
      "usage",
      `Checkpoints can't be written to ${folder}: ${reason}. ` +
        "Name another folder with --save-dir DIR (or --model-dir DIR), or make room there.",
      { cause },
    );
  }
}
