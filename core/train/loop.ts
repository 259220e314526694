// The training loop, top to bottom. May import its siblings, data order, track.
import { scope } from "../../ffi/tensor.ts";
import { order } from "../data/order.ts";
import { partsOf, partsOfShards } from "../data/part.ts";
import { COMPUTE, EVAL, INPUT, OTHER, SAVE } from "../track/profile/laps.ts";
import { openThroughput } from "../track/throughput.ts";
import { placeInEpoch } from "./batch_math.ts";
import type { Outcome } from "./blocks.ts";
import { openBreath } from "./breath.ts";
import { judge } from "./early_stop.ts";
import { every, isTimed } from "./interval.ts";
import { openLate } from "./late.ts";
import { type RunningMetrics, runningMetrics } from "./metrics.ts";
import { Cut, evaluateEpoch, reportEpoch } from "./epoch_end.ts";
import { rewind } from "./guards/rewind.ts";
import { Left, openPauses } from "./pauses.ts";
import type { Ending, Run } from "./run.ts";
import { learningRate } from "./schedule.ts";
import { metricsOfShards } from "./shard_metrics.ts";
import type { VirtualShards } from "./virtual_shards.ts";
import { itemsOf, type MicroBatch, sharesOf, trainStep } from "./step.ts";

/** Longest wait for data before signals and requests are looked at. */
const WAIT_MS = 50;

const ALONE = { rank: 0, world: 1 };

/** Ends when the last checkpoint is in place. */
export async function trainLoop(run: Run): Promise<Ending> {
  const ending = await train(run);
  await run.profile?.finish();
  run.together?.control.phase("save");
  await run.saver.settle();
  return ending;
}

async function train(run: Run): Promise<Ending> {
  const { config: { training, data }, cursor, plan, requests, together, laps, guard } = run;
  const { rank, world } = together?.team ?? ALONE;
  const { length, facts } = run.train;
  const supply = run.feed.of(run.train);
  const { shards, pass: { loss, metrics: own, onGpu } } = run.step;
  const pace = openThroughput();
  const breath = openBreath();
  const pauses = openPauses(run);
  const saveDue = every(training.save_interval, plan.stepsPerEpoch);
  const timed = isTimed(training.save_interval);
  const sumsOf = (running: RunningMetrics) => together?.sumsOf(running) ?? running.sums();
  Object.assign(cursor, placeInEpoch(cursor, plan, length));
  const enough = () => training.max_steps > 0 && cursor.step >= training.max_steps;

  /** What is due after this step, or while data is waited for. With other ranks: what all of them do, at the same step. */
  const asked = (here: boolean): { stop: string | null; save: string | null } => {
    const due = here && !(together && timed) && saveDue(cursor.step) ? "interval" : null;
    if (!together) return { stop: requests.stop(), save: requests.takeSave() ? "request" : due };
    together.wish(requests, timed && rank === 0 && saveDue(cursor.step));
    const agreed = here ? together.control.here() : null;
    const within = here ? pauses.takeSave() : null;
    if (agreed?.what === "stop") return { stop: agreed.reason, save: null };
    return { stop: null, save: agreed?.reason ?? within ?? due };
  };

  await breath.take(); // what came while the run was put together
  if (together) together.wish(requests, false);
  else if (cursor.epoch < training.epochs && !enough()) {
    const stop = requests.stop();
    if (stop !== null) return await stopped(run, stop);
  }
  while (cursor.epoch < training.epochs && !enough()) {
    const epoch = cursor.epoch;
    const samples = order(length, training.seed, epoch, data.shuffle);
    const metrics = () => runningMetrics(facts, loss, false, own);
    const sums = () => shards ? metricsOfShards(shards, metrics) : metrics();
    let running = sums();
    if (cursor.stepInEpoch > 0) running.restore(ownPart(cursor.sums, shards, rank));
    const observe = (o: Outcome, b: MicroBatch) =>
      running.observe(o.output, b.target, o.loss, itemsOf(b, loss), b.shard);
    const options = { ...run.step, observe, hold: run.saver.hold, pauses };
    const late = openLate(run, epoch, pace);
    const goBack = async () => {
      late.settle();
      await rewind(run);
      running = sums(); // what was seen before is not what these weights have learnt
    };
    const began = performance.now(), waited = run.feed.waited();
    pace.startEpoch();
    let fed = cursor.stepInEpoch; // steps whose samples the feed knows
    const mixing = data.mixup > 0 || data.cutmix > 0;
    const parts = (step: number) =>
      shards
        ? partsOfShards(samples, step, plan, epoch, mixing, shards.own, shards.count)
        : partsOf(samples, step, plan, epoch, mixing, rank, world);
    supply.begin(() => fed < plan.stepsPerEpoch ? parts(fed++) : null);

    while (cursor.stepInEpoch < plan.stepsPerEpoch) {
      together?.control.phase("data.next");
      laps.lap(OTHER);
      if (run.profile?.at(cursor.step)) await run.profile.finish();
      const ready = supply.ready(WAIT_MS);
      const here = ready || pauses.endsHere();
      if (here) {
        together?.control.phase("forward");
        // ---- hot: nothing is read from the device but through `late`, nothing is logged -------------------------
        const rate = learningRate(run.schedule, cursor.step);
        const log = (cursor.step + 1) % training.log_interval === 0;
        const count = Math.min(plan.global, length - cursor.stepInEpoch * plan.global);
        const { norms } = run.step;
        if (norms) norms.passes = Math.ceil(Math.ceil(count / world) / plan.micro);
        const result = unlessLeft(() =>
          scope(() => {
            const batches = ready ? supply.take()! : [];
            laps.lap(INPUT);
            run.flops.before(batches[0]?.input.shape[0] ?? 0);
            const shares = together ? together.shares(batches, loss) : sharesOf(batches, loss);
            running.mark();
            pauses.begin();
            return trainStep(options, batches, shares, rate, log, cursor.step);
          })
        );
        if (result instanceof Left) {
          if (result.begun) {
            run.console.line(`Step ${cursor.step + 1} is left in its midst, to be begun anew.`);
          }
          pauses.undo();
          running.undo();
          late.settle();
          if (guard.pending !== null) await goBack();
          cursor.sums = sumsOf(running);
          return await stopped(run, result.reason);
        }
        run.ema?.update();
        cursor.step++;
        together?.control.step(cursor.step);
        cursor.stepInEpoch++;
        cursor.samples += count;
        supply.ahead();
        laps.lap(INPUT);
        late.push(result, rate, log);
        laps.lap(onGpu ? COMPUTE : OTHER); // the device is waited for here
        pace.step(count);
        // ---- end of hot ----------------------------------------------------------------------------------------
      }
      if (guard.pending !== null) await goBack();
      if (here) together?.stepped(run);
      if (!here || breath.due()) await breath.take();
      const { stop, save: due } = asked(here);
      if (stop !== null || due !== null || enough()) {
        late.settle();
        if (guard.pending !== null) await goBack();
        cursor.sums = sumsOf(running);
        if (stop !== null) return stopped(run, stop);
        if (enough()) break;
        await save(run, due!, false);
      }
    }
    late.settle();
    if (guard.pending !== null) await goBack();
    pace.pause();
    laps.lap(OTHER);
    cursor.sums = sumsOf(running); // a stop during the evaluation: resuming begins with it
    const whole = together ? sums() : running;
    if (together) whole.restore(cursor.sums);
    const trained = { ...whole.result(), waited: run.feed.waited() - waited };
    const evaluation = await evaluateEpoch(run, epoch, breath);
    laps.lap(EVAL);
    if (evaluation instanceof Cut) return stopped(run, evaluation.reason);
    if (cursor.stepInEpoch >= plan.stepsPerEpoch) {
      Object.assign(cursor, { epoch: epoch + 1, stepInEpoch: 0, sums: [] });
    }
    const now = evaluation && { epoch: epoch + 1, valLoss: evaluation.valLoss };
    const verdict = now && judge(cursor.best, now, training.early_stopping_patience);
    if (verdict) Object.assign(cursor, { best: verdict.best, valLoss: now.valLoss });
    reportEpoch(run, epoch, trained, evaluation, pace.epochRate(), (performance.now() - began) / 1000);
    await save(run, "epoch", verdict?.better ?? false);
    if (verdict?.stop) return { outcome: earlyStop(training.early_stopping_patience), stopped: false };
    const { stop, save: due } = asked(true);
    if (due === "request") await save(run, due, false); // it came while the epoch's own was made
    if (stop !== null && cursor.epoch < training.epochs && !enough()) {
      return { outcome: `Stopped on request (${stop})`, stopped: true };
    }
    pace.resume();
  }
  return { outcome: enough() ? `Reached --max-steps ${training.max_steps}` : "Finished", stopped: false };
}

/** A step that is left between two micro-batches has changed nothing that lasts, but for what is undone. */
function unlessLeft<R>(step: () => R): R | Left {
  try {
    return step();
  } catch (thrown) {
    if (thrown instanceof Left) return thrown;
    throw thrown;
  }
}

/** Of the sums of all ranks in a checkpoint, what this one goes on with: its own shards', or all on rank 0. */
function ownPart(
  sums: readonly number[],
  shards: VirtualShards | null | undefined,
  rank: number,
): readonly number[] {
  const size = shards ? sums.length / shards.count : NaN;
  if (!shards || !Number.isInteger(size)) return rank === 0 ? sums : [];
  const { from, to } = shards.own;
  return sums.map((value, i) => i >= from * size && i < to * size ? value : 0);
}

async function save(run: Run, reason: string, better: boolean): Promise<void> {
  run.together?.control.phase("save");
  run.laps.lap(OTHER);
  await run.saver.save(reason, better);
  run.laps.lap(SAVE);
}

async function stopped(run: Run, reason: string): Promise<Ending> {
  await save(run, "stop", false);
  return { outcome: `Stopped on request (${reason})`, stopped: true };
}

const earlyStop = (patience: number) => `Stopped early (no better validation loss for ${patience} epochs)`;
