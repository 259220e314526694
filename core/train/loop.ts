// The training loop, top to bottom. May import its siblings, data order, track.
import { scope } from "../../ffi/tensor.ts";
import { order } from "../data/order.ts";
import { partsOf } from "../data/part.ts";
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

/** Longest wait for data before signals and requests are looked at. */
const WAIT_MS = 50;

/** Ends when the last checkpoint is in place. */
export async function trainLoop(run: Run): Promise<Ending> {
  const ending = await train(run);
  await run.saver.settle();
  return ending;
}

async function train(run: Run): Promise<Ending> {
  const { config: { training, data }, cursor, plan, requests } = run;
  const { length, facts } = run.train;
  const supply = run.feed.of(run.train);
  const { loss } = run.step.pass;
  const pace = openThroughput();
  const breath = openBreath();
  const saveDue = every(training.save_interval, plan.stepsPerEpoch);
  Object.assign(cursor, placeInEpoch(cursor, plan, length));
  const enough = () => training.max_steps > 0 && cursor.step >= training.max_steps;

  while (cursor.epoch < training.epochs && !enough()) {
    const epoch = cursor.epoch;
    const samples = order(length, training.seed, epoch, data.shuffle);
    const running = runningMetrics(facts, loss, false);
    if (cursor.stepInEpoch > 0) running.restore(cursor.sums);
    const observe = (o: Outcome, b: MicroBatch) =>
      running.observe(o.output, b.target, o.loss, itemsOf(b, loss));
    const options = { ...run.step, observe };
    const late = openLate(run, epoch, pace);
    const began = performance.now(), waited = run.feed.waited();
    pace.startEpoch();
    let asked = cursor.stepInEpoch; // steps whose samples the feed knows
    const mixing = data.mixup > 0 || data.cutmix > 0;
    supply.begin(() => asked < plan.stepsPerEpoch ? partsOf(samples, asked++, plan, epoch, mixing) : null);

    while (cursor.stepInEpoch < plan.stepsPerEpoch) {
      const here = supply.ready(WAIT_MS);
      if (here) {
        // ---- hot: nothing is read from the device but through `late`, nothing is logged -------------------------
        const rate = learningRate(run.schedule, cursor.step);
        const log = (cursor.step + 1) % training.log_interval === 0;
        const result = scope(() => {
          const batches = supply.take()!;
          return trainStep(options, batches, sharesOf(batches, loss), rate, log, cursor.step);
        });
        run.ema?.update();
        const count = Math.min(plan.global, length - cursor.stepInEpoch * plan.global);
        cursor.step++;
        cursor.stepInEpoch++;
        cursor.samples += count;
        supply.ahead();
        late.push(result, rate, log);
        pace.step(count);
        // ---- end of hot ----------------------------------------------------------------------------------------
      }
      if (!here || breath.due()) await breath.take();
      const stop = requests.stop();
      const due = requests.takeSave() ? "request" : here && saveDue(cursor.step) ? "interval" : null;
      if (stop !== null || due !== null || enough()) {
        late.settle();
        cursor.sums = running.sums();
        if (stop !== null) return stopped(run, stop);
        if (enough()) break;
        await run.saver.save(due!, false);
      }
    }
    late.settle();
    pace.pause();
    const trained = { ...running.result(), waited: run.feed.waited() - waited };
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
    await run.saver.save("epoch", verdict?.better ?? false);
    if (verdict?.stop) return { outcome: earlyStop(training.early_stopping_patience), stopped: false };
    if (requests.stop() !== null && cursor.epoch < training.epochs && !enough()) {
      return { outcome: `Stopped on request (${requests.stop()})`, stopped: true };
    }
    pace.resume();
  }
  return { outcome: enough() ? `Reached --max-steps ${training.max_steps}` : "Finished", stopped: false };
}

async function stopped(run: Run, reason: string): Promise<Ending> {
  await run.saver.save("stop", false);
  return { outcome: `Stopped on request (${reason})`, stopped: true };
}

const earlyStop = (patience: number) => `Stopped early (no better validation loss for ${patience} epochs)`;
