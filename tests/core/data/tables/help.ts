// Settings, folders and small statistics for the tests of core/data. Test helper.
import { type Config, defaultConfig } from "../../../../core/settings/settings.ts";
import type { Spec } from "../../../../core/data/synthetic/fields.ts";

/** The default settings with these changes. */
export function settings(
  changes: { data?: Partial<Config["data"]>; model?: Partial<Config["model"]> },
): Config {
  const config = defaultConfig();
  Object.assign(config.data, changes.data);
  Object.assign(config.model, changes.model);
  return config;
}

export function spec(
  changes: Partial<Omit<Spec, "model">> & { samples: number },
  model: Partial<Config["model"]> = {},
): Spec {
  return { role: "train", seed: 1, loss: "auto", model: { ...defaultConfig().model, ...model }, ...changes };
}

export const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

/** Rows of `width` numbers. */
export function rows(values: Float64Array, width: number): number[][] {
  return range(0, values.length / width).map((i) => [...values.subarray(i * width, (i + 1) * width)]);
}

/** Fits y = w.x + b to the first rows by least squares; its R2 on the others. */
export function linearR2(x: number[][], y: number[], fitted: number): number {
  const rowsWithOne = x.map((row) => [...row, 1]);
  const w = leastSquares(rowsWithOne.slice(0, fitted), y.slice(0, fitted));
  const test = y.slice(fitted);
  const mean = test.reduce((a, b) => a + b, 0) / test.length;
  let missed = 0, spread = 0;
  test.forEach((value, i) => {
    const predicted = rowsWithOne[fitted + i].reduce((sum, v, j) => sum + v * w[j], 0);
    missed += (value - predicted) ** 2;
    spread += (value - mean) ** 2;
  });
  return 1 - missed / spread;
}

/** The normal equations, solved by Gauss-Jordan elimination. */
function leastSquares(x: number[][], y: number[]): number[] {
  const n = x[0].length;
  const a = range(0, n).map((i) => [
    ...range(0, n).map((j) => x.reduce((sum, row) => sum + row[i] * row[j], 0)),
    x.reduce((sum, row, k) => sum + row[i] * y[k], 0),
  ]);
  for (let i = 0; i < n; i++) {
    const pivot = range(i, n).reduce((best, j) => Math.abs(a[j][i]) > Math.abs(a[best][i]) ? j : best, i);
    [a[i], a[pivot]] = [a[pivot], a[i]];
    for (let j = 0; j < n; j++) {
      if (j === i) continue;
      const factor = a[j][i] / a[i][i];
      for (let k = i; k <= n; k++) a[j][k] -= factor * a[i][k];
    }
  }
  return a.map((row, i) => row[n] / row[i]);
}
