// Learnt positions of image patches for images of another size: the grid is resampled, bicubic with antialiasing, as timm's
// resample_abs_pos_embed does it.
import { UserError } from "../base/errors.ts";
import { memoryStorage, TensorData } from "./value.ts";

/**
 * A model's parameter of learnt positions: [1, others + rows x columns, width], row by row.
 * @internal
 */
export interface Positions {
  readonly name: string;
  readonly rows: number;
  readonly columns: number;
  /** Tokens before the patches, which stay as they are. */
  readonly others: number;
}

type Grid = readonly [rows: number, columns: number];

/** The grid of a file is not in it: a square, or for a checkpoint of ours one of the same proportions as the model's. */
export function positionGrid(count: number, { rows, columns }: Positions, own: boolean): Grid | null {
  const side = Math.round(Math.sqrt(count)),
    square: Grid | null = side * side === count ? [side, side] : null;
  const height = Math.round(Math.sqrt(count * rows / columns)), width = Math.round(count / height);
  const alike: Grid | null = height * width === count && height * columns === width * rows
    ? [height, width]
    : null;
  return own ? alike ?? square : square ?? alike;
}

/** The positions for the model's grid; null where they fit as they are. `numbers` are the file's. */
export function resampledPositions(
  { shape: [one, count, width] }: TensorData,
  numbers: () => Float64Array,
  to: Positions,
  from: { readonly path: string; readonly own: boolean },
): { tensor: TensorData; notice: string } | null {
  const { rows, columns, others } = to, grid = positionGrid(count - others, to, from.own);
  if (one !== 1 || width === undefined || count <= others || grid?.[0] === rows && grid[1] === columns) {
    return null;
  }
  if (grid === null) {
    if (count === others + rows * columns) return null;
    throw new UserError(
      "checkpoint",
      `${from.path}: ${to.name} has ${
        count - others
      } positions, which is no square of patches and none of the model's ` +
        `proportions (${rows} x ${columns}), so they can't be fitted to these images: give images of the proportions ` +
        "that the weights were trained with.",
    );
  }
  const given = numbers(), made = new Float32Array((others + rows * columns) * width);
  made.set(given.subarray(0, others * width));
  const [height, across] = grid, down = weightsOf(height, rows), along = weightsOf(across, columns);
  const between = new Float64Array(rows * across * width);
  down.forEach(({ first, weights }, y) =>
    weights.forEach((weight, k) => {
      const source = (others + (first + k) * across) * width, target = y * across * width;
      for (let i = 0; i < across * width; i++) between[target + i] += weight * given[source + i];
    })
  );
  for (let y = 0; y < rows; y++) {
    along.forEach(({ first, weights }, x) => {
      for (let i = 0; i < width; i++) {
        let sum = 0;
        weights.forEach((weight, k) => sum += weight * between[(y * across + first + k) * width + i]);
        made[(others + y * columns + x) * width + i] = sum;
      }
    });
  }
  return {
    tensor: new TensorData(
      "f32",
      [1, others + rows * columns, width],
      memoryStorage(new Uint8Array(made.buffer)),
    ),
    notice:
      `${to.name} has positions of ${height} x ${across} patches in the file: resampled to ${rows} x ${columns}`,
  };
}

/** The cubic filter that image libraries use where they smooth. */
const CUBIC = -0.5, REACH = 2;

function cubic(x: number): number {
  const t = Math.abs(x);
  if (t < 1) return ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1;
  return t < 2 ? (((t - 5) * t + 8) * t - 4) * CUBIC : 0;
}

/** Each of `to` points is a sum of some of `from`. Where they become fewer, the filter is as wide as what one of them replaces. */
function weightsOf(from: number, to: number): { first: number; weights: number[] }[] {
  const scale = from / to, wide = Math.max(scale, 1), support = REACH * wide;
  return Array.from({ length: to }, (_, i) => {
    const centre = scale * (i + 0.5);
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const end = Math.min(from, Math.trunc(centre + support + 0.5));
    const weights = Array.from({ length: end - first }, (_, k) => cubic((first + k - centre + 0.5) / wide));
    const sum = weights.reduce((a, b) => a + b, 0);
    return { first, weights: weights.map((weight) => weight / sum) };
  });
}
