// Matrix products and attention.
import { attentionKernel, hasCudnnAttention } from "../../../ffi/attention.ts";
import { attended, attendedOnCpu, type FusedAttention } from "../attentions.ts";
import { broadcastShapes, numelOf } from "../builder.ts";
import { rowMajor } from "../access.ts";
import { type Lowering, num, type Rules } from "./lowering.ts";
import { safeSoftmax, softmax } from "./reductions.ts";
import type { Ref } from "../graph.ts";

/** All but the last dimension are rows. */
const rows = (g: Lowering, x: Ref): Ref => {
  const shape = g.shape(x), last = shape.at(-1)!;
  return g.b.reshape(x, [numelOf(shape.slice(0, -1)), last]);
};

function linear(g: Lowering, x: Ref, w: Ref, bias: Ref | null): Ref {
  const weight = g.shape(w).length === 1 ? g.b.reshape(w, [1, g.shape(w)[0]]) : w;
  const y = g.exact
    ? g.b.gemm(rows(g, x), g.b.permute(weight, [1, 0]))
    : g.b.gemm(rows(g, x), weight, false, true);
  if (bias === null) return g.shaped(y);
  // libtorch puts a bias under the product, unless rows have to be gathered first.
  const behind = g.exact && g.shape(x).length > 2 && g.source?.dense === false;
  return behind ? g.add(g.shaped(y), bias) : g.shaped(g.add(y, bias));
}

function scaled(g: Lowering, x: Ref, by: number): Ref {
  return by === 1 ? x : g.mul(x, num(by));
}

/** beta * x + alpha * product. */
const added = (g: Lowering, x: Ref, product: Ref, beta: number, alpha: number): Ref => {
  const y = scaled(g, product, alpha);
  return beta === 0 ? y : g.add(y, scaled(g, x, beta));
};

/** As libtorch's: vectors are rows or columns, and what is before the last two dimensions is stretched. */
function matmul(g: Lowering, x: Ref, y: Ref): Ref {
  const a = g.shape(x), b = g.shape(y);
  if (a.length === 0 || b.length === 0) g.refuse("arguments");
  if (a.length === 1) {
    return g.shaped(matrices(g, g.b.reshape(x, [1, ...a]), b.length === 1 ? column(g, y) : y));
  }
  const strides = g.given.slice(0, 2).map((seen) => seen?.strides ?? []);
  return g.shaped(b.length === 1 ? matrices(g, x, column(g, y)) : matrices(g, x, y, strides));
}

const column = (g: Lowering, y: Ref): Ref => g.b.reshape(y, [...g.shape(y), 1]);

export function matrices(
  g: Lowering,
  x: Ref,
  y: Ref,
  /** As libtorch's operands lie. */
  strides: readonly (readonly number[])[] = [],
): Ref {
  const a = g.shape(x), b = g.shape(y);
  if (b.length === 2) {
    const product = g.b.gemm(rows(g, x), y);
    return g.b.reshape(product, [...a.slice(0, -1), b[1]]);
  }
  if (g.exact && a.length === 2) return turnedMatrices(g, x, y);
  const batch = broadcastShapes([a.slice(0, -2), b.slice(0, -2)]);
  if (g.exact && batch.length > 1) return batched(g, [x, y], batch, strides);
  return g.b.gemm(g.b.expand(x, [...batch, ...a.slice(-2)]), g.b.expand(y, [...batch, ...b.slice(-2)]));
}

const swapped = (g: Lowering, x: Ref): Ref => {
  const rank = g.shape(x).length;
  return g.b.permute(x, [...g.all(x).slice(0, -2), rank - 1, rank - 2]);
};

/** One matrix by many is one product of all of them, turned, of which libtorch makes a copy in rows. */
function turnedMatrices(g: Lowering, x: Ref, y: Ref): Ref {
  const many = swapped(g, y), made = g.b.gemm(rows(g, many), g.b.permute(x, [1, 0]));
  return g.b.copy(swapped(g, g.b.reshape(made, [...g.shape(many).slice(0, -1), g.shape(x)[0]])));
}

/**
 * libtorch's batches have one dimension. Operands that have more are looked at so where their strides allow it, and copied
 * where not; backward finds them so, too.
 */
function batched(
  g: Lowering,
  operands: readonly Ref[],
  batch: readonly number[],
  strides: readonly (readonly number[])[],
): Ref {
  const [x, y] = operands.map((r, i) => {
    const matrix = g.shape(r).slice(-2), wide = g.b.expand(r, [...batch, ...matrix]);
    const steps = stretched(g.shape(r), strides[i] ?? rowMajor(g.shape(r)), batch);
    return isOneStride(batch, steps) ? wide : g.b.copy(wide);
  });
  return g.b.gemm(x, y);
}

/** The strides of the dimensions in front, where those of one place are repeated. */
const stretched = (
  shape: readonly number[],
  strides: readonly number[],
  batch: readonly number[],
): number[] =>
  batch.map((size, d) => {
    const own = d - batch.length + shape.length - 2;
    return own < 0 || shape[own] !== size ? 0 : strides[own];
  });

function isOneStride(sizes: readonly number[], strides: readonly number[]): boolean {
  const long = sizes.flatMap((size, d) => size > 1 ? [d] : []);
  return long.every((d, i) => i === 0 || strides[long[i - 1]] === strides[d] * sizes[d]);
}

/** From this many scores of a head on, they are not written out. */
const MOST_SCORES = 2 ** 15;

function attention(
  g: Lowering,
  q: Ref,
  k: Ref,
  v: Ref,
  mask: Ref | null,
  dropout: number,
  causal: boolean,
  scale: number | null,
  grouped = false,
): Ref {
  if (grouped) g.refuse("arguments");
  const shape = g.shape(q), tokens = shape.at(-2)!, keys = g.shape(k).at(-2)!;
  const fits = dropout === 0 && shape.length === 4 && mask === null && g.shape(v).at(-1) === shape.at(-1) &&
    g.shape(k).slice(0, 2).join() === shape.slice(0, 2).join();
  if (fits && g.device === "cpu" && tokens * keys > MOST_SCORES) {
    return attendedOnCpu(g.b, [q, k, v], { causal, mask: null, scale });
  }
  const kernel = fits ? fusedKernel(g, shape, causal) : null;
  if (kernel !== null) return attended(g.b, kernel, [q, k, v], { causal, scale });
  const factor = scale ?? 1 / Math.sqrt(shape.at(-1)!);
  const turned = g.b.permute(k, [...g.all(k).slice(0, -2), g.shape(k).length - 1, g.shape(k).length - 2]);
  let scores = g.mul(matrices(g, q, turned), num(factor));
  if (causal) {
    const own = g.b.reshape(g.range(tokens), [tokens, 1]), other = g.range(keys);
    scores = g.where(g.compare("ge", own, other), scores, num(-Infinity));
  }
  if (mask !== null) {
    scores = g.kind(mask) === "bool" ? g.where(mask, scores, num(-Infinity)) : g.add(scores, mask);
  }
  const shares = mask === null ? softmax(g, scores, -1) : safeSoftmax(g, scores);
  return matrices(g, dropout === 0 ? shares : g.mul(shares, g.mask(g.shape(shares), dropout)), v);
}

/** On a GPU: the kernel of libtorch's that computes the recorded op, where it takes heads of this width as they are. */
function fusedKernel(g: Lowering, shape: readonly number[], causal: boolean): FusedAttention | null {
  const { device } = g, width = shape.at(-1)!, [{ dtype }] = g.results;
  if (device === "cpu" || width % (dtype === "f32" ? 4 : 8) !== 0) return null;
  const kernel = attentionKernel({ heads: shape[1], width, causal, dropout: 0 }, dtype, device);
  if (kernel === "cuDNN" && !hasCudnnAttention()) return dtype === "f32" ? null : "flash";
  return kernel === "math" ? null : kernel;
}

// einsum of one or two tensors: a permutation, sums, and a product.

/** A value whose dimensions have letters. */
interface Lettered {
  readonly ref: Ref;
  readonly letters: readonly string[];
}

const times = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);

/** Without the letters that nobody asks for. */
function summed(g: Lowering, { ref, letters }: Lettered, wanted: readonly string[]): Lettered {
  const dims = letters.flatMap((letter, d) => wanted.includes(letter) ? [] : [d]);
  if (dims.length === 0) return { ref, letters };
  const kept = letters.filter((letter) => wanted.includes(letter));
  const shape = g.shape(ref).filter((_, d) => !dims.includes(d));
  return { ref: g.b.reshape(g.sum(ref, dims), shape), letters: kept };
}

const ordered = (g: Lowering, { ref, letters }: Lettered, order: readonly string[]): Ref =>
  g.b.permute(ref, order.map((letter) => letters.indexOf(letter)));

function product(g: Lowering, x: Lettered, y: Lettered, out: readonly string[]): Lettered {
  const a = summed(g, x, [...y.letters, ...out]), b = summed(g, y, [...x.letters, ...out]);
  const both = a.letters.filter((letter) => b.letters.includes(letter));
  const batch = both.filter((letter) => out.includes(letter));
  const over = both.filter((letter) => !out.includes(letter));
  const rows = a.letters.filter((letter) => !both.includes(letter));
  const columns = b.letters.filter((letter) => !both.includes(letter));
  const sizesOf = (of: Lettered, letters: readonly string[]) =>
    letters.map((letter) => g.shape(of.ref)[of.letters.indexOf(letter)]);
  const [n, k] = [batch, over].map((letters) => times(sizesOf(a, letters)));
  const [m, l] = [times(sizesOf(a, rows)), times(sizesOf(b, columns))];
  const left = g.b.reshape(ordered(g, a, [...batch, ...rows, ...over]), [n, m, k]);
  const right = g.b.reshape(ordered(g, b, [...batch, ...over, ...columns]), [n, k, l]);
  const made = n === 1 && !g.exact // where libtorch takes a batch of one
    ? g.b.gemm(g.b.reshape(left, [m, k]), g.b.reshape(right, [k, l]))
    : g.b.gemm(left, right);
  const sizes = [...sizesOf(a, batch), ...sizesOf(a, rows), ...sizesOf(b, columns)];
  return { ref: g.b.reshape(made, sizes), letters: [...batch, ...rows, ...columns] };
}

export const PRODUCT_RULES: Rules = {
  linear,
  mm: (g, x: Ref, y: Ref) => g.b.gemm(x, y),
  bmm: (g, x: Ref, y: Ref) => g.b.gemm(x, y),
  matmul,
  mv: matmul,
  dot: (g, x: Ref, y: Ref) => g.shaped(g.sum(g.mul(x, y), [0])),
  addmm: (g, x: Ref, a: Ref, b: Ref, beta: number, alpha: number) => added(g, x, g.b.gemm(a, b), beta, alpha),
  baddbmm: (g, x: Ref, a: Ref, b: Ref, beta: number, alpha: number) =>
    added(g, x, g.b.gemm(a, b), beta, alpha),
  addmv: (g, x: Ref, a: Ref, b: Ref, beta: number, alpha: number) =>
    added(g, x, g.shaped(matrices(g, a, column(g, b))), beta, alpha),
  scaled_dot_product_attention: attention,
  einsum: (g, equation: string, tensors: readonly Ref[]) => {
    const [given, output] = equation.replaceAll(" ", "").split("->");
    const letters = given.split(",").map((text) => [...text]);
    const plain = output !== undefined && !equation.includes(".") && tensors.length <= 2 &&
      letters.every((one, i) =>
        new Set(one).size === one.length && one.length === g.shape(tensors[i]).length
      );
    // A size of 1 that is stretched to another's.
    const size = new Map<string, number>();
    const same = letters.every((one, i) =>
      one.every((letter, d) => {
        const is = g.shape(tensors[i])[d], was = size.get(letter) ?? is;
        size.set(letter, is);
        return is === was;
      })
    );
    if (!plain || !same) g.refuse("arguments");
    const [x, y] = tensors.map((ref, i): Lettered => ({ ref: g.float(ref), letters: letters[i] }));
    const out = [...output], made = y === undefined ? summed(g, x, out) : product(g, x, y, out);
    return ordered(g, made, out);
  },
};
