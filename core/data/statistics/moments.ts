// Mean, spread and range of each channel, as sums that can be put together in parts. Imports nothing.

/** Of all values seen so far, one number a channel. Plain data: it can be sent and written down. */
export interface Moments {
  /** Values in each channel. */
  readonly count: number;
  readonly mean: readonly number[];
  /** Sum of squares about the mean. */
  readonly squares: readonly number[];
  readonly min: readonly number[];
  readonly max: readonly number[];
}

/** Of both together, after Chan, Golub and LeVeque: no large sums are subtracted, so a mean of 1e6 costs no digits. */
export function mergeTwo(a: Moments, b: Moments): Moments {
  if (a.count === 0) return b;
  if (b.count === 0) return a;
  const count = a.count + b.count;
  const apart = a.mean.map((mean, i) => b.mean[i] - mean);
  return {
    count,
    mean: a.mean.map((mean, i) => mean + apart[i] * (b.count / count)),
    squares: a.squares.map((sum, i) => sum + b.squares[i] + apart[i] ** 2 * (a.count * (b.count / count))),
    min: a.min.map((least, i) => Math.min(least, b.min[i])),
    max: a.max.map((most, i) => Math.max(most, b.max[i])),
  };
}

/** In the order given: the same parts give the same bits. */
export const mergeMoments = (parts: readonly Moments[]): Moments => parts.reduce(mergeTwo);

/** Of the values as they are, not of what they were drawn from: numpy's default. */
export const deviations = ({ squares, count }: Moments): number[] =>
  squares.map((sum) => Math.sqrt(sum / count));
