// A training run, from a request to its end: what it goes on from, its ranks, the trainer, the loop and the last lines.
import { asUserError, openDevice, openDeviceBeside } from "./device.ts";
import { EXIT, messageOf, UserError } from "../base/errors.ts";
import { loadDataReader } from "../data/open/open.ts";
import { slotsNote } from "../ranks/job/layout.ts";
import { writeRun } from "../ranks/launch/rank.ts";
import { endThreadAhead, startThreadAhead } from "../run/writer/track.ts";
import { originsOf, type Resolved } from "../settings/resolve.ts";
import { changesSince, refuseLayout, refuseMissingData } from "./checks.ts";
import { keepChoice } from "./compiled_choice.ts";
import { leaveSoon, leaveWith } from "./leaving.ts";
import { trainLoop } from "./loop.ts";
import { outOfMemory } from "./memory.ts";
import { ranksSharingCores, shareThreads } from "./rank_group.ts";
import {
  chooseResume,
  notifyScript,
  type Requeued,
  requeuedIn,
  type ResumeChoice,
  watchJobTime,
} from "./restart.ts";
import type { RunPaths } from "./run_folder.ts";
import { launchOf, refuseOtherLayout, type TrainRequest } from "./setup/launch.ts";
import { catchEarlySignals, giveSignalsBack, stopSignals, unlessStopped } from "./stop.ts";
import { announce, conclude, exit, type Started, startedBy } from "./summary.ts";
import { openTrainer, type Trainer } from "./trainer.ts";

export interface TrainEnd {
  readonly code: number;
  readonly paths: RunPaths;
}

export async function trainInProcess(request: TrainRequest, settings: Resolved): Promise<TrainEnd> {
  const { resolve, env, where } = request;
  const alone = where.world === 1;
  const first = await request.withUserCode(
    alone && !settings.preset ? settings : resolve({ ranks: where.world }),
  );
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
    endThreadAhead();
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
  refuseMissingData(resolved);
  // A preset for many ranks does not fit, whatever there is of libtorch and GPUs.
  if (config.training.device !== "auto") refuseOtherLayout(resolved, request.where, config.training.device);
  const opened = await openDeviceBeside(config, async () => {
    await loadDataReader(config.data);
    startThreadAhead();
  });
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
  const { withRanks } = await import("../ranks/session.ts"); // a run alone does without
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
    if (opened.device === "cpu") shareThreads(sharing, config.training.threads, env);
    const own = team.rank === 0 ? await decide(request, first, requeued) : null;
    const choice = team.gather(own && own.choice, "rank 0's choice")[0]!;
    const again = () =>
      request.withUserCode(resolve({ ranks: where.world, checkpoint: choice.resume!.saved }));
    const resolved = own?.resolved ?? (choice.resume ? await again() : first);
    if (choice.resume) keepChoice(resolved.config, choice.resume.saved);
    refuseMissingData(resolved);
    return await trainOn(request, resolved, choice, { ...opened, ...joined }, sharing);
  });
}

/** A run that goes on without other settings goes on with its own. */
export async function decide(
  { resolve, withUserCode, where }: Pick<TrainRequest, "resolve" | "withUserCode" | "where">,
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

async function trainOn(
  request: TrainRequest,
  resolved: Resolved,
  choice: ResumeChoice,
  opened: Parameters<typeof launchOf>[3],
  sharing: number,
): Promise<TrainEnd> {
  const { argv, env, where, began } = request;
  const { launch, world } = await launchOf(request, resolved, choice, opened, sharing);
  const trainer = await openTrainer(launch);
  writeRun(trainer.paths);
  if (where.rank === 0 && trainer.config.cluster.watch_time) watchJobTime(trainer, env, began);
  opened.control?.runFolder(trainer.paths.logs);
  const started = startedBy(where, world.device, env);
  const context = { argv, world, master: where.master.host, origins: originsOf(resolved) };
  return { code: await run(trainer, started, context), paths: trainer.paths };
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
    if (isOwn(context)) leaveWith(code, "", trainer.saver.lend);
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
