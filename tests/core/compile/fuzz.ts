// Random compositions of ops: views, broadcasts, sums, products, writes in place. Test helper.
import { constant, scale } from "../../../ffi/make.ts";
import * as ops from "../../../core/models/user/ops.ts";
import { op } from "../../../core/models/user/op.ts";
import type { Tensor } from "../../../ffi/tensor.ts";

type Random = () => number;

/** Mulberry32. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const below = (random: Random, count: number): number => Math.floor(random() * count);
const pick = <T>(random: Random, from: readonly T[]): T => from[below(random, from.length)];

const SIZES = [1, 2, 3, 4, 7, 17];

/** One to three dimensions. */
export const randomShape = (random: Random): number[] =>
  Array.from({ length: 1 + below(random, 3) }, () => pick(random, SIZES));

const one = constant;

/** Functions whose values and slopes stay small. */
const UNARY: readonly ((x: Tensor) => Tensor)[] = [
  ops.tanh,
  ops.sigmoid,
  ops.sin,
  ops.cos,
  ops.relu,
  ops.silu,
  ops.abs,
  ops.neg,
  ops.erf,
  ops.logSigmoid,
  (x) => ops.gelu(x),
  (x) => ops.gelu(x, "tanh"),
  (x) => ops.exp(ops.tanh(x)),
  (x) => ops.sqrt(ops.add(ops.square(x), 1)),
  (x) => ops.rsqrt(ops.add(ops.square(x), 1)),
  (x) => ops.reciprocal(ops.add(ops.square(x), 1)),
  (x) => ops.log1p(ops.square(x)),
  (x) => ops.expm1(ops.sin(x)),
  (x) => ops.clamp(x, one(-0.7), one(0.9)),
  (x) => op("leaky_relu")(x, 0.2),
  (x) => op("elu")(x),
  (x) => op("softplus")(x),
  (x) => op("pow.Tensor_Scalar")(ops.tanh(x), 3),
  (x) => scale(x, 0.7),
  (x) => ops.add(x, 0.3),
  (x) => ops.clone(x),
];

const BINARY: readonly ((x: Tensor, y: Tensor) => Tensor)[] = [
  ops.add,
  (x, y) => ops.sub(x, y, 0.5),
  (x, y) => ops.mul(x, y),
  (x, y) => ops.div(x, ops.add(ops.square(y), 1)),
  ops.maximum,
  ops.minimum,
  (x, y) => ops.where(ops.gt(x, y), x, ops.tanh(y)),
  (x, y) => ops.mul(x, ops.detach(y)),
];

/** These write to what was just made. */
const IN_PLACE: readonly ((x: Tensor, y: Tensor) => Tensor)[] = [
  (x) => ops.relu_(x),
  (x, y) => op("add_.Tensor")(x, y),
  (x, y) => ops.mul_(x, y),
];

function reduced(random: Random, x: Tensor): Tensor {
  const d = below(random, x.shape.length), keep = random() < 0.7;
  switch (below(random, 6)) {
    case 0:
      return ops.sumDim(x, [d], keep);
    case 1:
      return ops.meanDim(x, [d], keep);
    case 2:
      return ops.softmax(x, d);
    case 3:
      return ops.logSoftmax(x, d);
    case 4:
      return ops.amax(x, [d], keep);
    default:
      return x.shape.at(-1)! > 1
        ? ops.layerNorm(x, [x.shape.at(-1)!], null, null, 0.1)
        : ops.sumDim(x, [d], keep);
  }
}

function moved(random: Random, x: Tensor): Tensor {
  const { shape } = x, rank = shape.length, d = below(random, rank);
  switch (below(random, 9)) {
    case 0:
      return ops.transpose(x, d, below(random, rank));
    case 7:
      return ops.contiguous(ops.transpose(x, d, below(random, rank)));
    case 1:
      return ops.reshape(x, [-1]);
    case 2:
      return ops.unsqueeze(x, below(random, rank + 1));
    case 3: {
      const start = below(random, shape[d]), end = start + 1 + below(random, shape[d] - start);
      return ops.narrow(x, d, start, end - start);
    }
    case 4:
      return ops.pad(x, [below(random, 3), below(random, 3)]);
    case 5:
      return ops.cat(ops.chunk(x, 2, d).toReversed() as Tensor[], d);
    case 6:
      return shape[d] === 1 ? ops.expand(x, shape.with(d, 3)) : ops.roll(x, [1], [d]);
    default:
      return ops.select(x, d, below(random, shape[d]));
  }
}

/** With a bias, where a value can be one, and a function behind it or none. */
function product(random: Random, x: Tensor, weight: Tensor, values: readonly Tensor[]): Tensor {
  const biases = values.filter(({ shape }) => shape.length === 1 && shape[0] === weight.shape[0]);
  const bias = biases.length > 0 && random() < 0.7 ? pick(random, biases) : null;
  const made = ops.linear(x, weight, bias);
  return random() < 0.5 ? made : ops.tanh(made);
}

const fits = (a: readonly number[], b: readonly number[]): boolean =>
  Array.from({ length: Math.min(a.length, b.length) }, (_, i) => [a.at(-1 - i)!, b.at(-1 - i)!])
    .every(([x, y]) => x === y || x === 1 || y === 1);

/** More numbers than this would only take time. */
const MOST = 4000;

/** The same seed gives the same composition. */
export function composition(seed: number, parameters: readonly Tensor[]): { output: Tensor; loss: Tensor } {
  const random = randomFrom(seed), values: Tensor[] = [...parameters];
  const steps = 4 + below(random, 14);
  for (let i = 0; i < steps; i++) {
    const x = random() < 0.5 ? values.at(-1)! : pick(random, values);
    values.push(step(random, x, values));
  }
  const output = values.at(-1)!;
  // Large sums have small slopes here: rounding in them must not be what is compared.
  const ends = values.slice(-3).map((t) => ops.mean(ops.div(t, ops.add(ops.square(t), 1))));
  return { output, loss: ends.reduce((a, b) => ops.add(a, b)) };
}

function step(random: Random, x: Tensor, values: readonly Tensor[]): Tensor {
  const kind = random();
  if (x.shape.length === 0 || kind < 0.35) return pick(random, UNARY)(x);
  if (kind < 0.5) return reduced(random, x);
  if (kind < 0.65) return moved(random, x);
  const others = values.filter((t) => fits(x.shape, t.shape) && x.numel * t.numel < MOST);
  if (kind < 0.72) {
    const fresh = scale(x, 0.9), same = others.filter((t) => t.shape.join() === x.shape.join());
    return pick(random, IN_PLACE)(fresh, same.length > 0 ? pick(random, same) : ops.sigmoid(x));
  }
  const products = values.filter((t) => t.shape.length === 2 && t.shape[1] === x.shape.at(-1));
  if (kind < 0.8 && products.length > 0) return product(random, x, pick(random, products), values);
  return others.length > 0 ? pick(random, BINARY)(x, pick(random, others)) : ops.tanh(x);
}
