// Opens a trainer: model, optimizer, schedule, checkpoint, instruments and files.
import { endOnInterrupt } from "../../ffi/signals.ts";
import { checkedDuration } from "../settings/setting.ts";
import type { Config } from "../settings/settings.ts";
import type { Cursor, Parts } from "../checkpoint/training_state.ts";
import { tokenizerMark } from "../data/text/about.ts";
import { type Console, gpuLine } from "../run/console.ts";
import type { GpuFacts } from "../run/events.ts";
import { chooseKernelSearch, gpuFactsOf, othersNote } from "./gpu.ts";
import { type BatchPlan, isUnfinished, planBatches, precisionNote, shardsNote } from "./batches.ts";
import type { Pass } from "./blocks.ts";
import { weightsNote } from "./class_weights.ts";
import { answersOf, build, type Built } from "./build.ts";
import { abandon, claim } from "./claim.ts";
import { latestPath, type RunPaths } from "./run_folder.ts";
import { memoryInUse } from "./device.ts";
import { type Feed, lanesOf, openFeed } from "./feed.ts";
import { type Diagnose, openConfusion, openDiagnostics } from "./diagnostics.ts";
import { openHistograms, openPictures } from "./media.ts";
import { pausesIn } from "./pauses.ts";
import type { Launch } from "./launch.ts";
import { type GoBack, type Guard, openGuard } from "./guards/spikes.ts";
import { openProfile, type Profile, profiledSteps } from "./profile.ts";
import { buffersOf, gradientsOf } from "./gradients/strategies.ts";
import { openThaw, type Thaw } from "./trained_parameters.ts";
import { openSaver, openSharing, refuseSeparate, type Saver, type Sharing } from "./save.ts";
import { noSaver, openRankGroup, type RankGroup, startAsFirst } from "./rank_group.ts";
import { rateLine, scaledLearningRate, type Schedule, scheduleOf } from "./schedule.ts";
import { openRecord, recordOfRank, runFactsOf } from "./record.ts";
import { type Output, wantsOf } from "../run/output.ts";
import { freshCursor, type Resume, startFrom } from "./resume.ts";
import { type Requests, stopSignals, watchRequests } from "./stop.ts";
import { UserError } from "../base/errors.ts";
import { pathExists } from "../base/files.ts";
import type { Ema } from "./optimizers/optimizer.ts";
import { averageNote, type WeightAverage } from "./weight_average.ts";
import { openWeightUpdate, PendingReports, type WeightUpdate } from "./weight_update.ts";
import { keepsNothing } from "./compiled_mode.ts";
import { openRefusals } from "./compiled_refusals.ts";
import { openCompiledPass } from "./compiled_pass.ts";
import { fitBatch } from "./finders/fit.ts";
import { isExported } from "../models/exported/model.ts";
import { decayNote, refuseShare } from "./checks.ts";
import { checkMemory } from "./memory.ts";
import { openInstruments } from "./instruments.ts";
import type { Account, Times } from "../run/account.ts";
import type { Flops } from "./throughput.ts";
import type { StepParts } from "./step.ts";
import { trainedOn } from "./trained_on.ts";
import { openSampling, type Sampling } from "../data/sampling.ts";
import type { EventLog } from "../run/event_log.ts";
import type { LineageWriter } from "../run/lineage.ts";

export interface Trainer extends Built, Omit<StepParts, "at"> {
  readonly launch: Launch;
  readonly config: Config;
  readonly pass: Pass;
  readonly paths: RunPaths;
  /** Null where this rank is alone. */
  readonly ranks: RankGroup | null;
  readonly ranksHere: number;
  readonly feed: Feed;
  readonly plan: BatchPlan;
  readonly sampling: Sampling;
  readonly schedule: Schedule;
  readonly ema: Ema | null;
  /** The same average, where it is of epochs' ends. */
  readonly swa: WeightAverage | null;
  readonly cursor: Cursor;
  /** The last losses of this attempt, which the end of the run names. */
  readonly losses: { step?: { step: number; loss: number }; epoch?: { epoch: number; loss: number } };
  /** Puts into the cursor what it has to know of compiled steps. Every rank calls it before a save. */
  keepRefusals(): void;
  /** Null where no parameter waits for an epoch of its own. */
  readonly thaw: Thaw | null;
  readonly requests: Requests;
  readonly saver: Saver;
  readonly console: Console;
  readonly events: EventLog;
  readonly lineage: LineageWriter;
  readonly outputs: readonly Output[];
  /** Null where no output wants pictures. */
  readonly pictures: ((pass: Pass, step: number) => void) | null;
  /** Null on other ranks, and where the report has nothing to show of it. */
  readonly diagnose: Diagnose | null;
  /** Null where no output wants to know which classes are taken for which. */
  readonly confusion: ReturnType<typeof openConfusion>;
  readonly account: Account;
  readonly times: Times;
  readonly flops: Flops;
  /** Null on a CPU, and but for rank 0. */
  readonly gpu: GpuFacts | null;
  readonly profile: Profile | null;
  readonly guard: Guard;
  readonly goBack: GoBack;
  readonly notes: readonly string[];
  /** The reason why memory may run out. */
  readonly shortage: string | null;
  /** Resident bytes on a CPU, allocated ones on a GPU. */
  memory(): number;
}

const MIB = 2 ** 20;

/** Seconds: a disk may be slow where ranks are quick. */
const LEAST_PATIENCE = 600;

export function prepare(given: Launch): Trainer {
  const { device, team = null, control = null } = given, { rank, world } = team ?? { rank: 0, world: 1 };
  const ranksHere = given.ranksHere ?? world;
  const first = rank === 0; // it alone reads checkpoints and writes the run's files
  const { launch, built, fitNotes } = openModel(given, world, ranksHere);
  const { config } = launch, { training } = config, { arena, model, data, pass } = built;
  const shortage = device === "cpu" ? checkMemory(config, built, ranksHere, world) : null;
  const plan = planBatches(training, data.train.length, world);
  chooseKernelSearch(config, device, plan);
  const gpu = first ? gpuFactsOf(config, device, built) : null;
  const sampling = openSampling(config.data, training.seed, data.train);
  const schedule = scheduleOf(training, scaledLearningRate(training, plan.global), plan, data.train.facts);
  refuseUnknownWeights(launch);
  const reports = new PendingReports(), update = openWeightUpdate(config, built, device, team, reports);
  const { optimizer, scaler, ema, swa, zero, parts } = update;
  const notes = notesOf(launch, built, { plan, sampling, fitNotes, gpu, update });
  const startAt = startOf(launch, built, update, plan);
  const cursor = startAt(launch.resume, notes), thaw = openThaw(built, optimizer, training.freeze_until);
  const feed = feedOf(launch, built, plan);
  const instruments = openInstruments({ config, device, team }, built, feed, cursor);
  const guard = guardOf(training), refusals = openRefusals(cursor, team);
  const compiled = update.compiles
    ? openCompiledPass(arena, update.mode!, () => reports, update.choice, keepsNothing(config), refusals.own)
    : null;
  const gradients = gradientsOf({ config, device, team }, built, scaler, zero, instruments.account, compiled);

  // All refusals of settings come before: from here on the run has files.
  const idle = !isUnfinished(training, cursor); // starting a finished run again is no attempt at it
  const { paths, sharing, record } = openFiles(launch, built, { plan, cursor, parts, idle });
  const { console, events, outputs } = record;
  reports.open({
    line: console.line,
    warn(message) {
      console.warn(message);
      events.emit({ kind: "warning", step: cursor.step + 1, message });
    },
  });
  update.notes.forEach(console.line);
  const id = outputs.find(({ id }) => id !== null)?.id ?? null;
  const wandb = team?.gather(id, "the W&B run's id")[0] ?? id; // each rank's part of a checkpoint has it
  const wants = wantsOf(outputs);
  return {
    ...built,
    ...record,
    ...{ launch, config, paths, plan, sampling, schedule, optimizer, scaler, ema, swa, gradients, cursor },
    ...{ losses: {}, feed, notes, guard, ranksHere, gpu, thaw },
    ...instruments,
    clipNorm: training.clip_norm,
    // A rank that updates a part of the weights has no whole gradients.
    inspect: wants.histograms === 0
      ? null
      : openHistograms(wants.histograms, arena, zero === null, events.note),
    pictures: openPictures(data.val, wants.pictures, events.note),
    confusion: openConfusion(data.val, pass.loss, wants.confusion, events.note),
    diagnose: first && !idle ? openDiagnostics(data.val, config.data, paths.logs) : null,
    profile: profileOf(launch, instruments.account, paths, console),
    requests: requestsOf(first ? paths.logs : null, console, {
      signals: config.cluster.stop_signals,
      busy: pausesIn(plan, gradients.shards) > 0,
    }),
    saver: first || sharing
      ? saverOf(launch, built, update, { paths, cursor, schedule, record, sharing, wandb })
      : noSaver(zero?.gather),
    ranks: team && control && openRankGroup(team, control, buffersOf(model), device),
    shortage: first ? shortage : null, // all ranks have the same
    memory: () => memoryInUse(device),
    keepRefusals() {
      if (update.mode !== null) refusals.keep(); // all ranks have the same mode
    },
    goBack() {
      const path = latestPath(paths), here = first && pathExists(path);
      if (!(team?.gather(here, "a checkpoint to go back to")[0] ?? here)) return null;
      return { step: startAt({ path, run: null }, []).step, path };
    },
  };
}

/** The settings become those that the run has: of a batch that fits, and of what the data's scale came to. */
function openModel(given: Launch, world: number, ranksHere: number) {
  const { device, team = null } = given;
  const built = build(given.config, device, world, null, team?.collectives.shared, given.scale);
  if (given.resolved) refuseShare(given.resolved, built.data);
  const { config: fitted, notes: fitNotes } = fitBatch(given, built, ranksHere);
  // A checkpoint has what auto came to.
  const config = { ...fitted, data: { ...fitted.data, ...built.data.scale } };
  return { launch: { ...given, config }, built, fitNotes };
}

/** Before the first step a run says what it trains, and how. */
function notesOf(
  launch: Launch,
  built: Built,
  { plan, sampling, fitNotes, gpu, update: { swa, zero } }: {
    readonly plan: BatchPlan;
    readonly sampling: Sampling;
    readonly fitNotes: readonly string[];
    readonly gpu: GpuFacts | null;
    readonly update: WeightUpdate;
  },
): string[] {
  const { config, resolved } = launch, { training } = config, { arena, model, data, pass, trained } = built;
  return [
    ...launch.notes,
    ...data.notes,
    ...(built.classWeights ? [weightsNote(built.classWeights)] : []),
    model.describe(),
    ...(pass.loss.note ? [pass.loss.note] : []),
    ...trained.notes,
    ...(sampling.note ? [sampling.note] : []),
    ...(swa ? [averageNote(model.root, training.swa_start)] : []),
    ...fitNotes,
    [plan.note, ...(resolved ? [rateLine(training, plan.global, resolved.originText)] : [])].join(". "),
    ...(zero ? [zero.note] : []),
    ...precisionNote(built),
    ...(gpu ? [gpuLine(gpu), ...othersNote(gpu)] : []),
    ...shardsNote(config, plan),
    ...(resolved ? decayNote(resolved, arena.parameters) : []),
  ];
}

/** Brings model, optimizer and averages to where a checkpoint left them, or to the start; all ranks are told by the first. */
function startOf(
  { config, team = null }: Launch,
  { arena, model, data }: Built,
  { parts, ema, swa, zero }: WeightUpdate,
  plan: BatchPlan,
): (resume: Resume | null, notes: string[]) => Cursor {
  const beginning = { parts, plan, model, samples: data.train.length, resetEma: ema?.reset };
  return (resume, notes) => {
    const first = (team?.rank ?? 0) === 0;
    const cursor = first ? startFrom({ config, resume }, beginning, notes) : freshCursor();
    const averaged = ema ? [ema.average, ...(swa?.statistics ?? []).map(([, t]) => t)] : [];
    return team ? startAsFirst(team, parts, arena, averaged, cursor, zero) : cursor;
  };
}

function feedOf({ config, device, loaders, team = null }: Launch, built: Built, plan: BatchPlan): Feed {
  const lanes = lanesOf(built, config, plan, team?.world ?? 1);
  const threads = { count: loaders, prefetch: config.data.prefetch_mib * MIB, lanes };
  return openFeed({ device, channelsLast: built.channelsLast, loss: built.pass.loss, threads });
}

const guardOf = (training: Config["training"]): Guard =>
  openGuard({
    on: training.on_spike,
    zscore: training.spike_zscore,
    window: training.spike_window,
    mostSkipped: training.max_skipped_steps,
  });

/** The run's name is claimed, and its files are opened; what fails here leaves none. */
function openFiles(
  launch: Launch,
  built: Built,
  { plan, cursor, parts, idle }: {
    readonly plan: BatchPlan;
    readonly cursor: Cursor;
    readonly parts: Parts;
    readonly idle: boolean;
  },
) {
  const { team = null, config } = launch, first = (team?.rank ?? 0) === 0;
  const claimed = first ? claim(launch) : null;
  const paths = team?.gather(claimed, "the run's folders")[0] ?? claimed!;
  return orAbandon(launch, paths, () => {
    const sharing = config.output.checkpoint_format === "sharded" ? shareSaves(launch, paths, parts) : null;
    if (!first) return { paths, sharing, record: recordOfRank(launch, paths) };
    const facts = runFactsOf(launch, built, { plan, paths, cursor });
    const outputs: Output[] = idle ? [] : launch.outputs.map((open) => open(facts)).filter((o) => o !== null);
    return { paths, sharing, record: openRecord(launch, paths, cursor.step, idle, outputs) };
  });
}

/** A checkpoint has what the data and the model of this run came to, beside what is trained. */
function saverOf(
  { config }: Launch,
  { data, classWeights }: Built,
  { parts, zero }: WeightUpdate,
  { paths, cursor, schedule, record: { console, events }, sharing, wandb }: {
    readonly paths: RunPaths;
    readonly cursor: Cursor;
    readonly schedule: Schedule;
    readonly record: ReturnType<typeof openFiles>["record"];
    readonly sharing: Sharing | null;
    readonly wandb: string | null;
  },
): Saver {
  return openSaver({
    ...{ config, paths, parts, cursor, schedule, console, events, wandb, sharing },
    normalisation: data.normalisation,
    targetScale: data.train.targetScale,
    fill: data.fill,
    climatology: data.climatology,
    classWeights,
    answers: answersOf(data.train),
    trainedOn: trainedOn(data),
    tokenizer: data.train.facts.task === "language" ? tokenizerMark(config.data) : null,
    gather: zero?.gather,
  });
}

/** Adapters of random weights would learn what the layers beside them never do. */
function refuseUnknownWeights({ config: { model, training }, resume }: Launch): void {
  if (model.lora_rank === 0 || resume !== null || training.init_from !== "" || isExported(model.name)) return;
  throw new UserError(
    "usage",
    "--lora-rank trains adapters beside weights that somebody has trained: name their file with --init-from.",
  );
}

/** The new run's name is free after a failure. */
function orAbandon<T>({ resume, again, team }: Launch, paths: RunPaths, open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (!resume && !again && (team?.rank ?? 0) === 0) abandon(paths);
    throw error;
  }
}

function profileOf(
  { config: { training }, team = null }: Launch,
  account: Account,
  { logs }: RunPaths,
  { line, warn }: Console,
): Profile | null {
  if (!training.profile_training) return null;
  const steps = profiledSteps(training.profile_steps);
  return openProfile({ steps, account, team, flight: team?.flight ?? null, logs, line, warn });
}

/** Only the first rank sees the files STOP and SAVE. */
const requestsOf = (
  folder: string | null,
  console: Console,
  { signals, busy }: { signals: readonly string[]; busy: boolean },
) =>
  watchRequests(folder, {
    busy,
    secondInterrupt: () => Deno.exit(130),
    onRequest(reason, by) {
      endOnInterrupt(); // the save that follows may be long, and no JavaScript runs during it
      if (by === "time") console.warn(`Stopping: ${reason}`);
      else console.warn(`${reason}: stopping after a save. Ctrl-C now stops at once, without one.`);
    },
  }, stopSignals(signals));

function shareSaves(
  { config, team = null, control = null }: Launch,
  { checkpoints }: RunPaths,
  parts: Parts,
): Sharing {
  if (team) refuseSeparate(checkpoints, team);
  const timeout = checkedDuration(config.distributed.timeout, "seconds").count;
  return openSharing(parts, team, control, Math.max(timeout, LEAST_PATIENCE));
}
