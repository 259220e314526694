// `--search asha`: runs drawn at random, of which losers are stopped early.
import type { SearchMethod } from "../../core/cluster/sweep/search.ts";
import type { Climber, Rungs } from "../../core/cluster/sweep/metric.ts";

// Early stopping by asynchronous successive halving (ASHA, Li et al., 2018): at each rung the best share of the runs
// that came there goes on. The rule is that of Optuna's SuccessiveHalvingPruner. Pure.

const rungAt = ({ first, reduce }: Rungs, rung: number): number => first * reduce ** rung;

/** Values are to be minimised, and `others` are those of other runs at the same rung; NaN never goes on. */
export function goesOn(value: number, others: readonly number[], reduce: number): boolean {
  if (Number.isNaN(value)) return false;
  const all = [...others, value].sort((a, b) => a - b);
  // The first ones to come have nobody to be compared with: each that is the best so far goes on.
  const last = Math.max(0, Math.floor(all.length / reduce) - 1);
  return value <= all[last];
}

export const climb: Climber = (before, { step, epoch, value }, rungs, { end, othersAt }) => {
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
};

export const method: SearchMethod = { how: "drawn at random", climb };
