// Ops that only move numbers: views, pieces, what is put together.
import { isHalf, type Ref } from "../graph.ts";
import { type Lowering, type LoweringRule, num, type Rules } from "./lowering.ts";

const same: LoweringRule = (g, x: Ref) => g.b.alias(x);
/** Row-major order stays: the shape that was seen says it all. */
const reshaped: LoweringRule = (g, x: Ref) => {
  const made = g.shaped(x);
  return made === x ? g.b.alias(x) : made;
};
const stretched: LoweringRule = (g, x: Ref) => g.b.expand(x, g.results[0].shape);

/** Pieces along `dim`, as large as they were seen to be. */
function pieces(g: Lowering, x: Ref, dim: number): Ref[] {
  const d = g.dim(dim, g.shape(x).length);
  let from = 0;
  return g.results.map(({ shape }) => g.b.slice(x, d, from, from += shape[d]));
}

function swapped(g: Lowering, x: Ref, a: number, b: number): Ref {
  const order = g.all(x);
  if (order.length === 0) return x;
  const [i, j] = [g.dim(a, order.length), g.dim(b, order.length)];
  return g.b.permute(x, order.with(i, j).with(j, i));
}

function moved(g: Lowering, x: Ref, from: readonly number[], to: readonly number[]): Ref {
  const rank = g.shape(x).length, order = new Array<number>(rank).fill(-1);
  const sources = from.map((d) => g.dim(d, rank));
  to.forEach((d, i) => order[g.dim(d, rank)] = sources[i]);
  const rest = g.all(x).filter((d) => !sources.includes(d));
  return g.b.permute(x, order.map((d) => d < 0 ? rest.shift()! : d));
}

const BEYOND = 2 ** 62;

function sliced(
  g: Lowering,
  x: Ref,
  dim: number,
  start: number | null,
  end: number | null,
  step: number,
): Ref {
  const d = g.dim(dim, g.shape(x).length), size = g.shape(x)[d];
  const at = (n: number) => Math.min(Math.max(n < 0 ? n + size : n, 0), size);
  const from = at(start ?? 0), to = at(end ?? BEYOND);
  return everyNth(g, g.b.slice(x, d, from, Math.max(from, to)), d, step);
}

/** The first of every `step` places: zeros make the last few whole. */
function everyNth(g: Lowering, x: Ref, d: number, step: number): Ref {
  if (step === 1) return x;
  const shape = g.shape(x), count = Math.ceil(shape[d] / step);
  const strided = g.b.reshape(g.b.embed(x, d, 0, count * step), shape.toSpliced(d, 1, count, step));
  return g.b.reshape(g.b.slice(strided, d + 1, 0, 1), shape.with(d, count));
}

/** [left, right] of the last dimension, then of those before it. */
function padded(g: Lowering, x: Ref, sizes: readonly number[], mode: string, value: number): Ref {
  let y = x;
  for (let i = 0; i < sizes.length; i += 2) {
    const d = g.shape(x).length - 1 - i / 2;
    y = paddedAlong(g, y, d, sizes[i], sizes[i + 1], mode);
  }
  if (mode !== "constant" || value === 0) return y;
  const ones = g.b.expand(g.b.number(1), g.shape(x));
  const inside = padded(g, ones, sizes, "constant", 0);
  return g.where(g.compare("ne", inside, num(0)), y, num(value));
}

/** Borders of other kinds are made line by line. */
const MOST_LINES = 64;

function paddedAlong(g: Lowering, x: Ref, d: number, left: number, right: number, mode: string): Ref {
  const size = g.shape(x)[d];
  const cropped = g.b.slice(x, d, Math.max(0, -left), size - Math.max(0, -right));
  const before = Math.max(0, left), after = Math.max(0, right);
  if (before === 0 && after === 0) return cropped;
  if (mode === "constant") {
    return g.b.embed(cropped, d, before, g.shape(cropped)[d] + before + after);
  }
  if (cropped !== x || before + after > MOST_LINES) g.refuse("arguments");
  const line = (at: number) => g.b.slice(x, d, at, at + 1);
  const lines = (count: number, at: (i: number) => number) =>
    Array.from({ length: count }, (_, i) => line(at(i)));
  switch (mode) {
    case "circular":
      return g.b.cat(
        [g.b.slice(x, d, size - before, size), x, g.b.slice(x, d, 0, after)].filter((part) =>
          g.shape(part)[d] > 0
        ),
        d,
      );
    case "replicate":
      return g.b.cat([...lines(before, () => 0), x, ...lines(after, () => size - 1)], d);
    case "reflect":
      return g.b.cat([...lines(before, (i) => before - i), x, ...lines(after, (i) => size - 2 - i)], d);
  }
  return g.refuse("arguments");
}

/** Numbers that leave at one end come in at the other. */
function rolled(g: Lowering, x: Ref, shifts: readonly number[], dims: readonly number[]): Ref {
  if (dims.length === 0) {
    const flat = g.b.reshape(x, [g.count(x, g.all(x))]);
    return g.b.reshape(rolled(g, flat, shifts, [0]), g.shape(x));
  }
  return dims.reduce((y, dim, i) => {
    const d = g.dim(dim, g.shape(x).length), size = g.shape(x)[d];
    const by = ((shifts[i] % size) + size) % size;
    return by === 0 ? y : g.b.cat([g.b.slice(y, d, size - by, size), g.b.slice(y, d, 0, size - by)], d);
  }, x);
}

const MOST_FLIPPED = 32;

function flipped(g: Lowering, x: Ref, dims: readonly number[]): Ref {
  return dims.reduce((y, dim) => {
    const d = g.dim(dim, g.shape(x).length), size = g.shape(x)[d];
    if (size > MOST_FLIPPED) g.refuse("arguments");
    return g.b.cat(Array.from({ length: size }, (_, i) => g.b.slice(y, d, size - 1 - i, size - i)), d);
  }, x);
}

function repeated(g: Lowering, x: Ref, times: readonly number[]): Ref {
  const shape = [...new Array<number>(times.length - g.shape(x).length).fill(1), ...g.shape(x)];
  const widened = g.b.reshape(x, shape.flatMap((size) => [1, size]));
  return g.b.reshape(
    g.b.expand(widened, shape.flatMap((size, d) => [times[d], size])),
    shape.map((size, d) => size * times[d]),
  );
}

/** The numbers beneath a diagonal, and on it; or those above. */
const triangle = (lower: boolean): LoweringRule => (g, x: Ref, diagonal: number) => {
  const [rows, columns] = g.shape(x).slice(-2);
  const row = g.b.reshape(g.float(g.range(rows)), [rows, 1]);
  const offset = g.sub(g.float(g.range(columns)), row);
  return g.where(g.compare(lower ? "le" : "ge", offset, num(diagonal)), x, num(0));
};

function difference(
  g: Lowering,
  x: Ref,
  n: number,
  dim: number,
  before: Ref | null,
  behind: Ref | null,
): Ref {
  const d = g.dim(dim, g.shape(x).length);
  const ends = [before, x, behind].filter((part) => part !== null);
  let y = ends.length === 1 ? x : g.b.cat(ends, d);
  for (let i = 0; i < n; i++) {
    const size = g.shape(y)[d];
    y = g.sub(g.b.slice(y, d, 1, size), g.b.slice(y, d, 0, size - 1));
  }
  return y;
}

/** Each number several times, one behind the other. */
function interleaved(g: Lowering, x: Ref, times: number, dim: number | null): Ref {
  const shape = g.shape(x), d = dim === null ? shape.length - 1 : g.dim(dim, shape.length);
  const widened = g.b.reshape(x, shape.toSpliced(d + 1, 0, 1));
  return g.shaped(g.b.expand(widened, shape.toSpliced(d + 1, 0, times)));
}

const COPY = "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, " +
  "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor";

/** A change of type: whole numbers and truth values become f32, and libtorch makes whole numbers of others. */
const typed: LoweringRule = (g, x: Ref) => {
  const { dtype, shape } = g.results[0];
  if (dtype === "f32" || isHalf(dtype) && !g.exact) return g.float(x); // rounded behind the rule
  if (dtype === g.kind(x)) return x;
  if (dtype === "bool") return g.truth(x);
  if (dtype !== "i64") g.refuse("type"); // libtorch's
  return g.b.call(COPY, [{ ref: x }, dtype, null, null, null, false, null], shape, "i64");
};

export const SHAPE_RULES: Rules = {
  view: reshaped,
  reshape: reshaped,
  _unsafe_view: reshaped,
  view_as: reshaped,
  reshape_as: reshaped,
  "flatten.using_ints": reshaped,
  "unflatten.int": reshaped,
  unsqueeze: reshaped,
  squeeze: reshaped,
  "squeeze.dim": reshaped,
  "squeeze.dims": reshaped,
  ravel: reshaped,
  contiguous: (g, x: Ref) => g.exact && g.source?.dense === false && g.kind(x) === "f32" ? g.b.copy(x) : x,
  clone: same,
  alias: same,
  lift_fresh_copy: same,
  dropout: (g, x: Ref, p: number, train: boolean) => p === 0 || !train ? x : g.mul(x, g.mask(g.shape(x), p)),
  /** Whole channels. */
  feature_dropout: (g, x: Ref, p: number, train: boolean) =>
    p === 0 || !train ? x : g.mul(x, g.mask(g.shape(x).map((size, d) => d < 2 ? size : 1), p)),
  detach: (g, x: Ref) => g.b.stop(x),
  detach_copy: (g, x: Ref) => g.b.stop(x),
  "to.dtype": typed,
  "to.dtype_layout": typed,
  "to.device": typed,
  "to.other": typed,
  "type_as": typed,
  _to_copy: typed,
  permute: (g, x: Ref, dims: readonly number[]) => g.b.permute(x, g.dims(dims, dims.length)),
  "transpose.int": swapped,
  swapaxes: swapped,
  t: (g, x: Ref) => swapped(g, x, 0, -1),
  mT: (g, x: Ref) => swapped(g, x, -1, -2),
  "movedim.intlist": moved,
  "movedim.int": (g, x: Ref, from: number, to: number) => moved(g, x, [from], [to]),
  expand: stretched,
  expand_as: stretched,
  broadcast_to: stretched,
  repeat: repeated,
  narrow: (g, x: Ref, dim: number, start: number, length: number) => {
    const d = g.dim(dim, g.shape(x).length), from = start < 0 ? start + g.shape(x)[d] : start;
    return g.b.slice(x, d, from, from + length);
  },
  "select.int": (g, x: Ref, dim: number, index: number) => {
    const d = g.dim(dim, g.shape(x).length), at = index < 0 ? index + g.shape(x)[d] : index;
    return g.shaped(g.b.slice(x, d, at, at + 1));
  },
  "slice.Tensor": sliced,
  "split.Tensor": (g, x: Ref, _size: number, dim: number) => pieces(g, x, dim),
  split_with_sizes: (g, x: Ref, _sizes: readonly number[], dim: number) => pieces(g, x, dim),
  "split.sizes": (g, x: Ref, _sizes: readonly number[], dim: number) => pieces(g, x, dim),
  chunk: (g, x: Ref, _chunks: number, dim: number) => pieces(g, x, dim),
  "unbind.int": (g, x: Ref, dim: number) => {
    const d = g.dim(dim, g.shape(x).length);
    return g.results.map((_, i) => g.shaped(g.b.slice(x, d, i, i + 1), i));
  },
  cat: (g, parts: readonly Ref[], dim: number) => {
    const whole = parts.filter((part) => !(g.shape(part).length === 1 && g.shape(part)[0] === 0));
    return g.b.cat(whole, g.dim(dim, g.shape(whole[0]).length));
  },
  stack: (g, parts: readonly Ref[], dim: number) => {
    const d = g.dim(dim, g.shape(parts[0]).length + 1);
    return g.b.cat(parts.map((part) => g.b.reshape(part, g.shape(part).toSpliced(d, 0, 1))), d);
  },
  pad: (g, x: Ref, sizes: readonly number[], mode: string, value: number | null) =>
    padded(g, x, sizes, mode, value ?? 0),
  constant_pad_nd: (g, x: Ref, sizes: readonly number[], value: number) =>
    padded(g, x, sizes, "constant", value),
  roll: rolled,
  tril: triangle(true),
  triu: triangle(false),
  diff: difference,
  "repeat_interleave.self_int": interleaved,
  outer: (g, x: Ref, y: Ref) => g.mul(g.b.reshape(x, [...g.shape(x), 1]), g.b.reshape(y, [1, ...g.shape(y)])),
  glu: (g, x: Ref, dim: number) => {
    const d = g.dim(dim, g.shape(x).length), half = g.shape(x)[d] / 2;
    return g.mul(g.b.slice(x, d, 0, half), g.p("sigmoid", g.b.slice(x, d, half, 2 * half)));
  },
  flip: flipped,
};
