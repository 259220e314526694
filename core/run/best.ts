// Tells which of two evaluations is better, by what is monitored: the run and all who read its events ask here.

import type { Config } from "../settings/settings.ts";

export type Mode = "min" | "max";

const LARGER_IS_BETTER =
  /^(val_|train_)?(acc(?![a-z])|accuracy|balanced_accuracy|top\d|(anomaly_)?r2|f\d|auc|auroc|iou|mean_iou|skill|dice|precision|recall|average_precision|specificity|kappa|mcc|pearson|spearman|explained_variance)/i;

/** dice_loss and top1_error are none of those; what is behind a slash is the name of a class or target. */
const OF_MISTAKES = /^[^/]*(loss|error|distance|(?<![a-z])err(?![a-z]))/i;

/** The least is best of what is not known. */
export const modeOf = (metric: string): Mode =>
  LARGER_IS_BETTER.test(metric) && !OF_MISTAKES.test(metric) ? "max" : "min";

/** A value that is not finite is never better. */
export const isBetter = (mode: Mode, value: number, than: number | null | undefined): boolean =>
  Number.isFinite(value) &&
  (than === null || than === undefined || (mode === "max" ? value > than : value < than));

/** A run monitors it unless something else is said. */
export const LOSS = "val_loss";

export interface Monitor {
  readonly name: string;
  readonly mode: Mode;
}

/** Other programs write val_r2, val/r2 and eval_r2 for the same metric. */
export function monitorOf(
  { training: { monitor, monitor_mode: mode } }: {
    readonly training: Pick<Config["training"], "monitor" | "monitor_mode">;
  },
): Monitor {
  const plain = monitor.trim().replace(/^(val|eval)[_/]/, ""), name = plain === "loss" ? LOSS : plain;
  return { name, mode: mode === "auto" ? modeOf(name) : mode };
}

export const isPlain = ({ name, mode }: Monitor): boolean => name === LOSS && mode === "min";

/** The value that an evaluation was judged by. */
export interface Monitored extends Monitor {
  readonly value: number;
}

export interface BestEvaluation {
  readonly loss: number;
  readonly step: number;
  readonly epoch: number;
  /** Absent where the validation loss was monitored. */
  readonly monitor?: Monitored;
}

export const monitoredOf = ({ loss, monitor }: BestEvaluation): Monitored =>
  monitor ?? { name: LOSS, mode: "min", value: loss };

/** Where another metric is monitored from here on, what was best by the one before is best no more. */
export function isBetterThan(one: BestEvaluation, other: BestEvaluation | null | undefined): boolean {
  const { name, mode, value } = monitoredOf(one), before = other && monitoredOf(other);
  const same = before?.name === name && before.mode === mode;
  return isBetter(mode, value, same ? before.value : null);
}

/** The event of an evaluation, which another program may have written. */
interface Judged {
  readonly step: number;
  readonly epoch: number;
  readonly val_loss?: number;
  readonly monitor?: Monitored;
}

/** Null where it does not tell of a finite one. */
export function evaluationIn({ val_loss: loss, step, epoch, monitor }: Judged): BestEvaluation | null {
  if (typeof loss !== "number" || typeof step !== "number") return null;
  const known = typeof monitor?.name === "string" && typeof monitor.value === "number" &&
    (monitor.mode === "min" || monitor.mode === "max");
  const one: BestEvaluation = { loss, step, epoch, ...(known && { monitor }) };
  return Number.isFinite(monitoredOf(one).value) ? one : null;
}
