// The metrics that --metrics asks for, by their names: what each takes, of which targets it is, and its key in events.
import { parseCalls, type Value } from "../base/calls.ts";
import { UserError } from "../base/errors.ts";
import { didYouMean } from "../base/suggest.ts";
import { type Arguments, argumentsOf } from "./arguments.ts";

/** `class`: one for each sample; `pixel`: for each of its points; `token`: the next one of a text; `number`. */
export type JudgedTarget = "class" | "pixel" | "token" | "number";

interface MetricName {
  readonly about: string;
  readonly of: readonly JudgedTarget[];
  readonly takes?: Arguments;
  /** The name in events; the metric's own by default. */
  readonly key?: (values: ReadonlyMap<string, Value>) => string;
}

const AVERAGE = { kind: "choice", of: ["macro", "micro", "weighted"] } as const;
const averaged = (name: string) => (values: ReadonlyMap<string, Value>) => {
  const average = values.get("average") ?? "macro";
  return average === "macro" ? name : `${name}_${average}`;
};
const CLASSES = ["class", "pixel"] as const, ANY_CLASS = ["class", "pixel", "token"] as const;

const ofCounts = (name: string, about: string, key = name): MetricName => ({
  about,
  of: CLASSES,
  takes: { average: AVERAGE },
  key: averaged(key),
});

export const METRICS = {
  accuracy: { about: "share of items whose likeliest class is their label", of: ANY_CLASS },
  balanced_accuracy: { about: "mean over the labelled classes of their recall", of: CLASSES },
  top_k: {
    about: "share of items whose label is among the k likeliest classes",
    of: ANY_CLASS,
    takes: { k: { kind: "whole", min: 1 } },
    key: (values: ReadonlyMap<string, Value>) => `top${values.get("k") ?? 5}`,
  },
  precision: ofCounts("precision", "share of the items predicted as a class that have its label"),
  recall: ofCounts("recall", "share of the items of a class that are predicted as it"),
  f1: ofCounts("f1", "harmonic mean of precision and recall"),
  f_beta: {
    about: "as f1, with recall counting beta^2 times as much as precision",
    of: CLASSES,
    takes: { beta: { kind: "number", min: 0, above: true }, average: AVERAGE },
    key: (values: ReadonlyMap<string, Value>) => averaged(`f${values.get("beta") ?? 1}`)(values),
  },
  specificity: ofCounts(
    "specificity",
    "share of the items of other classes that are not predicted as a class",
  ),
  iou: ofCounts("iou", "intersection over union of labels and predictions", "mean_iou"),
  dice: ofCounts("dice", "twice the intersection over the sum of labels and predictions: f1 of pixels"),
  ece: {
    about: "mean distance of confidence and accuracy, bin by bin (expected calibration error)",
    of: CLASSES,
    takes: { bins: { kind: "whole", min: 1 } },
    key: (values: ReadonlyMap<string, Value>) => {
      const bins = values.get("bins") ?? 15;
      return bins === 15 ? "ece" : `ece_${bins}`;
    },
  },
  kappa: { about: "agreement beyond chance (Cohen)", of: CLASSES },
  mcc: { about: "correlation of labels and predictions (Matthews), of any number of classes", of: CLASSES },
  auroc: {
    about: "area under the ROC curve, of each class against the others",
    of: ["class"],
    takes: { average: { kind: "choice", of: ["macro", "weighted"] } },
    key: averaged("auroc"),
  },
  average_precision: {
    about: "area under the curve of precision and recall, of each class against the others",
    of: ["class"],
    takes: { average: { kind: "choice", of: ["macro", "weighted"] } },
    key: averaged("average_precision"),
  },
  perplexity: { about: "exponential of the cross entropy", of: ["token"] },
  mae: { about: "mean of the absolute errors", of: ["number"] },
  mse: { about: "mean of the squared errors", of: ["number"] },
  rmse: { about: "root of the mean squared error", of: ["number"] },
  mape: { about: "mean of |error| / max(|target|, 1.17e-6)", of: ["number"] },
  smape: { about: "mean of 2 |error| / max(|target| + |prediction|, 1.17e-6)", of: ["number"] },
  r2: { about: "1 - squared errors / squared distances of the targets from their mean", of: ["number"] },
  explained_variance: { about: "1 - variance of the errors / variance of the targets", of: ["number"] },
  bias: { about: "mean error: prediction - target", of: ["number"] },
  pearson: { about: "correlation of targets and predictions", of: ["number"] },
  spearman: { about: "correlation of the ranks of targets and predictions", of: ["number"] },
} as const satisfies Readonly<Record<string, MetricName>>;

export type MetricChoice = keyof typeof METRICS;

export interface RequestedMetric {
  readonly name: MetricChoice;
  /** Its name in events, files and --monitor. */
  readonly key: string;
  readonly values: ReadonlyMap<string, Value>;
  readonly text: string;
}

/** Other programs' names for them. */
const WORDS: Readonly<Record<string, MetricChoice>> = {
  acc: "accuracy",
  jaccard: "iou",
  mean_iou: "iou",
  miou: "iou",
  f_score: "f1",
  fbeta: "f_beta",
  cohen_kappa: "kappa",
  matthews_corrcoef: "mcc",
  roc_auc: "auroc",
  auc: "auroc",
  ap: "average_precision",
  calibration_error: "ece",
  corr: "pearson",
};

/** None where the setting is empty. */
export function requestedMetrics(text: string): readonly RequestedMetric[] {
  const fail = (why: string): never => {
    throw new UserError("usage", `--metrics "${text}": ${why}`);
  };
  if (/\.(ts|mts|js|mjs)$/.test(text.trim())) fail("a file with metrics of your own is --metric FILE.");
  const requested = parseCalls(text, "--metrics").map((call): RequestedMetric => {
    const top = /^top_?(\d+)$/.exec(call.name);
    if (top && Number(top[1]) > 0 && call.values.length === 0 && call.named.size === 0) {
      return {
        name: "top_k",
        key: `top${top[1]}`,
        values: new Map([["k", Number(top[1])]]),
        text: call.text,
      };
    }
    const name = Object.hasOwn(WORDS, call.name) ? WORDS[call.name] : call.name;
    if (!Object.hasOwn(METRICS, name)) {
      const all = Object.keys(METRICS);
      fail(`there is no metric ${name}.${didYouMean(name, all)} There are ${all.join(", ")}.`);
    }
    const one: MetricName = METRICS[name as MetricChoice];
    const values = argumentsOf(call, one.takes ?? {}, fail);
    return { name: name as MetricChoice, key: one.key?.(values) ?? name, values, text: call.text };
  });
  const twice = requested.find(({ key }, i) => requested.findIndex((other) => other.key === key) < i);
  if (twice) fail(`${twice.text} stands there twice.`);
  return requested;
}
