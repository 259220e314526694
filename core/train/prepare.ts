// Opens a trainer: model, optimizer, schedule, checkpoint, instruments and files.
import type { Libtorch } from "../../ffi/libraries/find.ts";
import { endOnInterrupt } from "../../ffi/signals.ts";
import type { Device } from "../../ffi/tensor.ts";
import { checkedDuration } from "../settings/setting.ts";
import type { Resolved } from "../settings/resolve.ts";
import type { Config } from "../settings/settings.ts";
import type { Cursor, Parts } from "../checkpoint/training_state.ts";
import { tokenizerMark } from "../data/text/about.ts";
import type { SavedScale } from "../data/transforms/scale_choice.ts";
import type { Control } from "../ranks/control/control.ts";
import type { Team } from "../ranks/team.ts";
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
import { type GoBack, type Guard, openGuard } from "./guards/spikes.ts";
import { openProfile, type Profile, profiledSteps } from "./profile.ts";
import { openReducer, overlappedGradients } from "./gradients/overlapped.ts";
import { type GradientStrategy, plainGradients } from "./gradients/strategy.ts";
import { alone, combineOver, openVirtualShards, shardedGradients } from "./gradients/virtual_shards.ts";
import { openThaw, type Thaw } from "./trained_parameters.ts";
import { openSyncNorms } from "./gradients/sync_norms.ts";
import { openZero, partitionedGradients, type Zero } from "./gradients/zero.ts";
import { openSaver, openSharing, refuseSeparate, type Saver, type Sharing } from "./save.ts";
import { noSaver, openRankGroup, type RankGroup, startAsFirst } from "./rank_group.ts";
import { rateLine, scaledLearningRate, type Schedule, scheduleOf } from "./schedule.ts";
import { openRecord, recordOfRank, runFactsOf } from "./record.ts";
import { type OpenOutput, type Output, wantsOf } from "../run/output.ts";
import { freshCursor, type Resume, startFrom } from "./resume.ts";
import { type Requests, stopSignals, watchRequests } from "./stop.ts";
import { UserError } from "../base/errors.ts";
import { pathExists } from "../base/files.ts";
import { createEma, type Ema } from "./optimizers.ts";
import { averageNote, createWeightAverage, type WeightAverage } from "./weight_average.ts";
import { optimizerFor } from "./parameter_groups.ts";
import { openChoice } from "./compiled_choice.ts";
import { compiledMode, keepsNothing, whyNotCompiled } from "./compiled_mode.ts";
import { openRefusals, type Reports } from "./compiled_refusals.ts";
import { compiledUpdate } from "./compiled_update.ts";
import { type CompiledPass, openCompiledPass } from "./compiled_pass.ts";
import { fitBatch } from "./finders/fit.ts";
import { isExported } from "../models/exported/model.ts";
import { decayNote, refuseShare } from "./checks.ts";
import { checkMemory } from "./memory.ts";
import { type Amp, LossScaler } from "./precision.ts";
import { cudaName, gpuBackend } from "../../ffi/cuda.ts";
import { type Account, openAccount, openTimes, type Times } from "../run/account.ts";
import { peakOf } from "./peaks.ts";
import { type Flops, openFlops } from "./throughput.ts";
import type { StepParts } from "./step.ts";
import { trainedOn } from "./trained_on.ts";
import { openSampling, type Sampling } from "../data/sampling.ts";
import type { EventLog } from "../run/event_log.ts";
import type { LineageWriter } from "../run/lineage.ts";

export interface Launch {
  readonly config: Config;
  readonly preset: string | null;
  readonly device: Device;
  readonly libtorch: Libtorch;
  /** Null starts afresh. */
  readonly resume: Resume | null;
  /** The run that begins again under its name, without a checkpoint. */
  readonly again?: string | null;
  /** So scaled the run its data whose checkpoint begins this one. */
  readonly scale?: SavedScale | null;
  readonly loaders: number;
  /** Null where this rank is alone. */
  readonly team?: Team | null;
  readonly control?: Control | null;
  /** Ranks on this machine, this one included; by default all. */
  readonly ranksHere?: number;
  readonly outputs: readonly OpenOutput[];
  /** They come before the trainer's own. */
  readonly notes: readonly string[];
  /** They say where each setting comes from; they are absent where no command gave them. */
  readonly resolved?: Pick<Resolved, "config" | "origin" | "originText">;
  /** Unix seconds at which the process was started; by default now. */
  readonly began?: number;
}

export interface Trainer extends Built, StepParts {
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

export interface Ending {
  /** The summary begins with it. */
  readonly outcome: string;
  /** A request stopped the run, and it can go on. */
  readonly stopped: boolean;
  /** A job script does not put the job back into its queue then. */
  readonly byHand: boolean;
}

const MIB = 2 ** 20;

/** Seconds: a disk may be slow where ranks are quick. */
const LEAST_PATIENCE = 600;

export function prepare(given: Launch): Trainer {
  const { device, team = null, control = null } = given;
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const ranksHere = given.ranksHere ?? world;
  const first = rank === 0; // it alone reads checkpoints and writes the run's files

  const built = build(given.config, device, world, null, team?.collectives.shared, given.scale);
  if (given.resolved) refuseShare(given.resolved, built.data);
  const { config: fitted, notes: fitNotes } = fitBatch(given, built, ranksHere);
  // A checkpoint has what auto came to.
  const config = { ...fitted, data: { ...fitted.data, ...built.data.scale } }, launch = { ...given, config };
  const { training, distributed, output } = config;
  const { arena, model, data, pass, amp } = built;
  const shortage = device === "cpu" ? checkMemory(config, built, ranksHere, world) : null;
  const plan = planBatches(training, data.train.length, world);
  chooseKernelSearch(config, device, plan);
  const gpu = first ? gpuFactsOf(config, device, built) : null;
  const sampling = openSampling(config.data, training.seed, data.train);
  const schedule = scheduleOf(training, scaledLearningRate(training, plan.global), plan, data.train.facts);
  const mode = compiledMode(training, pass.onGpu);
  const uncompiled = mode && whyNotCompiled(built, mode, team !== null && training.sync_bn);
  refuseUnknownWeights(launch);
  const compiles = mode !== null && uncompiled === null, fast = compiles && mode === "fast";
  const zero = team && distributed.zero > 0
    ? openZero(config, arena, model, team, fast, built.trained)
    : null;
  const ordinary = zero?.optimizer ?? optimizerFor(training.optimizer, arena, built.trained, model.root);
  let reports: Reports | null = null;
  const choice = compiles && !pass.onGpu
    ? openChoice(training, mode, team === null, (text) => reports?.line(text))
    : null;
  let noUpdate = "only those of adamw, adam and sgd are compiled, with one learning rate for all weights";
  const optimizer = fast && zero === null
    ? compiledUpdate(ordinary, training.optimizer, arena, choice ?? undefined, (why) => noUpdate = why)
    : ordinary;
  const scaler = amp === "fp16" ? scalerOf(config, device) : null;
  const swa = training.swa_start > 0 ? createWeightAverage(arena, model.root, training.swa_start) : null;
  const ema = ordinary.averages ?? (training.ema > 0 ? createEma(arena, training.ema) : swa);
  const averages = ema && arena.viewsOf(ema.average);
  const parts: Parts = {
    names: arena.names,
    stateDict: model.root.stateDict(),
    optimizer,
    scaler,
    ema: averages && [
      ...arena.names.map((name, i) => [name, averages[i]] as const),
      ...(swa?.statistics ?? []),
    ],
    swa,
  };
  const notes = [
    ...launch.notes,
    ...data.notes,
    ...(built.classWeights ? [weightsNote(built.classWeights)] : []),
    model.describe(),
    ...(built.pass.loss.note ? [built.pass.loss.note] : []),
    ...built.trained.notes,
    ...(sampling.note ? [sampling.note] : []),
    ...(swa ? [averageNote(model.root, training.swa_start)] : []),
    ...fitNotes,
    [
      plan.note,
      ...(launch.resolved ? [rateLine(training, plan.global, launch.resolved.originText)] : []),
    ].join(". "),
    ...(zero ? [zero.note] : []),
    ...precisionNote(built),
    ...(gpu ? [gpuLine(gpu), ...othersNote(gpu)] : []),
    ...shardsNote(config, plan),
    ...(launch.resolved ? decayNote(launch.resolved, arena.parameters) : []),
  ];

  const startAt = (resume: Resume | null, notes: string[]) => {
    const beginning = { parts, plan, model, samples: data.train.length, resetEma: ema?.reset };
    const cursor = first ? startFrom({ config, resume }, beginning, notes) : freshCursor();
    const averaged = ema ? [ema.average, ...(swa?.statistics ?? []).map(([, t]) => t)] : [];
    return team ? startAsFirst(team, parts, arena, averaged, cursor, zero) : cursor;
  };
  const cursor = startAt(launch.resume, notes);
  const thaw = openThaw(built, optimizer, training.freeze_until);

  const lanes = lanesOf(built, config, plan, world);
  const threads = { count: launch.loaders, prefetch: config.data.prefetch_mib * MIB, lanes };
  const feed = openFeed({ device, channelsLast: built.channelsLast, loss: pass.loss, threads });

  const waits = { data: feed.waited, communication: team?.collectives.waited ?? (() => 0) };
  const account = openAccount(waits), flops = openFlops();
  const { facts } = data.train;
  const times = openTimes({
    account,
    done: { step: cursor.step, samples: cursor.samples },
    tokens: facts.task === "language" ? facts.input.shape[0] : 0,
    perSample: () => flops.perSample,
    peak: 1e12 * world * (training.peak_tflops || knownPeak(training.tf32, device, amp)),
  });
  const guard = openGuard({
    on: training.on_spike,
    zscore: training.spike_zscore,
    window: training.spike_window,
    mostSkipped: training.max_skipped_steps,
  });
  const refusals = openRefusals(cursor, team);
  const compiled = compiles
    ? openCompiledPass(arena, mode, () => reports!, choice, keepsNothing(config), refusals.own)
    : null;
  const gradients = gradientsOf(launch, built, scaler, zero, account, compiled);

  // All refusals of settings come before: from here on the run has files.
  const claimed = first ? claim(launch) : null;
  const paths = team?.gather(claimed, "the run's folders")[0] ?? claimed!;
  const idle = !isUnfinished(training, cursor); // starting a finished run again is no attempt at it
  const [sharing, record] = orAbandon(launch, paths, () => {
    const sharing = output.checkpoint_format === "sharded" ? shareSaves(launch, paths, parts) : null;
    if (!first) return [sharing, recordOfRank(launch, paths)] as const;
    const facts = runFactsOf(launch, { data, model, pass, plan, paths, cursor });
    const outputs: Output[] = idle ? [] : launch.outputs.map((open) => open(facts)).filter((o) => o !== null);
    return [sharing, openRecord(launch, paths, cursor.step, idle, outputs)] as const;
  });
  const { console, events, outputs } = record;
  reports = {
    line: console.line,
    warn(message) {
      console.warn(message);
      events.emit({ kind: "warning", step: cursor.step + 1, message });
    },
  };
  if (fast && optimizer === ordinary && zero === null) {
    reports.line(`The update of ${optimizer.type} runs op by op: ${noUpdate}.`);
  }
  if (uncompiled) reports.line(`Steps are not compiled: ${uncompiled}.`);
  const id = outputs.find(({ id }) => id !== null)?.id ?? null;
  const wandb = team?.gather(id, "the W&B run's id")[0] ?? id; // each rank's part of a checkpoint has it
  const wants = wantsOf(outputs);
  const histograms = wants.histograms === 0
    ? null
    : openHistograms(wants.histograms, arena, zero === null, events.note);

  return {
    ...built,
    ...record,
    ...{
      launch,
      config,
      paths,
      plan,
      sampling,
      schedule,
      optimizer,
      scaler,
      ema,
      swa,
      gradients,
      cursor,
      losses: {},
      feed,
      notes,
    },
    ...{ account, flops, times, guard, ranksHere, gpu, thaw },
    clipNorm: training.clip_norm,
    // A rank that updates a part of the weights has no whole gradients.
    inspect: histograms,
    pictures: openPictures(data.val, wants.pictures, events.note),
    confusion: openConfusion(data.val, built.pass.loss, wants.confusion, events.note),
    diagnose: first && !idle ? openDiagnostics(data.val, config.data, paths.logs) : null,
    profile: profileOf(launch, account, paths, console),
    requests: requestsOf(first ? paths.logs : null, console, {
      signals: config.cluster.stop_signals,
      busy: pausesIn(plan, gradients.shards) > 0,
    }),
    saver: first || sharing
      ? openSaver({
        ...{ config, paths, parts, cursor, schedule, console, events, wandb, sharing },
        normalisation: data.normalisation,
        targetScale: data.train.targetScale,
        fill: data.fill,
        climatology: data.climatology,
        classWeights: built.classWeights,
        answers: answersOf(data.train),
        trainedOn: trainedOn(data),
        tokenizer: data.train.facts.task === "language" ? tokenizerMark(config.data) : null,
        gather: zero?.gather,
      })
      : noSaver(zero?.gather),
    ranks: team && control && openRankGroup(team, control, buffersOf(model), device),
    shortage: first ? shortage : null, // all ranks have the same
    memory: () => memoryInUse(device),
    keepRefusals() {
      if (mode !== null) refusals.keep(); // all ranks have the same mode
    },
    goBack() {
      const path = latestPath(paths), here = first && pathExists(path);
      if (!(team?.gather(here, "a checkpoint to go back to")[0] ?? here)) return null;
      return { step: startAt({ path, run: null }, []).step, path };
    },
  };
}

/** Adapters of random weights would learn what the layers beside them never do. */
function refuseUnknownWeights({ config: { model, training }, resume }: Launch): void {
  if (model.lora_rank === 0 || resume !== null || training.init_from !== "" || isExported(model.name)) return;
  throw new UserError(
    "usage",
    "--lora-rank trains adapters beside weights that somebody has trained: name their file with --init-from.",
  );
}

const buffersOf = ({ root }: Built["model"]) => root.namedBuffers().map(([, t]) => t);

export const scalerOf = ({ training }: Config, device: Device) =>
  new LossScaler({
    init: training.loss_scale_init,
    growthInterval: training.loss_scale_growth_interval,
    min: training.loss_scale_min,
    maxSkipped: training.max_skipped_steps,
  }, device);

function gradientsOf(
  { config, device, team = null }: Launch,
  { arena, model, pass }: Built,
  scaler: LossScaler | null,
  zero: Zero | null,
  account: Account,
  compiled: CompiledPass | null,
): GradientStrategy {
  const { training, distributed } = config;
  const options = { pass, arena, scaler, checkpointing: training.gradient_checkpointing, compiled };
  const norms = team && training.sync_bn ? openSyncNorms(config, model, team.collectives, device) : null;
  if (training.deterministic === "world") {
    const count = training.virtual_shards, { rank, world } = team ?? { rank: 0, world: 1 };
    const combine = team ? combineOver(team.collectives, count) : alone;
    const shards = openVirtualShards({ count, rank, world, combine }, arena, buffersOf(model));
    return shardedGradients(shards, options);
  }
  if (pass.seeds) pass.seeds.share = team?.rank ?? 0; // a rank's samples are its shard of the batch
  if (team === null) return plainGradients(options);
  const reducer = openReducer(arena, model, team.collectives, distributed.bucket_mb, {
    owned: zero?.owned,
    half: distributed.reduce === "bf16",
  });
  const overlapped = overlappedGradients(options, reducer, norms, account);
  return zero ? partitionedGradients(overlapped, zero) : overlapped;
}

/** 1e12 operations a second; 0 where it is not known. */
function knownPeak(tf32: boolean, device: Device, amp: Amp): number {
  if (device === "cpu") return 0;
  const kind = amp !== "off" ? amp : tf32 && gpuBackend().tf32Since !== null ? "tf32" : "fp32";
  return peakOf(cudaName(Number(device.slice("cuda:".length))), kind) ?? 0;
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
