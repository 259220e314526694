// Puts a run together: what is trained, the checkpoint it goes on from, how a step is made, and where its files go.
// May import everything in core but commands.
import type { Libtorch } from "../../ffi/libraries/types.ts";
import { endOnInterrupt } from "../../ffi/signals.ts";
import type { Device } from "../../ffi/tensor.ts";
import { parseDuration } from "../config/duration.ts";
import type { Config } from "../config/settings.ts";
import type { Parts } from "../checkpoint/training_state.ts";
import type { Source } from "../data/source.ts";
import type { Control } from "../dist/control/control.ts";
import type { Team } from "../dist/team.ts";
import type { Console } from "../track/console.ts";
import { isUnfinished } from "./batch_math.ts";
import type { Built } from "./build.ts";
import { abandon, claim } from "./claim.ts";
import { memoryInUse } from "./device.ts";
import { openFeed } from "./feed.ts";
import { openHistograms } from "./histograms.ts";
import { answersOf } from "./known.ts";
import { lanesOf } from "./lanes.ts";
import { latestPath, type Places } from "./names.ts";
import { type Measured, openMeasured } from "./measured.ts";
import { pausesIn } from "./pauses.ts";
import type { GoBack } from "./guards/rewind.ts";
import { openProfile, type Profile, stepsIn } from "../track/profile/profile.ts";
import { combineOver } from "./parallel/combine.ts";
import { openReducer } from "./parallel/reducer.ts";
import { openSharing, refuseSeparate, type Sharing } from "./parallel/sharing.ts";
import { noSaver } from "./parallel/silent.ts";
import { startTogether } from "./parallel/start.ts";
import { openSyncNorms } from "./parallel/sync_norms.ts";
import { openTogether } from "./parallel/together.ts";
import { openPictures } from "./pictures.ts";
import { type Origin, rateLine } from "./rate.ts";
import { openRecord, type Record, recordOfRank } from "./record.ts";
import type { Resume } from "./resume.ts";
import type { Run } from "./run.ts";
import { openSaver } from "./saver.ts";
import { freshCursor, startFrom } from "./start_from.ts";
import type { StepOptions } from "./step.ts";
import { stopSignals, watchRequests } from "./stop.ts";
import { openTrained, type Trained } from "./trained.ts";
import { wandbOf } from "./wandb_of.ts";
import { alone, openVirtualShards, type VirtualShards } from "./virtual_shards.ts";
import { isThere } from "../there.ts";

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
  /** Lines about the settings, to be told with the others. */
  readonly notes: readonly string[];
  /** Where a setting is from, in words. */
  readonly origin?: Origin;
  /** Unix seconds at which the process was started; now, if not given. */
  readonly began?: number;
}

export interface Prepared {
  readonly run: Run;
  readonly places: Places;
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
  const rate = start.origin ? [rateLine(config.training, plan.global, start.origin)] : [];
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
  const measured = openMeasured(config, data.train.facts, cursor, {
    device,
    amp: built.amp,
    world: team?.world ?? 1,
    waits: { data: feed.waited, communication: team?.collectives.waited ?? (() => 0) },
  });
  const options = stepOf(start, trained, measured);
  // What a setting can be refused for comes before: from here on the run has a name and files.
  const claimed = first ? claim(start) : null;
  const places = team?.hear(claimed, "the run's folders")[0] ?? claimed!;
  const [sharing, record] = orAbandon(start, places, () => [
    config.output.checkpoint_format === "sharded" ? shareSaves(start, places, parts) : null,
    first
      ? openRecord(start, places, cursor.step, idle, idle ? null : wandbOf(start, trained, places, cursor))
      : recordOfRank(start, places),
  ]);
  const wandb = team?.hear(record.wandb, "the W&B run's id")[0] ?? record.wandb; // in each rank's part of a checkpoint
  const step = { ...options, look: histogramsOf(config, record) };
  const run: Run = {
    name: places.run,
    config,
    train: data.train,
    val: data.val,
    feed,
    plan,
    schedule,
    step,
    ema,
    pictures: picturesOf(config, record, data.val),
    ...measured,
    profile: profileOf(start, measured, places, record.console),
    goBack: () => goBack(start, trained, latestPath(places)),
    cursor,
    ...record,
    requests: requestsOf(first ? places.logs : null, record.console, {
      signals: config.cluster.stop_signals,
      busy: pausesIn(plan, step.shards) > 0,
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
    together: team && control && openTogether(team, control, buffersOf(model), device),
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

// Of these the W&B run alone hears, which rank 0 writes.

const histogramsOf = ({ wandb: { histograms } }: Config, { wandb, events }: Record) =>
  wandb === null || histograms === 0 ? null : openHistograms(histograms, events.note);

const picturesOf = (config: Config, { wandb, events }: Record, val: Source | null) =>
  wandb === null ? null : openPictures(val, config.wandb.images, events.note);

/** Where that fails, a new run's name is free again. */
function orAbandon(
  { resume, again, team }: Start,
  places: Places,
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
  { account }: Measured,
  { logs }: Places,
  { line, warn }: Console,
): Profile | null {
  if (!training.profile_training) return null;
  return openProfile({
    steps: stepsIn(training.profile_steps),
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
  const here = (team?.rank ?? 0) === 0 && isThere(path);
  if (!(team?.hear(here, "a checkpoint to go back to")[0] ?? here)) return null;
  const { step } = begin({ ...start, resume: { path, run: null } }, trained, []);
  return { step, path };
}

function stepOf(
  { config, device, team = null }: Start,
  { built, optimizer, scaler, zero }: Trained,
  { account, guard }: Measured,
): StepOptions {
  const { arena, model, pass } = built;
  const { training } = config;
  const shards = training.deterministic === "world" ? shardsOf(config, team, built) : null;
  if (pass.seeds && !shards) pass.seeds.share = team?.rank ?? 0; // a rank's samples are its shard of the batch
  return {
    pass,
    arena,
    optimizer,
    scaler,
    checkpointing: training.gradient_checkpointing,
    clipNorm: training.clip_norm,
    shards,
    reducer: team && !shards
      ? openReducer(arena, model, team.collectives, config.distributed.bucket_mb, zero?.owned)
      : null,
    zero,
    norms: team && training.sync_bn ? openSyncNorms(config, model, team.collectives, device) : null,
    account,
    refuse: guard.refuse,
    observe: null,
  };
}

function shardsOf({ training }: Config, team: Team | null, { arena, model }: Built): VirtualShards {
  const count = training.virtual_shards;
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const combine = team ? combineOver(team.collectives, count) : alone;
  return openVirtualShards({ count, rank, world, combine }, arena, buffersOf(model));
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
  { checkpoints }: Places,
  parts: Parts,
): Sharing {
  if (team) refuseSeparate(checkpoints, team);
  const timeout = parseDuration(config.distributed.timeout, "seconds")!.count;
  return openSharing(parts, team, control, Math.max(timeout, LEAST_PATIENCE));
}
