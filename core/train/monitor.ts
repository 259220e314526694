// Judges evaluations by what is monitored (--monitor): finds the best ones, whose checkpoints are kept, and ends a run early.
// Metrics that this data can't have are refused before the first step.
import { formatWhole } from "../base/format.ts";
import { UserError } from "../base/errors.ts";
import { byNearness, didYouMean } from "../base/suggest.ts";
import type { Cursor, Judgement } from "../checkpoint/training_state.ts";
import { isBetter, isPlain, LOSS, type Monitor, type Monitored, monitorOf } from "../run/best.ts";
import { type JudgedTarget, METRICS } from "../settings/metrics.ts";
import type { Config } from "../settings/settings.ts";
import type { Built } from "./build.ts";
import { MOST_HELD } from "./ranking.ts";
import { type Evaluation, metricNames } from "./evaluate.ts";

/** NaN where the evaluation has no such metric. */
export const valueIn = (
  { name }: Monitor,
  { valLoss, metrics }: Pick<Evaluation, "valLoss" | "metrics">,
): number => name === LOSS ? valLoss : metrics[name] ?? NaN;

/** For the event: empty where the least validation loss is best, as it is unless something else is said. */
export const monitorField = (
  monitor: Monitor,
  evaluation: Pick<Evaluation, "valLoss" | "metrics">,
): { monitor?: Monitored } =>
  isPlain(monitor) ? {} : { monitor: { ...monitor, value: valueIn(monitor, evaluation) } };

/** Before the first step a metric is refused that evaluations of this data can't have. */
export function refuseMonitor(config: Config, { data: { val }, pass }: Pick<Built, "data" | "pass">): void {
  const { name } = monitorOf(config);
  if (name === LOSS) return;
  if (val === null) {
    throw new UserError(
      "usage",
      `--monitor ${name} is a metric of evaluations, and this run has no validation data: hold some out ` +
        "(--validation-split 0.1, --val-samples), or leave --monitor out.",
    );
  }
  const known = [LOSS, ...metricNames(pass, val)];
  if (known.includes(name)) return;
  const near = byNearness(name, known).slice(0, MOST_NAMED).join(", ");
  throw new UserError(
    "usage",
    `--monitor ${name}: evaluations of this data have no such metric.${
      didYouMean(name, known)
    } They have ${near}.`,
  );
}

const MOST_NAMED = 12;

const KINDS: Readonly<Record<string, JudgedTarget>> = {
  classification: "class",
  segmentation: "pixel",
  language: "token",
  regression: "number",
};

const SAID: Readonly<Record<JudgedTarget, string>> = {
  class: "a class for each sample",
  pixel: "a class for each of its points",
  token: "tokens",
  number: "numbers",
};

/** Before the first step, what these targets or outputs can't have is refused. */
export function refuseMetrics(
  { data: { train, val }, pass: { requested, loss } }: {
    readonly data: Pick<Built["data"], "train" | "val">;
    readonly pass: Pick<Built["pass"], "requested" | "loss">;
  },
): void {
  if (!requested) return;
  const { facts: { task, outputs, targetless, missing }, target: { shape } } = train, kind = KINDS[task];
  const fail = (why: string): never => {
    throw new UserError("usage", `--metrics ${why}`);
  };
  if (val === null) {
    fail(
      "are of evaluations, and this run has no validation data: hold some out (--validation-split 0.1, --val-samples).",
    );
  }
  const like = loss.like ?? loss.name;
  if (targetless || like === "none" || kind === "number" && like === "bce") {
    fail(
      `compare answers with targets, and those of the loss ${loss.name} are not alike: leave --metrics out.`,
    );
  }
  const fitting = Object.entries(METRICS).filter(([, { of }]) => (of as readonly string[]).includes(kind));
  for (const { name, text, values } of requested.list) {
    if (!fitting.some(([one]) => one === name)) {
      fail(
        `${text} is not for targets that are ${SAID[kind]}, as these are: there are ` +
          `${fitting.map(([one]) => one).join(", ")}.`,
      );
    }
    const k = Number(values.get("k") ?? 5);
    if (name === "top_k" && (like === "bce" || k >= outputs)) {
      fail(`${text} needs more than ${k} classes to choose from, and this data has ${outputs}.`);
    }
    const rows = {
      auroc: outputs + 1,
      average_precision: outputs + 1,
      spearman: 2 * shape.reduce((a, b) => a * b, 1),
    };
    const row = Object.hasOwn(rows, name) ? rows[name as keyof typeof rows] : 0;
    if (row * val!.length > MOST_HELD) {
      fail(
        `${text} orders all answers of an evaluation, and ${
          val!.length
        } samples of ${row} numbers are more than ` +
          `${formatWhole(MOST_HELD)}: evaluate fewer (--val-samples), or leave it out.`,
      );
    }
    if (name === "spearman" && missing && loss.weights) {
      fail("spearman weighs no points: leave --loss-weight out.");
    }
  }
}

type Done = Pick<Cursor, "best" | "judged">;

/** One that an earlier version or another program judged is known by its epoch alone. */
function judgementOf({ best, judged }: Done, monitor: Monitor, now: Now): Judgement {
  const fresh = { ...namesOf(monitor), step: 0, since: 0, kept: [], several: false };
  if (judged) return judged.monitor === monitor.name && judged.mode === monitor.mode ? judged : fresh;
  const since = Math.max(0, now.epoch - 1 - (best?.epoch ?? 0));
  if (best === null || !isPlain(monitor)) return { ...fresh, since: isPlain(monitor) ? since : 0 };
  const first = { step: 0, epoch: best.epoch, within: false, value: best.valLoss };
  return { ...fresh, since, kept: [first] };
}

const namesOf = ({ name, mode }: Monitor) => ({ monitor: name, mode });

interface Now {
  readonly step: number;
  /** From 1. */
  readonly epoch: number;
  readonly within: boolean;
  /** The monitored metric has it. */
  readonly value: number;
  readonly valLoss: number;
}

interface Verdict {
  readonly best: Cursor["best"];
  readonly judged: Judgement;
  /** It is the best so far. */
  readonly better: boolean;
  /** It is among the best, whose checkpoints are kept. */
  readonly kept: boolean;
  readonly stop: boolean;
}

/** A value that is not finite never is among the best. A patience of 0 never ends the run. */
export function judge(
  done: Done,
  monitor: Monitor,
  now: Now,
  { keep, patience }: { readonly keep: number; readonly patience: number },
): Verdict {
  const before = judgementOf(done, monitor, now), { step, epoch, within, value, valLoss } = now;
  const others = before.kept.filter((one) => one.step !== step); // the same again, after a kill
  const behind = others.filter((one) => !isBetter(monitor.mode, value, one.value)).length;
  const place = Number.isFinite(value) ? behind : keep;
  const kept = place < keep, better = place === 0;
  const all = kept ? others.toSpliced(place, 0, { step, epoch, within, value }).slice(0, keep) : others;
  const since = better ? 0 : before.since + 1;
  const several = before.several || keep > 1;
  return {
    best: better ? { epoch, valLoss } : judgedBest(done, before),
    judged: { ...namesOf(monitor), step, since, kept: all, several },
    better,
    kept,
    stop: patience > 0 && since >= patience,
  };
}

/** With a new list there is no best yet. */
const judgedBest = ({ best }: Done, { kept }: Judgement): Cursor["best"] => kept.length > 0 ? best : null;

/** Before the first step a run says by what it is judged, where that is not the validation loss, or no longer. */
export function monitorNotes(config: Config, { judged, best }: Done): string[] {
  const monitor = monitorOf(config), { name, mode } = monitor;
  const before = judged?.monitor ?? (best ? LOSS : null), order = judged?.mode ?? "min";
  const most = mode === "max" ? "the most" : "the least";
  return [
    ...(isPlain(monitor)
      ? []
      : [`The best evaluation is that with ${most} ${name} (--monitor ${name}, --monitor-mode ${mode})`]),
    ...(before !== null && (before !== name || order !== mode)
      ? [
        `The checkpoint's best evaluations were by ${before} (${order}): a new list of the best begins, by ${name} (${mode})`,
      ]
      : []),
  ];
}
