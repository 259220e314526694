// Adam's update with the bits of libtorch's fused one, which goes through each parameter in whole vectors, and then number by
// number: its compiler has fused other products with their sums in either loop.
import type { GroupKernel } from "./kernel.ts";
import { Loop, type UpdateSettings, type WeightPiece } from "./update.ts";

/** A loop rounds once in place of twice, where it says so. */
export interface AdamWay {
  /** The mean's step towards the gradient, and the weight that decays into the gradient. */
  readonly mean: boolean;
  readonly decay: boolean;
  /** The sum of squares with the product of the gradient, or of those before it. */
  readonly squares: "new" | "old" | "neither";
}

/** By an optimizer's trait. */
export const hasExactLoop = (compiled: string | null): boolean => compiled === "adam";

/** All that are known; the ways of a libtorch's two loops are among them. */
export const ADAM_WAYS: readonly AdamWay[] = [true, false].flatMap((mean) =>
  (["new", "old", "neither"] as const).flatMap((squares) =>
    [true, false].map((decay) => ({ mean, decay, squares }))
  )
);

/** Places among a group's numbers: 1 - rate * decay, -rate / (1 - beta1^t), and the root of 1 - beta2^t. */
const SHRINK = 0, STEP = 1, ROOT = 2;
export const ADAM_NUMBERS = 3;

/** As libtorch has them before it rounds them to f32. */
export function beginAdam(
  { beta1, beta2, weight_decay }: UpdateSettings,
): (given: Float32Array, rate: number, step: number) => void {
  return (given, rate, step) => {
    given[SHRINK] = 1 - rate * weight_decay;
    given[STEP] = -(rate / (1 - beta1 ** step));
    given[ROOT] = Math.sqrt(1 - beta2 ** step);
  };
}

export function exactAdamKernel(
  { type, beta1, beta2, eps, weight_decay: decay }: UpdateSettings,
  piece: WeightPiece,
  way: AdamWay,
): GroupKernel {
  const loop = new Loop(piece), { op, number, ofGroup } = loop, [mean, squares] = piece.state;
  const sum = (fused: boolean, a: number, b: number, to: number) =>
    fused ? op("fma", a, b, to) : op("add", to, op("mul", a, b));
  let weight = loop.load(piece.weights), gradient = loop.load(piece.gradient);
  const first = loop.load(mean), second = loop.load(squares);
  if (decay !== 0) {
    if (type === "adamw") weight = op("mul", weight, ofGroup(SHRINK));
    else gradient = sum(way.decay, weight, number(decay), gradient);
  }
  const nextMean = sum(way.mean, number(1 - beta1), op("sub", gradient, first), first);
  const own = op("mul", number(1 - beta2), gradient), old = number(beta2);
  const nextSquares = way.squares === "old"
    ? op("fma", second, old, op("mul", own, gradient))
    : sum(way.squares === "new", own, gradient, op("mul", second, old));
  const under = op("add", op("div", op("sqrt", nextSquares), ofGroup(ROOT)), number(eps));
  loop.store(nextMean, mean);
  loop.store(nextSquares, squares);
  loop.store(op("add", weight, op("div", op("mul", ofGroup(STEP), nextMean), under)), piece.weights);
  return { ...loop.kernel(type), exact: true };
}
