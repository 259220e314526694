// Calls that simple ops do better than libtorch, written as simple ops: in fast plans, and in exact ones where they have
// libtorch's bits.
import { type Builder, refsIn } from "./builder.ts";
import type { Call } from "./call_rules.ts";
import { rebuilt } from "./rebuild.ts";
import { type Graph, nameOfCall, type Node, type Ref } from "./graph.ts";
import type { FuseOptions } from "./draft.ts";
import { smallConvolution, smallConvolutionBackward } from "./convs.ts";
import { argsOf } from "./uses.ts";
import { OPAQUE } from "./attentions.ts";

/** Its results in order, as far as they are wanted. */
type Results = readonly (Ref | null)[];

/** `ref` finds an argument. Null where the call stays; `alone`: nobody else reads its running statistics. */
type Expansion = (
  b: Builder,
  call: Call,
  ref: (argument: number) => Ref,
  alone: () => boolean,
) => Results | null;

type Expansions = Readonly<Record<string, Expansion>>;

/** Its results 3 and 4 are what the running statistics become, arguments 3 and 4. */
const NORM = "_native_batch_norm_legit_functional";

const convolutionsBy = (sumsOf?: FuseOptions["convolutionSums"]): Expansions => ({
  convolution: (b, call, ref) => {
    const made = smallConvolution(b, call, ref, sumsOf);
    return made === null ? null : [made];
  },
  convolution_backward: (b, call, ref) => smallConvolutionBackward(b, call, ref, sumsOf),
});

const NORMS: Expansions = {
  native_layer_norm: layerNorm,
  native_layer_norm_backward: layerNormBackward,
  native_batch_norm: batchNorm,
  [NORM]: batchNorm,
  native_batch_norm_backward: batchNormBackward,
};

/** A GPU's libtorch has one kernel for what would be several of ours. */
const NORMS_OF_GPU: Expansions = {
  ...NORMS,
  [NORM]: (b, call, ref, alone) => (alone() ? batchNormOfGpu(b, call, ref) : null) ?? batchNorm(b, call, ref),
  native_batch_norm_backward: (b, call, ref) =>
    batchNormOfGpuBackward(b, call, ref) ?? batchNormBackward(b, call, ref),
};

function expansionsFor({ exact, convolutionSums, libraryProducts, recomputes }: FuseOptions): Expansions {
  if (exact) return convolutionSums ? convolutionsBy(convolutionSums) : {};
  if (!libraryProducts) return { ...convolutionsBy(), ...NORMS };
  return recomputes ? NORMS : NORMS_OF_GPU; // statistics must not move twice
}

export function expanded(graph: Graph, options: FuseOptions): Graph {
  const expansions = expansionsFor(options);
  const known = graph.nodes.some((node) =>
    node.op === "call" && Object.hasOwn(expansions, nameOfCall(node.schema))
  );
  if (!known) return graph;
  const made = new Map<Ref, Results>(), inPlace = new Map<Ref, Ref>();
  const whole = rebuilt(graph, (b, node, r, to) => {
    if (node.op === "result") return made.get(node.args[0])?.[node.index] ?? null;
    if (node.op !== "call") return null;
    const name = nameOfCall(node.schema);
    const refOf = (i: number) => to((node.values[i] as { ref: Ref }).ref);
    const results = Object.hasOwn(expansions, name)
      ? expansions[name](b, node, refOf, () => movesAlone(graph, r, node))
      : null;
    if (results === null) return null;
    made.set(r, results);
    if (name === NORM && movesStatistics(b.node(results[0]!))) inPlace.set(r, results[0]!);
    return results[0] ?? b.number(0); // nobody reads it
  });
  if (inPlace.size === 0) return whole;
  // These calls write by themselves what was to be written at the end.
  const { nodes, writes = [] } = graph;
  const moved = writes.map(({ ref }) => inPlace.has(argsOf(nodes[ref])[0]));
  return {
    ...whole,
    effects: [...whole.effects, ...inPlace.values()],
    writes: whole.writes?.filter((_, i) => !moved[i]),
  };
}

/** Nobody but this norm reads its running statistics, before it moves them or afterwards. */
function movesAlone({ nodes, writes = [] }: Graph, norm: Ref, { values }: Call): boolean {
  const before = refsIn(values.slice(3, 5));
  const after = [3, 4].map((index) => nodes.findIndex((one) => isResult(one, norm, index)));
  const reads = (node: Node, ref: Ref) =>
    ref !== norm && !isGradient(node) &&
    argsOf(node).some((arg) => before.includes(arg) || after.includes(arg));
  const goesBack = (ref: Ref, held: number) => {
    const home = nodes[before[after.indexOf(ref)]];
    return home?.op === "tensor" && home.origin.from === "held" && home.origin.index === held;
  };
  return !nodes.some(reads) && writes.every(({ ref, held }) => !after.includes(ref) || goesBack(ref, held));
}

const isResult = (node: Node, call: Ref, index: number): boolean =>
  node.op === "result" && node.args[0] === call && node.index === index;

/** It takes the batch's own statistics. */
const isGradient = (node: Node): boolean =>
  node.op === "call" && nameOfCall(node.schema) === "native_batch_norm_backward" && node.values[7] === true;

// Norms as simple ops. Batch norm: sums over columns, a few numbers for each channel, and one pass that takes what follows
// with it. Layer norm: sums over rows, and one pass.

interface Channels {
  /** All dimensions but the channels'. */
  readonly dims: readonly number[];
  /** Numbers of a channel. */
  readonly count: number;
  /** Beside the values, a number for each channel. */
  beside(t: Ref): Ref;
  /** The same numbers as a vector. */
  alone(t: Ref): Ref;
}

function channelsOf(b: Builder, x: Ref): Channels {
  const shape = b.shape(x), dims = [...shape.keys()].filter((dim) => dim !== 1);
  const beside = shape.map((size, dim) => dim === 1 ? size : 1);
  return {
    dims,
    count: dims.reduce((product, dim) => product * shape[dim], 1),
    beside: (t) => b.reshape(t, beside),
    alone: (t) => b.reshape(t, [shape[1]]),
  };
}

/**
 * Mean and variance in one pass: of differences from a channel's first number, so that a mean that is far from zero
 * takes no digits of the variance.
 */
function moments(b: Builder, x: Ref, { dims, count }: Channels): { mean: Ref; variance: Ref } {
  const near = dims.reduce((y, dim) => b.slice(y, dim, 0, 1), x);
  const off = b.pointwise("sub", x, near), n = b.number(count);
  const shift = b.pointwise("div", b.sum(off, dims), n);
  const square = b.pointwise("div", b.sum(b.pointwise("mul", off, off), dims), n);
  const variance = b.pointwise("sub", square, b.pointwise("mul", shift, shift));
  return {
    mean: b.copy(b.pointwise("add", near, shift)),
    variance: b.pointwise("max", variance, b.number(0)),
  };
}

/** The result, and each channel's mean and 1 / deviation; what the running ones become, where there are some. */
function batchNorm(
  b: Builder,
  { values }: Call,
  ref: (argument: number) => Ref,
): readonly Ref[] {
  const x = ref(0), channels = channelsOf(b, x), { count, beside, alone } = channels;
  const [, weight, bias, runningMean, runningVariance, , momentum, eps] = values;
  const { mean, variance } = moments(b, x, channels);
  const scale = b.copy(b.pointwise("rsqrt", b.pointwise("add", variance, b.number(eps as number))));
  const slope = weight === null ? scale : b.copy(b.pointwise("mul", scale, beside(ref(1))));
  const centred = b.pointwise("mul", b.pointwise("sub", x, mean), slope);
  const y = bias === null ? centred : b.pointwise("add", centred, beside(ref(2)));
  const results = [y, alone(mean), alone(scale)];
  if (runningMean === null || runningVariance === null) return results;
  const share = b.number(momentum as number), rest = b.number(1 - (momentum as number));
  const next = (before: Ref, now: Ref): Ref =>
    b.pointwise("add", b.pointwise("mul", before, rest), b.pointwise("mul", alone(now), share));
  const unbiased = b.pointwise("mul", variance, b.number(count / (count - 1)));
  return [...results, next(ref(3), mean), next(ref(4), unbiased)];
}

const WITH_UPDATE =
  "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, " +
  "Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)";
const WITH_UPDATE_BACKWARD =
  "batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, " +
  "Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[3] output_mask, " +
  "Tensor reserve) -> (Tensor, Tensor, Tensor)";

/** A norm that writes to its running statistics itself. */
const movesStatistics = (node: Node): boolean => node.op === "call" && node.schema === WITH_UPDATE;

/** On a GPU: libtorch's choice among cuDNN's and its own kernels, of which one does all. It writes to the running statistics. */
function batchNormOfGpu(
  b: Builder,
  { values }: Call,
  ref: (argument: number) => Ref,
): readonly Ref[] | null {
  const [, weight, , mean, variance, training, momentum, eps] = values;
  if (training !== true || weight === null || mean === null || variance === null) return null;
  const of = (argument: number) => values[argument] === null ? null : { ref: ref(argument) };
  const channels = [b.shape(ref(0))[1]];
  const call = b.call(WITH_UPDATE, [of(0), of(1), of(2), of(3), of(4), momentum, eps], b.shape(ref(0)));
  return [call, b.result(call, 1, channels), b.result(call, 2, channels)];
}

/** The gradients of input, weight and bias; null where forward was another op. */
function batchNormOfGpuBackward(
  b: Builder,
  { values }: Call,
  ref: (argument: number) => Ref,
): readonly (Ref | null)[] | null {
  const saved = values[5] === null ? null : b.node(ref(5));
  const forward = saved?.op === "result" ? b.node(saved.args[0]) : null;
  if (saved?.op !== "result" || forward?.op !== "call" || forward.schema !== WITH_UPDATE) return null;
  const of = (argument: number) => values[argument] === null ? null : { ref: ref(argument) };
  const wanted = values[9] as readonly boolean[], channels = [b.shape(ref(1))[1]];
  const reserve = { ref: b.result(saved.args[0], 3, OPAQUE, "i64") };
  const call = b.call(
    WITH_UPDATE_BACKWARD,
    [...[0, 1, 2, 3, 4, 5, 6].map(of), true, values[8], wanted, reserve],
    b.shape(ref(1)),
  );
  return [call, ...[1, 2].map((i) => wanted[i] ? b.result(call, i, channels) : null)];
}

/** The gradients of input, weight and bias. */
function batchNormBackward(
  b: Builder,
  { values }: Call,
  ref: (argument: number) => Ref,
): readonly (Ref | null)[] | null {
  if (values[7] !== true) return null;
  const wanted = values[9] as readonly boolean[];
  const back = ref(0), x = ref(1), { dims, count, beside, alone } = channelsOf(b, x);
  const mean = beside(ref(5)), scale = beside(ref(6)), n = b.number(count);
  const off = b.pointwise("sub", x, mean);
  const sum = b.sum(back, dims), along = b.sum(b.pointwise("mul", back, off), dims);
  const slope = values[2] === null ? scale : b.copy(b.pointwise("mul", scale, beside(ref(2))));
  const level = b.copy(b.pointwise("mul", slope, b.pointwise("div", sum, n)));
  const square = b.pointwise("mul", scale, scale);
  const tilt = b.copy(
    b.pointwise("mul", b.pointwise("mul", slope, square), b.pointwise("div", along, n)),
  );
  const input = b.pointwise(
    "sub",
    b.pointwise("sub", b.pointwise("mul", back, slope), b.pointwise("mul", off, tilt)),
    level,
  );
  return [
    wanted[0] ? input : null,
    wanted[1] ? alone(b.pointwise("mul", along, scale)) : null,
    wanted[2] ? alone(sum) : null,
  ];
}

interface Rows {
  /** The dimensions of a row, and the others. */
  readonly dims: readonly number[];
  readonly others: readonly number[];
  mean(t: Ref): Ref;
}

function rowsOf(b: Builder, x: Ref, normalised: readonly number[]): Rows {
  const all = [...b.shape(x).keys()], dims = all.slice(all.length - normalised.length);
  const count = b.number(normalised.reduce((product, size) => product * size, 1));
  return {
    dims,
    others: all.slice(0, all.length - normalised.length),
    mean: (t) => b.pointwise("div", b.sum(t, dims), count),
  };
}

/** The result, and each row's mean and 1 / deviation. */
function layerNorm(b: Builder, { values }: Call, ref: (argument: number) => Ref): readonly Ref[] {
  const [, shape, weight, bias, eps] = values, x = ref(0), rows = rowsOf(b, x, shape as readonly number[]);
  const mean = rows.mean(x), centred = b.pointwise("sub", x, mean);
  const variance = rows.mean(b.pointwise("mul", centred, centred));
  const scale = b.pointwise("rsqrt", b.pointwise("add", variance, b.number(eps as number)));
  const even = b.pointwise("mul", centred, scale);
  const sloped = weight === null ? even : b.pointwise("mul", even, ref(2));
  return [bias === null ? sloped : b.pointwise("add", sloped, ref(3)), mean, scale];
}

/** The gradients of input, weight and bias. What is even is forward's own value. */
function layerNormBackward(
  b: Builder,
  { values }: Call,
  ref: (argument: number) => Ref,
): readonly (Ref | null)[] {
  const shape = values[2] as readonly number[], wanted = values[7] as readonly boolean[];
  const back = ref(0), x = ref(1), scale = ref(4), { mean, others } = rowsOf(b, x, shape);
  const even = b.pointwise("mul", b.pointwise("sub", x, ref(3)), scale);
  const slope = values[5] === null ? back : b.pointwise("mul", back, ref(5));
  const tilt = b.pointwise("mul", even, mean(b.pointwise("mul", slope, even)));
  const input = b.pointwise("mul", b.pointwise("sub", b.pointwise("sub", slope, tilt), mean(slope)), scale);
  const gathered = (t: Ref): Ref => b.reshape(b.sum(t, others), shape);
  return [
    wanted[0] ? input : null,
    wanted[1] ? gathered(b.pointwise("mul", back, even)) : null,
    wanted[2] ? gathered(back) : null,
  ];
}
