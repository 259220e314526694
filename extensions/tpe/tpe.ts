// The tree-structured Parzen estimator (Bergstra et al., 2011): the next run is where good runs are dense and the
// others are not. Kernels, split and numbers are those of Optuna 5. Pure.
import { uniform } from "../../core/base/random.ts";
import type { Earlier } from "../../core/cluster/sweep/search.ts";
import type { SearchDimension } from "../../core/cluster/sweep/space.ts";
import { drawFrom, logDensity, parzenOf, type Point } from "./parzen.ts";

export interface TriedPoint extends Omit<Earlier, "words"> {
  readonly point: Point;
}

/** Runs drawn at random before the first estimate. */
export const FIRST_RUNS = 10;
const CANDIDATES = 24;
const GOOD_SHARE = 0.1;
const MOST_GOOD = 25;

/** `tried` is in the order of the runs; null where the runs are too few for an estimate. */
export function suggestPoint(
  space: readonly SearchDimension[],
  tried: readonly TriedPoint[],
  key: bigint,
): number[] | null {
  const ended = tried.filter(({ state }) => state !== "running");
  if (ended.length < FIRST_RUNS) return null;
  const { good, others } = splitTried(tried);
  const dense = parzenOf(space, good), sparse = parzenOf(space, others);
  const at = uniform(key);
  let drawn = 0, best: number[] | null = null, most = -Infinity;
  for (let i = 0; i < CANDIDATES; i++) {
    const point = drawFrom(dense, () => at(drawn++));
    const ratio = logDensity(dense, point) - logDensity(sparse, point);
    if (best === null || ratio > most) [best, most] = [point, ratio];
  }
  return best;
}

/** A run that failed is among the worst; one that still runs is no good one yet, so nobody goes where it is. */
export function splitTried(tried: readonly TriedPoint[]): { good: Point[]; others: Point[] } {
  const ended = tried.filter(({ state }) => state !== "running");
  const count = Math.min(Math.ceil(GOOD_SHARE * ended.length), MOST_GOOD);
  const ranked = ended.filter(({ state }) => state !== "failed").sort(byMerit);
  const good = new Set(ranked.slice(0, count));
  const pointsOf = (wanted: boolean) => tried.flatMap((one) => good.has(one) === wanted ? [one.point] : []);
  return { good: pointsOf(true), others: pointsOf(false) };
}

/** Whole runs come first; of those that were stopped, the ones that came far. */
function byMerit(a: TriedPoint, b: TriedPoint): number {
  const pruned = Number(a.state === "pruned") - Number(b.state === "pruned");
  if (pruned !== 0) return pruned;
  const further = a.state === "pruned" ? b.step - a.step : 0;
  return further || (a.value ?? Infinity) - (b.value ?? Infinity) || 0;
}
