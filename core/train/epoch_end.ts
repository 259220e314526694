// What happens between two epochs: evaluation, with averaged weights where there are some, and the lines and
// events that tell of it. May import its siblings, track.
import { formatPlural } from "../format.ts";
import type { Spent } from "../track/account.ts";
import { epochLine } from "../track/lines.ts";
import type { Breath } from "./breath.ts";
import { evaluate, type Evaluation, lessAtOnce } from "./evaluate.ts";
import type { Metrics } from "./metrics.ts";
import type { Run } from "./run.ts";
import { learningRate } from "./schedule.ts";

/** An evaluation that a request to stop has cut short. */
export class Cut {
  constructor(readonly reason: string) {}
}

/** Null without validation data; cut when the run is to stop: a save must not wait for a long evaluation. */
export async function evaluateEpoch(
  run: Run,
  epoch: number,
  breath: Breath,
): Promise<Evaluation | null | Cut> {
  const { val, config: { training }, cursor, console, events, requests, step, together } = run;
  if (val === null) return null;
  const stop = (between: boolean): string | null => {
    if (!together) return requests.stop();
    together.wish(requests, false);
    const agreed = between ? together.control.here() : null; // a save comes at the end, asked for or not
    return agreed?.what === "stop" ? agreed.reason : null;
  };
  /** All ranks stop within this evaluation: what it would come to is nobody's. */
  const given = (places: number): string | null => {
    const ahead = together?.control.ahead();
    return ahead?.what === "stop" && ahead.places <= places ? ahead.reason : null;
  };
  const size = training.eval_batch_size || training.batch_size;
  const stride = size * (together?.team.world ?? 1);
  const poll = async (done: number, of: number, between: boolean) => {
    console.progress({
      epoch: epoch + 1,
      epochs: training.epochs,
      step: done,
      steps: of,
      phase: "evaluating",
    });
    if (breath.due()) await breath.take();
    const reason = stop(between) ?? (between ? null : given(Math.ceil((of - done) / stride)));
    // Of several ranks, the place after the last batch is theirs too: nobody asks a second time.
    if (reason !== null && (done < of || together)) throw new Cut(reason);
  };
  together?.control.phase("evaluation");
  together?.shareBuffers();
  run.saver.hold();
  run.ema?.swap();
  try {
    const evaluation = await evaluate(step.pass, val, run.feed, size, poll, together?.team);
    const { valLoss, metrics, samples, seconds, halvedTo } = evaluation;
    if (halvedTo !== null) console.warn(lessAtOnce(halvedTo, size));
    events.emit({
      kind: "eval",
      step: cursor.step,
      epoch: epoch + 1,
      val_loss: valLoss,
      metrics,
      samples,
      seconds,
    });
    run.pictures?.(step.pass, cursor.step);
    return evaluation;
  } catch (error) {
    if (error instanceof Cut) return error;
    throw error;
  } finally {
    run.ema?.swap();
  }
}

export function reportEpoch(
  run: Run,
  epoch: number,
  trained: { loss: number; metrics: Metrics; worst: Evaluation["worst"] },
  evaluation: Evaluation | null,
  rate: number | null,
  time: { readonly seconds: number; readonly spent: Spent },
): void {
  const { cursor, config: { training }, train } = run;
  const lr = learningRate(run.schedule, Math.max(0, cursor.step - 1));
  const memory = run.memory();
  run.events.emit({
    kind: "epoch",
    step: cursor.step,
    epoch: epoch + 1,
    loss: trained.loss,
    metrics: trained.metrics,
    val_loss: evaluation?.valLoss,
    val_metrics: evaluation?.metrics,
    lr,
    samples_per_s: rate ?? undefined,
    memory_bytes: memory,
    bad_samples: run.feed.skipped() || undefined,
    seconds: time.seconds,
    ...time.spent,
  });
  tellSkipped(run);
  const task = train.facts.task === "segmentation" ? "classification" : train.facts.task;
  const score = (metrics: Metrics | undefined) => metrics?.accuracy ?? metrics?.r2 ?? metrics?.perplexity;
  run.console.line(epochLine({
    epoch: epoch + 1,
    epochs: training.epochs,
    task,
    loss: trained.loss,
    score: score(trained.metrics),
    valLoss: evaluation?.valLoss,
    valScore: score(evaluation?.metrics),
    worst: evaluation ? evaluation.worst : trained.worst,
    learningRate: lr,
    samplesPerSecond: rate,
    memoryBytes: memory,
  }));
}

function tellSkipped({ feed, console, events, cursor }: Run): void {
  const skipped = feed.skipped();
  if (skipped === 0) return;
  const message =
    `${formatPlural(skipped, "sample")} that could not be used ${skipped === 1 ? "was" : "were"} ` +
    "replaced so far, each by the one after it (--bad-samples skip).";
  console.warn(message);
  events.emit({ kind: "warning", step: cursor.step, message });
}
