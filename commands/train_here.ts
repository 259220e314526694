// `hpctrain train`: settings -> a run -> its end, told to the user. train.ts loads it.
import { asUserError, loaderThreads, openDevice, openDeviceBeside, whyNoCuda } from "../core/train/device.ts";
import { originsOf, type Resolved } from "../core/settings/resolve.ts";
import { environmentLines } from "../core/settings/environment.ts";
import { checkLayout, loadPreset, type World } from "../core/settings/presets.ts";
import { generateMissing } from "../core/data/cosmology/generate.ts";
import { loadReader } from "../core/data/open.ts";
import { layoutRequest, refuseIdleGpus } from "../core/ranks/job/layout.ts";
import { notifyScript, type Requeued, requeuedIn } from "../core/train/requeue.ts";
import type { Config } from "../core/settings/settings.ts";
import { cpusHere } from "../core/base/cores.ts";
import type { Control } from "../core/ranks/control/control.ts";
import { writeRun } from "../core/ranks/launch/rank.ts";
import { withRanks } from "../core/ranks/session.ts";
import type { Team } from "../core/ranks/team.ts";
import type { RankContext } from "../core/ranks/context.ts";
import { EXIT, UserError } from "../core/base/errors.ts";
import { changesSince, refuseGpus, refuseLayout, unitsTaken, withoutEffect } from "../core/train/checks.ts";
import { chooseResume, type ResumeChoice, watchJobTime, whyNoEpochs } from "../core/train/restart.ts";
import { trainLoop } from "../core/train/trainer.ts";
import { OUTPUTS } from "../core/outputs/outputs.ts";
import { outOfMemory } from "../core/train/memory.ts";
import { ranksSharingCores, shareCores } from "../core/train/rank_group.ts";
import { refuseZero } from "../core/train/gradients/zero.ts";
import { prepare, type Trainer } from "../core/train/prepare.ts";
import { catchEarlySignals, endByOneself, stopSignals, unlessStopped } from "../core/train/stop.ts";
import { announce, conclude, exit, type Started, startedBy } from "../core/train/summary.ts";
import { settleSpin, spinSentence } from "../ffi/preload.ts";
import type { Device } from "../ffi/tensor.ts";
import type { TrainEnd, TrainRequest } from "./train.ts";
import { withUserCode } from "./user_code.ts";

export async function trainHere({ settings, ...asked }: StartedRequest): Promise<TrainEnd> {
  const { ask, env, where } = asked;
  const again = () => ask({ ranks: where.world });
  const first = await withUserCode(where.world === 1 && !settings.preset ? settings : again());
  refuseLayout(first, where);
  catchEarlySignals(stopSignals(first.config.cluster.stop_signals));
  try {
    const call = { ...asked, requeued: where.rank === 0 ? await requeuedIn(env) : null };
    return where.world === 1 ? await trainAlone(first, call) : await trainTogether(first, call);
  } catch (error) {
    throw asUserError(error);
  }
}

export interface StartedRequest extends TrainRequest {
  /** Unix seconds at which the process was started. */
  readonly began: number;
  readonly settings: Resolved;
  readonly where: RankContext;
}

interface Call extends Omit<StartedRequest, "settings"> {
  readonly requeued: Requeued | null;
}

async function trainAlone(first: Resolved, call: Call): Promise<TrainEnd> {
  const decided = await decide(first, call);
  const { config } = decided.resolved;
  // A preset for many ranks does not fit, whatever there is of libtorch and GPUs.
  if (config.training.device !== "auto") {
    refuseOtherLayout(decided.resolved, call.where, config.training.device);
  }
  const opened = await openDeviceBeside(config, () => loadReader(config.data));
  return await trainOn(decided, { ...opened, team: null, control: null, sharing: 1, notes: [] }, call);
}

/** Rank 0 decides what depends on files that a run writes, and the others follow. */
async function trainTogether(first: Resolved, call: Call): Promise<TrainEnd> {
  const { where, env, ask } = call;
  const { config } = first;
  const opened = openDevice(config, where.localRank);
  const session = { where, config, env, ...opened, end: "the end of the run", whileJoining: unlessStopped };
  return await withRanks(session, async ({ team, control, notes }) => {
    const sharing = ranksSharingCores(team);
    if (opened.device === "cpu") shareCores(sharing, config.training.threads, env);
    const mine = team.rank === 0 ? await decide(first, call) : null;
    const { resolved: own, ...choice } = mine ?? {};
    const decided = team.gather(mine && choice as Omit<Decided, "resolved">, "rank 0's choice")[0]!;
    const again = () => withUserCode(ask({ ranks: where.world, checkpoint: decided.resume!.saved }));
    const resolved = own ?? (decided.resume ? await again() : first);
    return await trainOn({ ...decided, resolved }, { ...opened, team, control, sharing, notes }, call);
  });
}

interface Decided extends Pick<ResumeChoice, "resume" | "again"> {
  /** Lines about what goes on, and about settings that differ from the checkpoint's. */
  readonly changed: readonly string[];
  /** Why no checkpoints of single epochs are kept, though a preset asks for them. */
  readonly noEpochs: string | null;
  readonly resolved: Resolved;
}

/** Going on without other settings means going on with the run's own. */
async function decide(first: Resolved, { ask, where, requeued }: Call): Promise<Decided> {
  const { resume, again, said } = chooseResume(first.config, first.preset, requeued);
  if (!resume) {
    return {
      resume,
      again,
      changed: said,
      resolved: first,
      noEpochs: whyNoEpochs(first, { resume, again }),
    };
  }
  const resolved = await withUserCode(
    ask({ ranks: where.world, checkpoint: resume.saved }),
  );
  return {
    resume,
    again,
    changed: [...said, ...changesSince(resume, resolved)],
    noEpochs: whyNoEpochs(resolved, { resume, again }),
    resolved,
  };
}

interface Opened extends ReturnType<typeof openDevice> {
  readonly team: Team | null;
  readonly control: Control | null;
  /** Ranks that use the same cores as this one. */
  readonly sharing: number;
  readonly notes: readonly string[];
}

async function trainOn(
  { resume, again, changed, noEpochs, resolved }: Decided,
  { device, libtorch, team, control, sharing, notes }: Opened,
  { argv, env, where, began }: Call,
): Promise<TrainEnd> {
  refuseZero(resolved.config);
  if (noEpochs !== null) resolved.config.output.save_every_epoch = false;
  refuseIdleGpus(env, device === "cpu" ? "cpu" : "cuda", whyNoCuda, layoutRequest(resolved.config));
  refuseGpus(resolved, where, device === "cpu" ? "cpu" : "cuda");
  const world = refuseOtherLayout(resolved, where, device === "cpu" ? "cpu" : "cuda");
  const ready = await unlessStopped(generateMissing(resolved.config, libtorch, where));
  await loadReader(ready.config.data);
  const loading = loaderThreads(resolved, device, sharing);
  const trainer = prepare({
    config: ready.config,
    preset: resolved.preset,
    device,
    libtorch,
    resume,
    again,
    loaders: loading.loaders,
    team,
    ranksHere: where.localWorld,
    control,
    originText: resolved.originText,
    outputs: OUTPUTS,
    notes: [
      ...notes,
      ...environmentLines(resolved),
      ...withoutEffect(resolved),
      ...unitsTaken(resolved),
      ...ready.notes,
      ...loading.notes,
      ...waiting(resolved.config, device),
      ...changed,
      ...(noEpochs === null ? [] : [noEpochs]),
    ],
    began,
  });
  writeRun(trainer.paths);
  if (where.rank === 0 && ready.config.cluster.watch_time) watchJobTime(trainer, env, began);
  control?.runFolder(trainer.paths.logs);
  const { host: master } = where.master;
  const started = startedBy(where, world.device, env);
  const code = await run(trainer, started, { argv, world, master, origins: originsOf(resolved) });
  return { code, places: trainer.paths };
}

/** How threads wait is told where several compute. */
const waiting = ({ training }: Config, device: Device): string[] =>
  device === "cpu" && (training.threads || cpusHere()) > 1
    ? [`Cores: ${cpusHere()}; ${spinSentence(settleSpin())}.`]
    : [];

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
    if (ending.stopped) {
      endByOneself();
      if (ending.byHand) notifyScript(Deno.env.toObject(), ending.outcome);
    }
    conclude(trainer, ending, context.argv, started);
    return ending.stopped ? EXIT.stopped : EXIT.done;
  } catch (cause) {
    await trainer.saver.close(); // what is being written is told before the end is
    const error = asUserError(outOfMemory(cause, trainer));
    const code = error instanceof UserError ? error.exitCode : EXIT.internal;
    const message = error instanceof Error ? error.message : String(error);
    exit(trainer, code, message);
    throw error;
  } finally {
    await trainer.saver.close();
    trainer.feed.close();
    await trainer.events.close();
    trainer.console.close();
    trainer.requests.close();
  }
}
