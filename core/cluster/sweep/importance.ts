// How much of the order of runs one setting alone explains: the adjusted R² of a parabola through ranks, or of the means
// of choices. A parabola, as the best learning rate is between too small and too large. Pure.

export interface Observation {
  /** A number, or the index of a choice. */
  readonly x: number;
  readonly y: number;
}

/** Fewer runs say nothing. */
export const FEWEST_RUNS = 12;

/** From 0 to 1; null where there are too few runs, or too few different values. */
export function explained(samples: readonly Observation[], kind: "number" | "choice"): number | null {
  const n = samples.length, different = new Set(samples.map(({ x }) => x)).size;
  if (n < FEWEST_RUNS || different < 2) return null;
  const y = ranksOf(samples.map((one) => one.y));
  const fitted = kind === "choice" || different < 4
    ? meansOf(samples.map(({ x }) => x), y)
    : parabola(ranksOf(samples.map(({ x }) => x)), y);
  const freedom = kind === "choice" || different < 4 ? different : 3;
  const mean = (n + 1) / 2;
  const sum = (of: (value: number, i: number) => number) =>
    y.reduce((all, value, i) => all + of(value, i) ** 2, 0);
  const all = sum((value) => value - mean), left = sum((value, i) => value - fitted[i]);
  if (all === 0 || n <= freedom) return null;
  return Math.max(0, 1 - left / (n - freedom) / (all / (n - 1)));
}

/** Equal values share the mean of their ranks. */
function ranksOf(values: readonly number[]): number[] {
  const order = values.map((_, i) => i).sort((a, b) => values[a] - values[b]);
  const ranks = new Array<number>(values.length).fill(0);
  for (let from = 0, to = 0; from < order.length; from = to) {
    while (to < order.length && values[order[to]] === values[order[from]]) to++;
    for (let at = from; at < to; at++) ranks[order[at]] = (from + 1 + to) / 2;
  }
  return ranks;
}

function meansOf(groups: readonly number[], y: readonly number[]): number[] {
  const sums = new Map<number, [sum: number, count: number]>();
  groups.forEach((group, i) => {
    const [sum, count] = sums.get(group) ?? [0, 0];
    sums.set(group, [sum + y[i], count + 1]);
  });
  return groups.map((group) => sums.get(group)![0] / sums.get(group)![1]);
}

/** Least squares over polynomials that are orthogonal on these points. */
function parabola(x: readonly number[], y: readonly number[]): number[] {
  const n = x.length, mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / n;
  const product = (a: readonly number[], b: readonly number[]) =>
    a.reduce((all, value, i) => all + value * b[i], 0);
  const one = x.map(() => 1), line = x.map((value) => value - mean(x));
  const square = line.map((value) => value ** 2);
  const slope = product(square, line) / product(line, line);
  const curve = square.map((value, i) => value - mean(square) - slope * line[i]);
  const parts = [one, line, curve].filter((part) => product(part, part) > 1e-9 * n);
  const weights = parts.map((part) => product(part, y) / product(part, part));
  return x.map((_, i) => parts.reduce((all, part, p) => all + weights[p] * part[i], 0));
}
