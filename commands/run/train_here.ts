// `hpctrain train`: from settings to a trainer, and from the end of its run to the last lines. train.ts loads it.
import {
  asUserError,
  loaderThreads,
  openDevice,
  openDeviceBeside,
  unusedGpus,
  whyNoCuda,
} from "../../core/train/device.ts";
import { inCommon } from "../../core/train/gpu.ts";
import { originsOf, type Resolved } from "../../core/settings/resolve.ts";
import { environmentLines } from "../../core/settings/environment.ts";
import { checkLayout, loadPreset, type World } from "../../core/settings/presets.ts";
import { generateMissing } from "../../core/data/cosmology/generate.ts";
import { loadReader } from "../../core/data/open.ts";
import { layoutRequest, refuseIdleGpus, slotsNote } from "../../core/ranks/job/layout.ts";
import { notifyScript, type Requeued, requeuedIn } from "../../core/train/requeue.ts";
import { coresHere } from "../../core/base/topology.ts";
import { memoryOfHere, nearSentence } from "../../core/train/near_memory.ts";
import { writeRun } from "../../core/ranks/launch/rank.ts";
import { withRanks } from "../../core/ranks/session.ts";
import type { RankContext } from "../../core/ranks/context.ts";
import { EXIT, messageOf, UserError } from "../../core/base/errors.ts";
import {
  changesSince,
  onCpus,
  refuseGpus,
  refuseLayout,
  refuseMissing,
  refuseOptimizer,
  unitsTaken,
  unnamedData,
  withoutEffect,
} from "../../core/train/checks.ts";
import { chooseResume, type ResumeChoice, watchJobTime } from "../../core/train/restart.ts";
import { trainLoop } from "../../core/train/loop.ts";
import { OUTPUTS } from "../../core/outputs/outputs.ts";
import { outOfMemory } from "../../core/train/memory.ts";
import { ranksSharingCores, shareCores } from "../../core/train/rank_group.ts";
import { refuseZero } from "../../core/train/gradients/zero.ts";
import { keepChoice } from "../../core/train/compiled_choice.ts";
import { openTrainer, type Trainer } from "../../core/train/trainer.ts";
import type { Launch } from "../../core/train/launch.ts";
import { leaveSoon, leaveWith } from "../../core/train/leaving.ts";
import { catchEarlySignals, giveSignalsBack, stopSignals, unlessStopped } from "../../core/train/stop.ts";
import { announce, conclude, exit, type Started, startedBy } from "../../core/train/summary.ts";
import type { Device } from "../../ffi/tensor.ts";
import type { TrainEnd, TrainRequest } from "./train.ts";
import { withUserCode } from "../user_code.ts";

export async function trainHere(request: TrainRequest, settings: Resolved): Promise<TrainEnd> {
  const { resolve, env, where } = request;
  const alone = where.world === 1;
  const first = await withUserCode(alone && !settings.preset ? settings : resolve({ ranks: where.world }));
  refuseLayout(first, where);
  catchEarlySignals(stopSignals(first.config.cluster.stop_signals));
  try {
    const requeued = where.rank === 0 ? await requeuedIn(env) : null;
    return await (alone ? trainAlone : trainOnRanks)(request, first, requeued);
  } catch (cause) {
    const error = asUserError(cause);
    if (isOwn(request)) leaveFor(error);
    leaveSoon();
    throw error;
  } finally {
    if (!isOwn(request)) giveSignalsBack();
  }
}

const MAIN = new URL("../../main.ts", import.meta.url).href;

/** The process is the executable's, and ends with the run. A program that calls us goes on, with a command or without one. */
const isOwn = ({ argv }: Pick<TrainRequest, "argv">): boolean => argv !== null && Deno.mainModule === MAIN;

const leaveFor = (error: unknown): void => leaveWith(codeOf(error), messageOf(error));

const codeOf = (error: unknown): number => error instanceof UserError ? error.exitCode : EXIT.internal;

async function trainAlone(
  request: TrainRequest,
  first: Resolved,
  requeued: Requeued | null,
): Promise<TrainEnd> {
  const { resolved, choice } = await decide(request, first, requeued);
  const { config } = resolved;
  refuseMissing(resolved);
  // A preset for many ranks does not fit, whatever there is of libtorch and GPUs.
  if (config.training.device !== "auto") refuseOtherLayout(resolved, request.where, config.training.device);
  const opened = await openDeviceBeside(config, () => loadReader(config.data));
  return await trainOn(
    request,
    resolved,
    choice,
    { ...opened, notes: slotsNote(request.env, request.where) },
    1,
  );
}

/** Rank 0 decides what depends on files that a run writes, and the others follow. */
async function trainOnRanks(
  request: TrainRequest,
  first: Resolved,
  requeued: Requeued | null,
): Promise<TrainEnd> {
  const { where, env, resolve } = request;
  const { config } = first;
  const opened = openDevice(config, where.localRank);
  const session = {
    ...{ where, config, env, ...opened, end: "the end of the run" },
    backendFrom: first.origin("distributed.backend"),
    ended: leaveSoon,
    whileJoining: unlessStopped,
  };
  return await withRanks(session, async (joined) => {
    const { team } = joined;
    const sharing = ranksSharingCores(team);
    if (opened.device === "cpu") shareCores(sharing, config.training.threads, env);
    const own = team.rank === 0 ? await decide(request, first, requeued) : null;
    const choice = team.gather(own && own.choice, "rank 0's choice")[0]!;
    const again = () => withUserCode(resolve({ ranks: where.world, checkpoint: choice.resume!.saved }));
    const resolved = own?.resolved ?? (choice.resume ? await again() : first);
    if (choice.resume) keepChoice(resolved.config, choice.resume.saved);
    refuseMissing(resolved);
    return await trainOn(request, resolved, choice, { ...opened, ...joined }, sharing);
  });
}

/** A run that goes on without other settings goes on with its own. */
async function decide(
  { resolve, where }: TrainRequest,
  first: Resolved,
  requeued: Requeued | null,
): Promise<{ resolved: Resolved; choice: ResumeChoice }> {
  const choice = chooseResume(first.config, first.preset, requeued);
  const { resume } = choice;
  const resolved = resume
    ? await withUserCode(resolve({ ranks: where.world, checkpoint: resume.saved }))
    : first;
  const kept = resume ? keepChoice(resolved.config, resume.saved) : [];
  const changes = resume ? changesSince(resume, resolved) : [];
  return { resolved, choice: { ...choice, notes: [...choice.notes, ...kept, ...changes] } };
}

/** `sharing` is the number of ranks that use the same cores. */
async function trainOn(
  { argv, env, where, began }: TrainRequest,
  resolved: Resolved,
  { resume, again, scale, notes }: ResumeChoice,
  opened: Pick<Launch, "device" | "libtorch" | "team" | "control" | "notes">,
  sharing: number,
): Promise<TrainEnd> {
  const { device, libtorch } = opened;
  const kind = device === "cpu" ? "cpu" : "cuda";
  refuseZero(resolved.config);
  refuseOptimizer(resolved.config);
  refuseIdleGpus(env, kind, whyNoCuda, layoutRequest(resolved.config));
  refuseGpus(resolved, where, kind);
  const world = refuseOtherLayout(resolved, where, kind);
  const from = `data.type ${resolved.config.data.type} (${resolved.originText("data.type")})`;
  const ready = await unlessStopped(generateMissing(resolved.config, libtorch, where, { from }));
  const { config, notes: kinds } = inCommon(ready.config, device, opened.team ?? null);
  await loadReader(config.data);
  const loading = loaderThreads(resolved, device, sharing);
  const trainer = openTrainer({
    ...{ ...opened, config, resume, again, scale, began },
    preset: resolved.preset,
    loaders: loading.loaders,
    ranksHere: where.localWorld,
    resolved,
    outputs: OUTPUTS,
    notes: [
      ...opened.notes,
      ...kinds,
      ...unusedGpus(config, device, env),
      ...environmentLines(resolved),
      ...withoutEffect(resolved),
      ...onCpus(resolved, kind),
      ...unnamedData(resolved),
      ...unitsTaken(resolved),
      ...ready.notes,
      ...loading.notes,
      ...nearNote(device),
      ...notes,
    ],
  });
  writeRun(trainer.paths);
  if (where.rank === 0 && config.cluster.watch_time) watchJobTime(trainer, env, began);
  opened.control?.runFolder(trainer.paths.logs);
  const started = startedBy(where, world.device, env);
  const context = { argv, world, master: where.master.host, origins: originsOf(resolved) };
  return { code: await run(trainer, started, context), paths: trainer.paths };
}

/** Where memory has several domains, whose cores a rank has decides its speed. */
function nearNote(device: Device): string[] {
  const near = device === "cpu" ? nearSentence(memoryOfHere()) : "";
  return near === "" ? [] : [`Cores: ${coresHere()}${near}.`];
}

export function refuseOtherLayout(
  { preset, config }: Resolved,
  { nodes, world: ranks }: RankContext,
  device: World["device"],
): World {
  const world: World = { nodes, ranks, device };
  if (preset && !config.distributed.any_layout) checkLayout(loadPreset(preset), world);
  return world;
}

async function run(
  trainer: Trainer,
  started: Started,
  context: Parameters<typeof announce>[1],
): Promise<number> {
  announce(trainer, context);
  try {
    const ending = await trainLoop(trainer);
    const code = ending.stopped ? EXIT.stopped : EXIT.done;
    if (isOwn(context)) leaveWith(code);
    if (trainer.ranks === null) leaveSoon(); // else another rank may still be saving
    if (ending.stopped && ending.byHand) notifyScript(Deno.env.toObject(), ending.outcome);
    conclude(trainer, ending, context.argv, started);
    return code;
  } catch (cause) {
    const error = asUserError(outOfMemory(cause, trainer));
    if (isOwn(context)) leaveFor(error);
    await trainer.saver.close(); // events of a save come before that of the end
    leaveSoon();
    exit(trainer, codeOf(error), messageOf(error));
    throw error;
  } finally {
    await trainer.close();
  }
}
