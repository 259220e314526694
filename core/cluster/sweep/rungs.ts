// Early stopping by asynchronous successive halving (ASHA, Li et al., 2018): at each rung the best share of the runs
// that came there goes on. The rule is that of Optuna's SuccessiveHalvingPruner. Pure.

/** Rungs are at `first`, `first * reduce`, `first * reduce^2`, ... */
export interface Rungs {
  readonly unit: "epochs" | "steps";
  readonly first: number;
  /** One of so many goes on. */
  readonly reduce: number;
}

export const rungAt = ({ first, reduce }: Rungs, rung: number): number => first * reduce ** rung;

/** Values are to be minimised, and `others` are those of other runs at the same rung; NaN never goes on. */
export function goesOn(value: number, others: readonly number[], reduce: number): boolean {
  if (Number.isNaN(value)) return false;
  const all = [...others, value].sort((a, b) => a - b);
  // The first ones to come have nobody to be compared with: each that is the best so far goes on.
  const last = Math.max(0, Math.floor(all.length / reduce) - 1);
  return value <= all[last];
}

/** It has a run's values at its rungs, and the rung at which the run was stopped. */
export interface Climb {
  readonly values: readonly number[];
  readonly stoppedAt: number | null;
}

export const BEGIN: Climb = { values: [], stoppedAt: null };

export interface Evaluation {
  readonly step: number;
  readonly epoch: number;
  readonly value: number;
}

/** `othersAt` gives the values of other runs at a rung. `end` is where runs end by themselves: nothing is stopped there. */
export function climb(
  before: Climb,
  { step, epoch, value }: Evaluation,
  rungs: Rungs,
  { end, othersAt }: { end: number; othersAt: (rung: number) => readonly number[] },
): Climb {
  const at = rungs.unit === "epochs" ? epoch : step;
  let now = before;
  while (now.stoppedAt === null && at < end && at >= rungAt(rungs, now.values.length)) {
    const rung = now.values.length;
    now = {
      values: [...now.values, value],
      stoppedAt: goesOn(value, othersAt(rung), rungs.reduce) ? null : rung,
    };
  }
  return now;
}
