// The training loop, top to bottom. May import its siblings, data order, track.
import { scope } from "../../ffi/tensor.ts";
import { globalBatch, type Order, order } from "../data/order.ts";
import { openThroughput } from "../track/throughput.ts";
import { placeInEpoch } from "./batch_math.ts";
import type { Outcome } from "./blocks.ts";
import { openBreath } from "./breath.ts";
import { judge } from "./early_stop.ts";
import { every } from "./interval.ts";
import { openLate } from "./late.ts";
import { runningMetrics } from "./metrics.ts";
import { evaluateEpoch, reportEpoch } from "./epoch_end.ts";
import type { Ending, Run } from "./run.ts";
import { learningRate } from "./schedule.ts";
import { itemsOf, type MicroBatch, sharesOf, trainStep } from "./step.ts";

export async function trainLoop(run: Run): Promise<Ending> {
  const { config: { training, data }, cursor, plan, train, requests } = run;
  const { loss } = run.step.pass;
  const pace = openThroughput();
  const breath = openBreath();
  const saveDue = every(training.save_interval, plan.stepsPerEpoch);
  Object.assign(cursor, placeInEpoch(cursor, plan, train.length));
  const enough = () => training.max_steps > 0 && cursor.step >= training.max_steps;

  while (cursor.epoch < training.epochs && !enough()) {
    const epoch = cursor.epoch;
    const samples = order(train.length, training.seed, epoch, data.shuffle);
    const running = runningMetrics(train.facts, loss, false);
    if (cursor.stepInEpoch > 0) running.restore(cursor.sums);
    const observe = (o: Outcome, b: MicroBatch) =>
      running.observe(o.output, b.target, o.loss, itemsOf(b, loss));
    const options = { ...run.step, observe };
    const late = openLate(run, epoch, pace);
    const began = performance.now();
    pace.startEpoch();
    let ids = microBatches(run, samples, cursor.stepInEpoch);

    // ---- hot: nothing is read from the device but through `late`, nothing is logged ---------------------------
    while (ids.length > 0) {
      const rate = learningRate(run.schedule, cursor.step);
      const log = (cursor.step + 1) % training.log_interval === 0;
      const result = scope(() => {
        const batches = run.feed.take(train, ids);
        return trainStep(options, batches, sharesOf(batches, loss), rate, log, cursor.step);
      });
      run.ema?.update();
      const count = sampleCount(ids);
      cursor.step++;
      cursor.stepInEpoch++;
      cursor.samples += count;
      ids = microBatches(run, samples, cursor.stepInEpoch);
      if (ids.length > 0) run.feed.prepare(train, ids);
      late.push(result, rate, log);
      pace.step(count);
      // ---- end of hot ------------------------------------------------------------------------------------------
      if (breath.due()) await breath.take();
      const stop = requests.stop();
      const due = requests.takeSave() ? "request" : saveDue(cursor.step) ? "interval" : null;
      if (stop !== null || due !== null || enough()) {
        late.settle();
        cursor.sums = running.sums();
        if (stop !== null) return stopped(run, stop);
        if (enough()) break;
        run.save(due!, false);
      }
    }
    late.settle();
    pace.pause();
    const trained = running.result();
    cursor.sums = running.sums(); // a stop during the evaluation: resuming begins with it
    const evaluation = await evaluateEpoch(run, epoch, breath);
    if (evaluation === "cut") return stopped(run, requests.stop()!);
    if (cursor.stepInEpoch >= plan.stepsPerEpoch) {
      Object.assign(cursor, { epoch: epoch + 1, stepInEpoch: 0, sums: [] });
    }
    const now = evaluation && { epoch: epoch + 1, valLoss: evaluation.valLoss };
    const verdict = now && judge(cursor.best, now, training.early_stopping_patience);
    if (verdict) Object.assign(cursor, { best: verdict.best, valLoss: now.valLoss });
    reportEpoch(run, epoch, trained, evaluation, pace.epochRate(), (performance.now() - began) / 1000);
    run.save("epoch", verdict?.better ?? false);
    if (verdict?.stop) return { outcome: earlyStop(training.early_stopping_patience), stopped: false };
    if (requests.stop() !== null && cursor.epoch < training.epochs && !enough()) {
      return { outcome: `Stopped on request (${requests.stop()})`, stopped: true };
    }
    pace.resume();
  }
  return { outcome: enough() ? `Reached --max-steps ${training.max_steps}` : "Finished", stopped: false };
}

/** The samples of one optimizer step, cut into micro-batches; none after the last step of an epoch. */
function microBatches(run: Run, samples: Order, step: number): Int32Array[] {
  if (step >= run.plan.stepsPerEpoch) return [];
  const ids = globalBatch(samples, step, run.plan.global, 0, 1);
  const parts: Int32Array[] = [];
  for (let from = 0; from < ids.length; from += run.plan.micro) {
    parts.push(ids.subarray(from, from + run.plan.micro));
  }
  return parts;
}

function sampleCount(ids: readonly Int32Array[]): number {
  let count = 0;
  for (const part of ids) count += part.length;
  return count;
}

function stopped(run: Run, reason: string): Ending {
  run.save("stop", false);
  return { outcome: `Stopped on request (${reason})`, stopped: true };
}

const earlyStop = (patience: number) => `Stopped early (no better validation loss for ${patience} epochs)`;
