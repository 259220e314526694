// The learning-rate finder (Smith 2017): a few steps with a rate that grows by the same factor each time, and where the loss falls
// fastest as it does. Single losses are noisy and a running mean lags behind, so lines are fitted to the losses around each step.

/** One step: its rate, its loss, and the fitted line there. */
interface Swept {
  readonly rate: number;
  readonly loss: number;
  readonly smoothed: number;
  /** How the loss changes over a rate ten times as high. */
  readonly slope: number;
}

export interface RateSweep {
  readonly from: number;
  readonly to: number;
  readonly steps: number;
}

export interface FoundRate {
  readonly swept: readonly Swept[];
  /** The loss falls fastest there; null where it never falls. */
  readonly suggestion: number | null;
  /** The smoothed loss is lowest there. */
  readonly lowest: number;
  /** The rate at which the loss had grown too far to go on; null where all steps were taken. */
  readonly exploded: number | null;
}

/** A mean of about ten losses so far that is four times the lowest one ends the sweep, as it ends Lightning's. */
const RUNNING = 0.9, EXPLODED = 4, FIRST = 5;

/** `step` takes a training step with a rate and returns its loss. */
export function sweepRates({ from, to, steps }: RateSweep, step: (rate: number) => number): FoundRate {
  const rates: number[] = [], losses: number[] = [];
  let sum = 0, best = Infinity, exploded: number | null = null;
  for (let i = 0; i < steps; i++) {
    const rate = from * (to / from) ** (steps > 1 ? i / (steps - 1) : 0), loss = step(rate);
    sum = RUNNING * sum + (1 - RUNNING) * loss;
    const mean = sum / (1 - RUNNING ** (i + 1));
    if (!Number.isFinite(loss) || i >= FIRST && mean > EXPLODED * best) {
      exploded = rate;
      break;
    }
    best = Math.min(best, mean);
    rates.push(rate);
    losses.push(loss);
  }
  return { ...judged(rates, losses), exploded };
}

/** Half a decade, to either side. */
const REACH = 0.5;

export function judged(rates: readonly number[], losses: readonly number[]): Omit<FoundRate, "exploded"> {
  const logs = rates.map(Math.log10);
  const swept = rates.map((rate, i): Swept => {
    const near = logs.flatMap((log, k) => Math.abs(log - logs[i]) <= REACH ? [k] : []);
    const { slope, value } = lineThrough(near.map((k) => logs[k] - logs[i]), near.map((k) => losses[k]));
    return { rate, loss: losses[i], smoothed: value, slope };
  });
  const least = (all: readonly Swept[], of: "smoothed" | "slope") =>
    all.reduce((best: Swept | null, one) => best === null || one[of] < best[of] ? one : best, null);
  const lowest = least(swept, "smoothed");
  // Beyond the lowest loss there is only noise on the way up; a line at an end leans on one side alone.
  const inside = swept.filter(({ rate }) =>
    rate <= (lowest?.rate ?? 0) && Math.log10(rate) - logs[0] >= REACH
  );
  const steepest = least(inside, "slope");
  return {
    swept,
    suggestion: steepest && steepest.slope < 0 ? steepest.rate : null,
    lowest: lowest?.rate ?? NaN,
  };
}

/** Least squares: its slope, and its value at 0. */
function lineThrough(x: readonly number[], y: readonly number[]): { slope: number; value: number } {
  const mean = (all: readonly number[]) => all.reduce((sum, one) => sum + one, 0) / all.length;
  const mx = mean(x), my = mean(y);
  const spread = x.reduce((sum, one) => sum + (one - mx) ** 2, 0);
  const slope = spread === 0 ? 0 : x.reduce((sum, one, i) => sum + (one - mx) * (y[i] - my), 0) / spread;
  return { slope, value: my - slope * mx };
}
