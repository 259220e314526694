// How libtorch lays tensors out: what an op that works number by number gives, and what a view keeps.
import { rowMajor } from "./access.ts";

/** Results that lie as the image does among the arguments, which stands here. */
export const IMAGES: Readonly<
  Record<string, { readonly image: number; readonly results: readonly number[] }>
> = {
  convolution: { image: 0, results: [0] },
  convolution_backward: { image: 1, results: [0, 1] },
  native_batch_norm: { image: 0, results: [0] },
  _native_batch_norm_legit_functional: { image: 0, results: [0] },
  native_batch_norm_backward: { image: 1, results: [0] },
  _batch_norm_with_update: { image: 0, results: [0] },
  batch_norm_backward: { image: 1, results: [0] },
  native_group_norm: { image: 0, results: [0] },
  native_group_norm_backward: { image: 1, results: [0] },
  ...Object.fromEntries(
    ["gelu", "silu", "mish", "hardswish", "hardsigmoid", "softplus"].flatMap((name) => [
      [name, { image: 0, results: [0] }],
      [`${name}_backward`, { image: 0, results: [0] }],
    ]),
  ),
  max_pool2d_with_indices: { image: 0, results: [0, 1] },
  max_pool2d_with_indices_backward: { image: 1, results: [0] },
  avg_pool2d: { image: 0, results: [0] },
  avg_pool2d_backward: { image: 1, results: [0] },
  _adaptive_avg_pool2d: { image: 0, results: [0] },
  _adaptive_avg_pool2d_backward: { image: 1, results: [0] },
  upsample_nearest2d: { image: 0, results: [0] },
  upsample_nearest2d_backward: { image: 0, results: [0] },
  upsample_bilinear2d: { image: 0, results: [0] },
  upsample_bilinear2d_backward: { image: 0, results: [0] },
};

/**
 * True of images [n, c, h, w] whose channels lie side by side; where that says nothing, of none. Of an image of one place the
 * strides over its sides tell, as they tell libtorch's kernels.
 */
export function liesLast({ shape, strides }: Laid): boolean {
  if (shape.length !== 4 || shape[1] === 1) return false;
  const tells = (d: number) => shape[d] > 1 || hasOnePlace(shape);
  return strides.every((stride, d) => !tells(d) || stride === lastStrides(shape)[d]);
}

export const hasOnePlace = ([, , height, width]: readonly number[]): boolean => height * width === 1;

/** True where a result lies as the image does: an image of one place comes so from convolutions alone. */
export const followsImage = (name: string, shape: readonly number[]): boolean =>
  !hasOnePlace(shape) || name.startsWith("convolution");

export const lastStrides = ([, channels, height, width]: readonly number[]): number[] => [
  height * width * channels,
  1,
  width * channels,
  channels,
];

/** A tensor's sizes, and the elements from one place to the next in each dimension. */
interface Laid {
  readonly shape: readonly number[];
  readonly strides: readonly number[];
}

/**
 * How a value in row-major order is turned to lie as libtorch's result does, null where it is not turned: TensorIterator sorts
 * dimensions by the strides of the first operand that tells, and an operand that is stretched over one of two does not.
 */
export function orderOf(shape: readonly number[], operands: readonly Laid[]): readonly number[] | null {
  const strides = operands.map((one) => {
    const ahead = shape.length - one.shape.length;
    return shape.map((size, d) => d < ahead || one.shape[d - ahead] !== size ? 0 : one.strides[d - ahead]);
  });
  const inner = shape.map((_, d) => shape.length - 1 - d);
  for (let i = 1; i < inner.length; i++) {
    for (let at = i, other = i - 1; other >= 0; other--) {
      const compared = comparedBy(strides, shape, inner[other], inner[at]);
      if (compared < 0) break;
      if (compared === 0) continue;
      [inner[other], inner[at]] = [inner[at], inner[other]];
      at = other;
    }
  }
  const outer = inner.reverse(), wide = outer.filter((d) => shape[d] !== 1);
  return wide.every((d, i) => i === 0 || d > wide[i - 1]) ? null : outer.map((_, d) => outer.indexOf(d));
}

/** Negative if dimension `a` is the inner one of two; 0 if no operand tells. */
function comparedBy(
  operands: readonly (readonly number[])[],
  shape: readonly number[],
  a: number,
  b: number,
): number {
  for (const strides of operands) {
    if (strides[a] === 0 || strides[b] === 0) continue;
    if (strides[a] !== strides[b]) return strides[a] - strides[b];
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

/** The strides of a view of other sizes, or null where it has to be a copy. */
export function viewed(
  from: readonly number[],
  strides: readonly number[],
  shape: readonly number[],
): number[] | null {
  if (from.length === 0) return rowMajor(shape);
  const made = new Array<number>(shape.length);
  let to = shape.length - 1, base = strides.at(-1)!, count = 1, seen = 1;
  for (let d = from.length - 1; d >= 0; d--) {
    count *= from[d];
    if (d > 0 && (from[d - 1] === 1 || strides[d - 1] === count * base)) continue;
    while (to >= 0 && (seen < count || shape[to] === 1)) {
      made[to] = seen * base;
      seen *= shape[to--];
    }
    if (seen !== count) return null;
    if (d > 0) [base, count, seen] = [strides[d - 1], 1, 1];
  }
  return to < 0 ? made : null;
}
