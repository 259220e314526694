// Puts a run together: data, model, optimizer, the checkpoint it goes on from, and where its files go.
// May import everything in core but commands.
import { dirname, join } from "@std/path";
import { UserError } from "../errors.ts";
import type { Libtorch } from "../../ffi/libraries/types.ts";
import { lockFolder } from "../../ffi/lock.ts";
import { endOnInterrupt } from "../../ffi/signals.ts";
import type { Device, Tensor } from "../../ffi/tensor.ts";
import { remove } from "../checkpoint/atomic.ts";
import type { Parts } from "../checkpoint/training_state.ts";
import { parseDuration } from "../config/duration.ts";
import type { Config } from "../config/settings.ts";
import { type Console, openConsole } from "../track/console.ts";
import { type EventLog, openEvents } from "../track/events.ts";
import type { Control } from "../dist/control/control.ts";
import type { Team } from "../dist/team.ts";
import { type LineageWriter, openLineage } from "../track/lineage_writer.ts";
import { type BatchPlan, planBatches, scaledLearningRate } from "./batch_math.ts";
import { build, type Built } from "./build.ts";
import { memoryInUse } from "./device.ts";
import { createEma } from "./ema.ts";
import { openFeed } from "./feed.ts";
import { type Places, placesOf } from "./names.ts";
import { createOptimizer } from "./optimizers/optimizer.ts";
import { combineOver } from "./parallel/combine.ts";
import { openReducer } from "./parallel/reducer.ts";
import { consoleOfRank, noEvents, noLineage, noSaver } from "./parallel/silent.ts";
import { openSharing, refuseSeparate, type Sharing } from "./parallel/sharing.ts";
import { startTogether } from "./parallel/start.ts";
import { openSyncNorms } from "./parallel/sync_norms.ts";
import { openTogether } from "./parallel/together.ts";
import { openZero } from "./parallel/zero.ts";
import { LossScaler } from "./precision.ts";
import type { Resume } from "./resume.ts";
import type { Run } from "./run.ts";
import { openSaver } from "./saver.ts";
import { scheduleOf } from "./schedule_of.ts";
import { freshCursor, startFrom } from "./start_from.ts";
import { watchRequests } from "./stop.ts";
import { alone, openVirtualShards } from "./virtual_shards.ts";

export interface Start {
  readonly config: Config;
  readonly preset: string | null;
  readonly device: Device;
  readonly libtorch: Libtorch;
  /** The checkpoint to go on from, and the run it belongs to; null starts afresh. */
  readonly resume: Resume | null;
  /** Threads that read data, where it is not in memory. */
  readonly loaders: number;
  /** The ranks that train together; null where this one is alone. */
  readonly team?: Team | null;
  readonly control?: Control | null;
  /** Lines about the settings, to be told with the others. */
  readonly notes: readonly string[];
  /** Unix seconds at which the process was started; now, if not given. */
  readonly began?: number;
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
  const { config, device, team = null, control = null } = start;
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const { training } = config;
  const built = build(config, device, world);
  const { arena, model, data, pass, amp } = built;
  const plan = planBatches(training, data.train.length, world);
  const peak = scaledLearningRate(training, plan.global);
  const schedule = scheduleOf(training, peak, plan, data.train.facts);
  const zero = team && config.distributed.zero > 0 ? openZero(config, arena, model, team) : null;
  const optimizer = zero?.optimizer ?? createOptimizer(training.optimizer, arena);
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
  const notes = [
    ...start.notes,
    ...data.notes,
    model.describe(),
    plan.said,
    ...(zero ? [zero.said] : []),
    ...precisionNote(built),
    ...shardsNote(config, plan),
  ];
  const first = rank === 0; // it alone reads checkpoints and writes the run's files
  const begun = first
    ? startFrom(start, { parts, plan, samples: data.train.length, resetEma: ema?.reset }, notes)
    : freshCursor();
  const cursor = team ? startTogether(team, parts, arena, ema?.average ?? null, begun, zero) : begun;
  const claimed = first ? claim(start) : null;
  const places = team?.hear(claimed, "the run's folders")[0] ?? claimed!;
  const record = first ? openRecord(start, places, cursor.step) : recordOfRank(rank, places);
  const { console, lineage, events } = record;
  const sharing = config.output.checkpoint_format === "sharded" ? shareSaves(start, places, parts) : null;
  const buffers = model.root.namedBuffers().map(([, t]) => t);
  const { virtual_shards: count } = training;
  const openShards = () => {
    const combine = team ? combineOver(team.collectives, count) : alone;
    return openVirtualShards({ count, rank, world, combine }, arena, buffers);
  };
  const shards = training.deterministic === "world" ? openShards() : null;
  if (pass.seeds && !shards) pass.seeds.share = rank; // a rank's samples are its shard of the batch
  const step = {
    pass,
    arena,
    optimizer,
    scaler,
    checkpointing: training.gradient_checkpointing,
    clipNorm: training.clip_norm,
    shards,
    reducer: team && !shards
      ? openReducer(arena, model, team.collectives, config.distributed.bucket_mb * MIB, zero?.owned)
      : null,
    zero,
    norms: team && training.sync_bn ? openSyncNorms(config, model, team.collectives, device) : null,
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
        lanes: lanesOf(built, config, plan, world),
      },
    }),
    plan,
    schedule,
    step,
    ema,
    cursor,
    events,
    lineage,
    console,
    // The files are the first rank's to see and to remove.
    requests: watchRequests(first ? places.logs : null, () => Deno.exit(130), (reason) => {
      endOnInterrupt(); // the save that follows may be long, and nothing of ours runs during it
      console.warn(`${reason}: stopping after a save. Ctrl-C now stops at once, without one.`);
    }),
    saver: first || sharing
      ? openSaver({ config, places, parts, cursor, schedule, events, console, gather: zero?.gather, sharing })
      : noSaver(zero?.gather),
    together: team && control && openTogether(team, control, buffers, device),
    memory: () => memoryInUse(device),
  };
  return { run, places, built, notes, resumedFrom: start.resume?.path ?? null };
}

const MIB = 2 ** 20;

/** Seconds for a part of a checkpoint: a disk may be slow where ranks are quick. */
const LEAST_PATIENCE = 600;

/** Rows of the samples that a part's first and last may be mixed with, read beside its own. */
const MATES = 2;

interface Record {
  readonly console: Console;
  readonly lineage: LineageWriter;
  readonly events: EventLog;
}

function shareSaves(
  { config, team = null, control = null }: Start,
  { checkpoints }: Places,
  parts: Parts,
): Sharing {
  if (team) refuseSeparate(checkpoints, team);
  const timeout = parseDuration(config.distributed.timeout, "seconds")!.count;
  return openSharing(parts, team, control, Math.max(timeout, LEAST_PATIENCE));
}

function openRecord(start: Start, { logs, ...places }: Places, step: number): Record {
  const { quiet, json } = start.config.output;
  const console = openConsole({ quiet, json });
  const lineage = openLineage(logs, lineageOf(start, { logs, ...places }, step, console.warn));
  const options = { warn: console.warn, mirror: console.event, observe: lineage.observe };
  return { console, lineage, events: openEvents(`${logs}/events.jsonl`, options) };
}

const recordOfRank = (rank: number, { logs }: Places): Record => ({
  console: consoleOfRank(rank, logs),
  lineage: noLineage,
  events: noEvents,
});

function lanesOf({ data }: Built, { training }: Config, plan: BatchPlan, world: number) {
  const { micro, global } = plan;
  const size = training.eval_batch_size || training.batch_size;
  const shards = training.deterministic === "world" ? training.virtual_shards / world : 1;
  const largest = Math.ceil(global / world / shards); // samples of a shard
  const train = {
    source: data.train,
    rows: Math.min(micro, largest) + MATES,
    parts: Math.min(shards, global) * Math.ceil(largest / micro),
  };
  return data.val ? [train, { source: data.val, rows: size, parts: 1 }] : [train];
}

function averagesByName(names: readonly string[], views: readonly Tensor[]): [string, Tensor][] {
  return names.map((name, i) => [name, views[i]]);
}

function precisionNote({ amp }: Built): string[] {
  return amp === "off" ? [] : [`Mixed precision: ${amp}`];
}

function shardsNote({ training }: Config, { global }: BatchPlan): string[] {
  if (training.deterministic !== "world") return [];
  const count = training.virtual_shards;
  const sizes = [...new Set([Math.floor(global / count), Math.ceil(global / count)])].join(" or ");
  return [
    `The same bits on any number of ranks that divides ${count}, each with as many threads: ` +
    `${count} virtual shards of ${sizes} samples`,
  ];
}

function lineageOf({ resume, began }: Start, { run }: Places, step: number, warn: (message: string) => void) {
  return {
    run,
    began: began ?? Date.now() / 1000,
    step,
    resumedFrom: resume?.path ?? null,
    parent: resume && resume.run === null
      ? { run: resume.from ?? null, checkpoint: resume.path, step }
      : null,
    warn,
  };
}

/** The run's places, which no other process writes to while this one lives. */
function claim({ config, preset, resume }: Start): Places {
  for (;;) {
    const places = placesOf(config, preset, resume?.run ?? null);
    refuseUnwritable(places.checkpoints);
    if (!makeLogs(places.logs, !resume?.run)) continue; // another run took the name just now
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
