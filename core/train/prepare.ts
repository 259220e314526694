// Puts a run together: model, optimizer, schedule, checkpoint, instruments and files.
import type { Libtorch } from "../../ffi/libraries/find.ts";
import { endOnInterrupt } from "../../ffi/libc.ts";
import type { Device, Tensor } from "../../ffi/tensor.ts";
import { parseDuration } from "../settings/setting.ts";
import type { Resolved } from "../settings/resolve.ts";
import type { Config } from "../settings/settings.ts";
import type { Cursor, Parts } from "../checkpoint/training_state.ts";
import type { Control } from "../ranks/control/control.ts";
import type { Team } from "../ranks/team.ts";
import type { Console } from "../run/console.ts";
import { type BatchPlan, isUnfinished, planBatches, precisionNote, shardsNote } from "./batches.ts";
import { answersOf, build, type Built } from "./build.ts";
import { abandon, claim, latestPath, type RunPaths } from "./run_folder.ts";
import { memoryInUse } from "./device.ts";
import { lanesOf, openFeed } from "./feed.ts";
import { openHistograms, openPictures } from "./wandb_media.ts";
import { pausesIn } from "./pauses.ts";
import { type GoBack, type Guard, openGuard } from "./guards/spikes.ts";
import { openProfile, type Profile, profiledSteps } from "./profile.ts";
import { type GradientStrategy, plainGradients } from "./gradients/strategy.ts";
import { alone, combineOver, openVirtualShards, shardedGradients } from "./gradients/virtual_shards.ts";
import { openReducer, overlappedGradients } from "./gradients/overlapped.ts";
import { openSaver, openSharing, refuseSeparate, type Sharing } from "./save.ts";
import { noSaver, openRankGroup, startTogether } from "./rank_group.ts";
import { openSyncNorms } from "./gradients/sync_norms.ts";
import { rateLine, scaledLearningRate, type Schedule, scheduleOf } from "./schedule.ts";
import { openRecord, type Record, recordOfRank, runFactsOf } from "./record.ts";
import { type OpenOutput, type Output, wantsOf } from "../run/output.ts";
import { freshCursor, type Resume, startFrom } from "./resume.ts";
import type { Run } from "./run.ts";
import { stopSignals, watchRequests } from "./stop.ts";
import { pathExists } from "../base/files.ts";
import { createEma, createOptimizer, type Ema, type Optimizer } from "./optimizers.ts";
import { checkMemory } from "./memory.ts";
import { openZero, partitionedGradients, type Zero } from "./gradients/zero.ts";
import { type Amp, LossScaler } from "./precision.ts";
import { cudaName } from "../../ffi/cuda.ts";
import type { Facts } from "../models/model.ts";
import { type Account, openAccount, openTimes, type Times, type Waits } from "../run/account.ts";
import { type Flops, openFlops, peakOf } from "./throughput.ts";

// Puts a run together: what is trained, the checkpoint it goes on from, how a step is made, and where its files go.

export interface Start {
  readonly config: Config;
  readonly preset: string | null;
  readonly device: Device;
  readonly libtorch: Libtorch;
  /** The checkpoint to go on from, and the run it belongs to; null starts afresh. */
  readonly resume: Resume | null;
  /** The run that begins again under its name, without a checkpoint. */
  readonly again?: string | null;
  /** Threads that read data, where it is not in memory. */
  readonly loaders: number;
  /** The ranks that train together; null where this one is alone. */
  readonly team?: Team | null;
  readonly control?: Control | null;
  /** Ranks on this machine, this one included; all there are, if not given. */
  readonly ranksHere?: number;
  /** What the command has registered beside events.jsonl. */
  readonly outputs: readonly OpenOutput[];
  /** Lines about the settings, to be told with the others. */
  readonly notes: readonly string[];
  /** Where a setting is from, in words. */
  readonly originText?: Resolved["originText"];
  /** Unix seconds at which the process was started; now, if not given. */
  readonly began?: number;
}

export interface Prepared {
  readonly run: Run;
  readonly places: RunPaths;
  readonly built: Built;
  /** The checkpoint it goes on from. */
  readonly resumedFrom: string | null;
  /** Whether it begins again under the name of a run that ended before its first save. */
  readonly again: boolean;
  /** Why memory may run out; null where it will not. */
  readonly shortage: string | null;
  /** Lines about what was decided, in order. */
  readonly notes: readonly string[];
}

const MIB = 2 ** 20;

/** Seconds for a part of a checkpoint: a disk may be slow where ranks are quick. */
const LEAST_PATIENCE = 600;

export function prepare(start: Start): Prepared {
  const { config, device, team = null, control = null } = start;
  const trained = openTrained(config, device, team, start.ranksHere ?? team?.world ?? 1);
  const { built, plan, schedule, zero, ema, parts } = trained;
  const { model, data, pass } = built;
  const rate = start.originText ? [rateLine(config.training, plan.global, start.originText)] : [];
  const notes = [...start.notes, ...trained.notes, ...rate];
  const first = (team?.rank ?? 0) === 0; // it alone reads checkpoints and writes the run's files
  const cursor = begin(start, trained, notes);
  const idle = !isUnfinished(config.training, cursor); // a finished run that is started once more is no attempt at it
  const feed = openFeed({
    device,
    channelsLast: built.channelsLast,
    loss: pass.loss,
    threads: {
      count: start.loaders,
      prefetch: config.data.prefetch_mib * MIB,
      lanes: lanesOf(built, config, plan, team?.world ?? 1),
    },
  });
  const measured = openInstruments(config, data.train.facts, cursor, {
    device,
    amp: built.amp,
    world: team?.world ?? 1,
    waits: { data: feed.waited, communication: team?.collectives.waited ?? (() => 0) },
  });
  const gradients = gradientsOf(start, trained, measured.account);
  // What a setting can be refused for comes before: from here on the run has a name and files.
  const claimed = first ? claim(start) : null;
  const places = team?.hear(claimed, "the run's folders")[0] ?? claimed!;
  const [sharing, record] = orAbandon(start, places, () => [
    config.output.checkpoint_format === "sharded" ? shareSaves(start, places, parts) : null,
    first
      ? openRecord(start, places, cursor.step, idle, idle ? [] : openOutputs(start, trained, places, cursor))
      : recordOfRank(start, places),
  ]);
  const id = record.outputs.find(({ id }) => id !== null)?.id ?? null;
  const wandb = team?.hear(id, "the W&B run's id")[0] ?? id; // in each rank's part of a checkpoint
  const wants = wantsOf(record.outputs);
  const histograms = wants.histograms === 0 ? null : openHistograms(wants.histograms, record.events.note);
  const run: Run = {
    name: places.run,
    config,
    train: data.train,
    val: data.val,
    feed,
    plan,
    schedule,
    pass,
    gradients,
    optimizer: trained.optimizer,
    scaler: trained.scaler,
    clipNorm: config.training.clip_norm,
    // Of a rank that updates a part of the weights, the gradients are a part too.
    inspect: (step, own) => histograms?.(step, built.arena, zero ? [] : own),
    ema,
    pictures: openPictures(data.val, wants.pictures, record.events.note),
    ...measured,
    profile: profileOf(start, measured, places, record.console),
    goBack: () => goBack(start, trained, latestPath(places)),
    cursor,
    ...record,
    requests: requestsOf(first ? places.logs : null, record.console, {
      signals: config.cluster.stop_signals,
      busy: pausesIn(plan, gradients.shards) > 0,
    }),
    saver: first || sharing
      ? openSaver({
        config,
        places,
        parts,
        cursor,
        schedule,
        ...record,
        wandb,
        normalisation: data.normalisation,
        answers: answersOf(data.train),
        gather: zero?.gather,
        sharing,
      })
      : noSaver(zero?.gather),
    together: team && control && openRankGroup(team, control, buffersOf(model), device),
    ranksHere: start.ranksHere ?? team?.world ?? 1,
    memory: () => memoryInUse(device),
  };
  const shortage = first ? trained.shortage : null; // all ranks have the same
  return {
    run,
    places,
    built,
    shortage,
    notes,
    resumedFrom: start.resume?.path ?? null,
    again: !!start.again,
  };
}

function openOutputs(start: Start, trained: Trained, places: RunPaths, cursor: Cursor): Output[] {
  const facts = runFactsOf(start, trained, places, cursor);
  return start.outputs.map((open) => open(facts)).filter((output) => output !== null);
}

/** Where that fails, a new run's name is free again. */
function orAbandon(
  { resume, again, team }: Start,
  places: RunPaths,
  open: () => [Sharing | null, Record],
): [Sharing | null, Record] {
  try {
    return open();
  } catch (error) {
    if (!resume && !again && (team?.rank ?? 0) === 0) abandon(places);
    throw error;
  }
}

const buffersOf = ({ root }: Built["model"]) => root.namedBuffers().map(([, t]) => t);

/** Where the run begins: rank 0 reads it, and the others get it from there. */
function begin(start: Start, { built, plan, parts, zero, ema }: Trained, notes: string[]) {
  const { team } = start;
  const samples = built.data.train.length;
  const begun = (team?.rank ?? 0) === 0
    ? startFrom(start, { parts, plan, samples, resetEma: ema?.reset }, notes)
    : freshCursor();
  return team ? startTogether(team, parts, built.arena, ema?.average ?? null, begun, zero) : begun;
}

function profileOf(
  { config: { training }, team = null }: Start,
  { account }: Instruments,
  { logs }: RunPaths,
  { line, warn }: Console,
): Profile | null {
  if (!training.profile_training) return null;
  return openProfile({
    steps: profiledSteps(training.profile_steps),
    account,
    team,
    flight: team?.flight ?? null,
    logs,
    line,
    warn,
  });
}

/** The checkpoint's weights once more, on every rank; null where there is none yet. */
function goBack(start: Start, trained: Trained, path: string): ReturnType<GoBack> {
  const { team } = start;
  const here = (team?.rank ?? 0) === 0 && pathExists(path);
  if (!(team?.hear(here, "a checkpoint to go back to")[0] ?? here)) return null;
  const { step } = begin({ ...start, resume: { path, run: null } }, trained, []);
  return { step, path };
}

function gradientsOf(
  { config, device, team = null }: Start,
  { built: { arena, model, pass }, scaler, zero }: Trained,
  account: Account,
): GradientStrategy {
  const { training, distributed } = config;
  const options = { pass, arena, scaler, checkpointing: training.gradient_checkpointing };
  const norms = team && training.sync_bn ? openSyncNorms(config, model, team.collectives, device) : null;
  if (training.deterministic === "world") {
    const count = training.virtual_shards, { rank, world } = team ?? { rank: 0, world: 1 };
    const combine = team ? combineOver(team.collectives, count) : alone;
    const shards = openVirtualShards({ count, rank, world, combine }, arena, buffersOf(model));
    return shardedGradients(shards, options);
  }
  if (pass.seeds) pass.seeds.share = team?.rank ?? 0; // a rank's samples are its shard of the batch
  if (team === null) return plainGradients(options);
  const reducer = openReducer(arena, model, team.collectives, distributed.bucket_mb, zero?.owned);
  const overlapped = overlappedGradients(options, reducer, norms, account);
  return zero ? partitionedGradients(overlapped, zero) : overlapped;
}

/** The files STOP and SAVE are the first rank's to see and to remove: the others have no folder. */
const requestsOf = (
  folder: string | null,
  console: Console,
  { signals, busy }: { signals: readonly string[]; busy: boolean },
) =>
  watchRequests(folder, {
    busy,
    secondInterrupt: () => Deno.exit(130),
    asked(reason, by) {
      endOnInterrupt(); // the save that follows may be long, and nothing of ours runs during it
      if (by === "time") console.warn(`Stopping: ${reason}`);
      else console.warn(`${reason}: stopping after a save. Ctrl-C now stops at once, without one.`);
    },
  }, stopSignals(signals));

function shareSaves(
  { config, team = null, control = null }: Start,
  { checkpoints }: RunPaths,
  parts: Parts,
): Sharing {
  if (team) refuseSeparate(checkpoints, team);
  const timeout = parseDuration(config.distributed.timeout, "seconds")!.count;
  return openSharing(parts, team, control, Math.max(timeout, LEAST_PATIENCE));
}

// What is trained, and by what: model, data, batches, schedule, optimizer, and all of it that a checkpoint holds.

export interface Trained {
  readonly built: Built;
  readonly plan: BatchPlan;
  readonly schedule: Schedule;
  /** Set where each rank updates its own part of the weights. */
  readonly zero: Zero | null;
  readonly optimizer: Optimizer;
  readonly scaler: LossScaler | null;
  readonly ema: Ema | null;
  readonly parts: Parts;
  /** Why memory may run out; null where it will not. */
  readonly shortage: string | null;
  /** Lines about what was decided, in order. */
  readonly notes: string[];
}

/** `ranksHere`: those that share this machine's memory. */
function openTrained(config: Config, device: Device, team: Team | null, ranksHere = 1): Trained {
  const { training } = config;
  const world = team?.world ?? 1;
  const built = build(config, device, world, null, team?.collectives.shared);
  const { arena, model, data } = built;
  const shortage = device === "cpu" ? checkMemory(config, built, ranksHere, world) : null;
  const plan = planBatches(training, data.train.length, world);
  const peak = scaledLearningRate(training, plan.global);
  const schedule = scheduleOf(training, peak, plan, data.train.facts);
  const zero = team && config.distributed.zero > 0 ? openZero(config, arena, model, team) : null;
  const optimizer = zero?.optimizer ?? createOptimizer(training.optimizer, arena);
  const scaler = built.amp === "fp16" ? scalerOf(config, device) : null;
  const ema = training.ema > 0 ? createEma(arena, training.ema) : null;
  const parts: Parts = {
    names: arena.names,
    stateDict: model.root.stateDict(),
    optimizer,
    scaler,
    ema: ema && averagesByName(arena.names, arena.viewsOf(ema.average)),
  };
  const notes = [
    ...data.notes,
    model.describe(),
    plan.said,
    ...(zero ? [zero.said] : []),
    ...precisionNote(built),
    ...shardsNote(config, plan),
  ];
  return { built, plan, schedule, zero, optimizer, scaler, ema, parts, shortage, notes };
}

const scalerOf = ({ training }: Config, device: Device) =>
  new LossScaler({
    init: training.loss_scale_init,
    growthInterval: training.loss_scale_growth_interval,
    min: training.loss_scale_min,
    maxSkipped: training.max_skipped_steps,
  }, device);

function averagesByName(names: readonly string[], views: readonly Tensor[]): [string, Tensor][] {
  return names.map((name, i) => [name, views[i]]);
}

// What watches over a run's steps: the account of its time, where their time goes, a loss that jumps.

interface Instruments {
  readonly account: Account;
  readonly times: Times;
  readonly guard: Guard;
  readonly flops: Flops;
}

export interface InstrumentOptions {
  readonly device: Device;
  readonly amp: Amp;
  /** How many devices there are of this kind. */
  readonly world: number;
  readonly waits: Waits;
}

function openInstruments(
  { training }: Config,
  facts: Facts,
  done: Cursor,
  where: InstrumentOptions,
): Instruments {
  const account = openAccount(where.waits), flops = openFlops();
  const tokens = facts.task === "language" ? facts.input.shape[0] : 0;
  return {
    account,
    flops,
    times: openTimes({
      account,
      done: { step: done.step, samples: done.samples },
      tokens,
      perSample: () => flops.perSample,
      peak: 1e12 * where.world * (training.peak_tflops || knownPeak(training.tf32, where)),
    }),
    guard: openGuard({
      on: training.on_spike,
      zscore: training.spike_zscore,
      window: training.spike_window,
      mostSkipped: training.max_skipped_steps,
    }),
  };
}

/** What the device can do by its name, in 1e12 operations a second; 0 where that is not known. */
function knownPeak(tf32: boolean, { device, amp }: InstrumentOptions): number {
  if (device === "cpu") return 0;
  const kind = amp !== "off" ? "half" : tf32 ? "tf32" : "fp32";
  return peakOf(cudaName(Number(device.slice("cuda:".length))), kind) ?? 0;
}
