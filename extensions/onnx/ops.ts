// The form of each op of libtorch in ONNX, as the models of this program call them.
import {
  Batches,
  type Op,
  ProgramValue,
  type RecordedArgument,
  type RecordedSize,
} from "../../core/export/recorded.ts";
import { type Attribute, type OnnxGraph, TENSOR_TYPES, unknownOp } from "./graph.ts";

/** Gives the names of the op's results. */
type Form = (g: OnnxGraph, op: Op, ...args: RecordedArgument[]) => string | string[];

export function writeOp(g: OnnxGraph, op: Op): void {
  const { schema: { overload }, name, args, results } = op;
  const form = FORMS[`${name}.${overload}`] ?? FORMS[name];
  if (!form) throw unknownOp(overload ? `${name}.${overload}` : name);
  const names = form(g, op, ...args);
  if (typeof names === "string") g.set(results[0], names);
  else results.forEach((value, i) => names[i] !== undefined && g.set(value, names[i]));
}

const rankOf = (x: RecordedArgument): number => (x as ProgramValue).shape.length;
const axisOf = (x: RecordedArgument, dim: RecordedArgument): number => {
  const axis = dim as number;
  return axis < 0 ? axis + rankOf(x) : axis;
};
const ints = (list: RecordedArgument): readonly number[] => (list as RecordedArgument[]).map(fixed);

function fixed(size: RecordedArgument): number {
  if (size instanceof Batches) throw unknownOp("a place that follows the number of samples");
  return size as number;
}

/** ONNX has all beginnings and then all ends; libtorch begins with the last dimension, pair by pair. */
function padsOf(x: RecordedArgument, pairs: readonly number[]): number[] {
  const rank = rankOf(x), pads = new Array<number>(2 * rank).fill(0);
  for (let i = 0; 2 * i < pairs.length; i++) {
    pads[rank - 1 - i] = pairs[2 * i];
    pads[2 * rank - 1 - i] = pairs[2 * i + 1];
  }
  return pads;
}

const same = (type: string): Form => (g, _, x) => g.node(type, [g.name(x)]);

/** Both sides; libtorch multiplies the second by alpha. */
const arithmetic = (type: string): Form => (g, _, a, b, alpha = 1) => {
  const right = typeof b === "number" ? g.float(b) : g.name(b);
  return g.node(type, [g.name(a), alpha === 1 ? right : g.node("Mul", [right, g.float(alpha as number)])]);
};

const toSizes: Form = (g, { results: [y] }, x) => g.node("Reshape", [g.name(x), g.sizes(y.shape)]);

const identity: Form = (g, _, x) => g.name(x);

const padded = (mode: string): Form => (g, _, x, pairs) =>
  g.node("Pad", [g.name(x), g.ints(padsOf(x, ints(pairs)))], { mode });

const pooled: Form = (g, _, x, kernel, stride, padding, dilation, ceil) => {
  const pads = ints(padding),
    strides = (stride as RecordedArgument[]).length > 0 ? ints(stride) : ints(kernel);
  return g.node("MaxPool", [g.name(x)], {
    kernel_shape: ints(kernel),
    strides,
    pads: [...pads, ...pads],
    dilations: ints(dilation),
    ceil_mode: ceil ? 1 : 0,
  });
};

const convolution: Form = (g, _, x, weight, bias, stride, padding, dilation, groups) => {
  const pads = ints(padding),
    inputs = [x, weight, ...(bias === null ? [] : [bias])].map((one) => g.name(one));
  return g.node("Conv", inputs, {
    strides: ints(stride),
    pads: [...pads, ...pads],
    dilations: ints(dilation),
    group: fixed(groups),
  });
};

const transposed: Form = (g, _, x, weight, bias, stride, padding, more, groups, dilation) => {
  const pads = ints(padding),
    inputs = [x, weight, ...(bias === null ? [] : [bias])].map((one) => g.name(one));
  return g.node("ConvTranspose", inputs, {
    strides: ints(stride),
    pads: [...pads, ...pads],
    output_padding: ints(more),
    dilations: ints(dilation),
    group: fixed(groups),
  });
};

function swapped(rank: number, a: number, b: number): number[] {
  const order = Array.from({ length: rank }, (_, i) => i);
  [order[a], order[b]] = [order[b], order[a]];
  return order;
}

function linear(g: OnnxGraph, x: RecordedArgument, weight: RecordedArgument, bias: RecordedArgument): string {
  const turned = g.node("Transpose", [g.name(weight)], { perm: [1, 0] });
  const product = g.node("MatMul", [g.name(x), turned]);
  return bias === null ? product : g.node("Add", [product, g.name(bias)]);
}

/** Softmax of q k^T, times v: masked so that no place sees what comes behind it, where it is causal. */
const attention: Form = (g, _, q, k, v, mask, dropped, causal, scale) => {
  if (mask !== null || dropped !== 0) throw unknownOp("attention with a mask or dropout");
  const [rows, columns] = [q, k].map((t) => (t as ProgramValue).shape.at(-2)!),
    width = fixed((q as ProgramValue).shape.at(-1)!);
  const turned = g.node("Transpose", [g.name(k)], { perm: swapped(rankOf(k), rankOf(k) - 2, rankOf(k) - 1) });
  const factor = scale === null ? 1 / Math.sqrt(width) : scale as number;
  let scores = g.node("Mul", [g.node("MatMul", [g.name(q), turned]), g.float(factor)]);
  if (causal) {
    const all = g.node("Expand", [g.float(1), g.ints([fixed(rows), fixed(columns)])]);
    const seen = g.node("Cast", [g.node("Trilu", [all], { upper: 0 })], { to: TENSOR_TYPES.bool! });
    scores = g.node("Where", [seen, scores, g.float(-Infinity)]);
  }
  return g.node("MatMul", [g.node("Softmax", [scores], { axis: -1 }), g.name(v)]);
};

const parts = (
  g: OnnxGraph,
  x: RecordedArgument,
  dim: RecordedArgument,
  lengths: readonly RecordedSize[],
): string[] => g.nodeOf("Split", [g.name(x), g.sizes(lengths)], lengths.length, { axis: axisOf(x, dim) });

const divided: Form = (g, { results }, x, _count, dim = 0) =>
  parts(g, x, dim, results.map(({ shape }) => shape[axisOf(x, dim)]));

function sliced(
  g: OnnxGraph,
  x: RecordedArgument,
  dim: RecordedArgument,
  start: number,
  end: number,
  step = 1,
): string {
  return g.node("Slice", [
    g.name(x),
    g.ints([start]),
    g.ints([end]),
    g.ints([axisOf(x, dim)]),
    g.ints([step]),
  ]);
}

const joined: Form = (g, _, list, dim) => {
  const all = list as ProgramValue[];
  return g.node("Concat", all.map((t) => g.name(t)), { axis: axisOf(all[0], dim) });
};

const reduced = (type: string): Form => (g, _, x, dims, kept) => {
  const axes: readonly RecordedArgument[] = Array.isArray(dims)
    ? dims
    : dims === null || dims === undefined
    ? []
    : [dims as number];
  const inputs = [g.name(x), ...(axes.length > 0 ? [g.ints(axes.map((dim) => axisOf(x, dim)))] : [])];
  return g.node(type, inputs, { keepdims: kept === true ? 1 : 0 });
};

const FORMS: Readonly<Record<string, Form>> = {
  relu: same("Relu"),
  sigmoid: same("Sigmoid"),
  tanh: same("Tanh"),
  exp: same("Exp"),
  sqrt: same("Sqrt"),
  neg: same("Neg"),
  abs: same("Abs"),
  erf: same("Erf"),
  asinh: same("Asinh"),
  log1p: (g, _, x) => g.node("Log", [g.node("Add", [g.name(x), g.float(1)])]),
  silu: (g, _, x) => g.node("Mul", [g.name(x), g.node("Sigmoid", [g.name(x)])]),
  gelu: (g, _, x, approximate) => g.node("Gelu", [g.name(x)], { approximate: String(approximate) }),
  softplus: same("Softplus"),
  elu: (g, _, x, alpha) => g.node("Elu", [g.name(x)], { alpha: { float: alpha as number } }),
  leaky_relu: (g, _, x, slope) => g.node("LeakyRelu", [g.name(x)], { alpha: { float: slope as number } }),
  softmax: (g, _, x, dim) => g.node("Softmax", [g.name(x)], { axis: axisOf(x, dim) }),
  log_softmax: (g, _, x, dim) => g.node("LogSoftmax", [g.name(x)], { axis: axisOf(x, dim) }),
  add: arithmetic("Add"),
  sub: arithmetic("Sub"),
  mul: arithmetic("Mul"),
  div: arithmetic("Div"),
  "sum.dim_IntList": reduced("ReduceSum"),
  "mean.dim": reduced("ReduceMean"),
  linear: (g, _, x, weight, bias) => linear(g, x, weight, bias),
  addmm: (g, _, bias, a, b) => g.node("Add", [g.node("MatMul", [g.name(a), g.name(b)]), g.name(bias)]),
  mm: (g, _, a, b) => g.node("MatMul", [g.name(a), g.name(b)]),
  bmm: (g, _, a, b) => g.node("MatMul", [g.name(a), g.name(b)]),
  matmul: (g, _, a, b) => g.node("MatMul", [g.name(a), g.name(b)]),
  scaled_dot_product_attention: attention,
  embedding: (g, _, weight, indices) => g.node("Gather", [g.name(weight), g.name(indices)], { axis: 0 }),
  layer_norm: (g, _, x, shape, weight, bias, eps) => {
    const scale = weight === null ? g.node("Expand", [g.float(1), g.ints(ints(shape))]) : g.name(weight);
    const inputs = [g.name(x), scale, ...(bias === null ? [] : [g.name(bias)])];
    return g.node("LayerNormalization", inputs, {
      axis: rankOf(x) - (shape as RecordedArgument[]).length,
      epsilon: { float: eps as number },
    });
  },
  batch_norm: (g, _, x, weight, bias, mean, variance, training, _momentum, eps) => {
    if (training === true) throw unknownOp("a batch norm without running statistics");
    const channels = [fixed((mean as ProgramValue).shape[0])];
    const filled = (value: number) => g.node("Expand", [g.float(value), g.ints(channels)]);
    const inputs = [
      g.name(x),
      weight === null ? filled(1) : g.name(weight),
      bias === null ? filled(0) : g.name(bias),
      g.name(mean),
      g.name(variance),
    ];
    return g.node("BatchNormalization", inputs, { epsilon: { float: eps as number } });
  },
  group_norm: (g, _, x, groups, weight, bias, eps) => {
    const { shape } = x as ProgramValue, rest = shape.slice(2);
    const cut = g.node("Reshape", [g.name(x), g.sizes([shape[0], groups as number, -1])]);
    const wide = [fixed(groups)];
    const ones = g.node("Expand", [g.float(1), g.ints(wide)]),
      zeros = g.node("Expand", [g.float(0), g.ints(wide)]);
    const even = g.node("InstanceNormalization", [cut, ones, zeros], { epsilon: { float: eps as number } });
    let y = g.node("Reshape", [even, g.sizes(shape)]);
    const spread = (t: RecordedArgument) =>
      g.node("Reshape", [g.name(t), g.ints([-1, ...rest.map(() => 1)])]);
    if (weight !== null) y = g.node("Mul", [y, spread(weight)]);
    if (bias !== null) y = g.node("Add", [y, spread(bias)]);
    return y;
  },
  conv1d: convolution,
  conv2d: convolution,
  conv3d: convolution,
  conv_transpose1d: transposed,
  conv_transpose2d: transposed,
  conv_transpose3d: transposed,
  max_pool1d: pooled,
  max_pool2d: pooled,
  max_pool3d: pooled,
  avg_pool2d: (g, _, x, kernel, stride, padding, ceil, counted) =>
    g.node("AveragePool", [g.name(x)], {
      kernel_shape: ints(kernel),
      strides: (stride as RecordedArgument[]).length > 0 ? ints(stride) : ints(kernel),
      pads: [...ints(padding), ...ints(padding)],
      ceil_mode: ceil ? 1 : 0,
      count_include_pad: counted ? 1 : 0,
    }),
  adaptive_avg_pool1d: meanOfAll,
  adaptive_avg_pool2d: meanOfAll,
  adaptive_avg_pool3d: meanOfAll,
  reflection_pad1d: padded("reflect"),
  reflection_pad2d: padded("reflect"),
  reflection_pad3d: padded("reflect"),
  replication_pad1d: padded("edge"),
  replication_pad2d: padded("edge"),
  replication_pad3d: padded("edge"),
  pad: (g, _, x, pairs, mode, value) => {
    const kind =
      { constant: "constant", circular: "wrap", reflect: "reflect", replicate: "edge" }[String(mode)];
    if (kind === undefined) throw unknownOp(`padding by "${mode}"`);
    const pads = g.ints(padsOf(x, ints(pairs)));
    const fill = kind === "constant" ? [g.float((value ?? 0) as number)] : [];
    return g.node("Pad", [g.name(x), pads, ...fill], { mode: kind });
  },
  reshape: toSizes,
  view: toSizes,
  flatten: toSizes,
  unflatten: toSizes,
  squeeze: toSizes,
  unsqueeze: toSizes,
  contiguous: identity,
  clone: identity,
  detach: identity,
  alias: identity,
  dropout: identity,
  expand: (g, { results: [y] }, x) => g.node("Expand", [g.name(x), g.sizes(y.shape)]),
  permute: (g, _, x, dims) =>
    g.node("Transpose", [g.name(x)], { perm: ints(dims).map((dim) => axisOf(x, dim)) }),
  transpose: (g, _, x, a, b) =>
    g.node("Transpose", [g.name(x)], { perm: swapped(rankOf(x), axisOf(x, a), axisOf(x, b)) }),
  t: (g, _, x) => g.node("Transpose", [g.name(x)], { perm: [1, 0] }),
  cat: joined,
  stack: (g, { results: [y] }, list, dim) => {
    const axis = axisOf(y, dim), all = list as ProgramValue[];
    const raised = all.map((t) => g.node("Unsqueeze", [g.name(t), g.ints([axis])]));
    return g.node("Concat", raised, { axis });
  },
  chunk: divided,
  split: divided,
  split_with_sizes: divided,
  narrow: (g, _, x, dim, start, length) => sliced(g, x, dim, fixed(start), fixed(start) + fixed(length)),
  slice: (g, _, x, dim = 0, start, end, step = 1) =>
    sliced(
      g,
      x,
      dim,
      fixed(start ?? 0),
      end === null || end === undefined ? 2 ** 53 - 1 : fixed(end),
      fixed(step),
    ),
  select: (g, _, x, dim, index) =>
    g.node("Gather", [g.name(x), g.int(fixed(index))], { axis: axisOf(x, dim) }),
};

/** Over all places, one number a channel: what models end with. */
function meanOfAll(g: OnnxGraph, { name }: Op, x: RecordedArgument, sizes: RecordedArgument): string {
  if (ints(sizes).some((size) => size !== 1)) throw unknownOp(`${name} to more than one place`);
  return g.node("GlobalAveragePool", [g.name(x)]);
}

export type { Attribute };
