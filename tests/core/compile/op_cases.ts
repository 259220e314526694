// One case for each op that lowering has a rule for: what it takes, and how it is called. Test data.
import { constant, tensor } from "../../../ffi/make.ts";
import * as ops from "../../../core/models/user/ops.ts";
import { op } from "../../../core/models/user/op.ts";
import type { Tensor } from "../../../ffi/tensor.ts";

/** Shapes of parameters; "+" makes them positive, "01" between 0 and 1. */
type Made = readonly number[] | { readonly shape: readonly number[]; readonly kind: "+" | "01" };

export interface OpCase {
  readonly name: string;
  readonly takes: readonly Made[];
  readonly call: (...args: Tensor[]) => Tensor;
}

const pos = (...shape: number[]): Made => ({ shape, kind: "+" });
const share = (...shape: number[]): Made => ({ shape, kind: "01" });

const one = (name: string, call: (x: Tensor) => Tensor, made: Made = [3, 5]): OpCase => ({
  name,
  takes: [made],
  call: call as OpCase["call"],
});
const two = (
  name: string,
  call: (x: Tensor, y: Tensor) => Tensor,
  a: Made = [3, 5],
  b: Made = [5],
): OpCase => ({
  name,
  takes: [a, b],
  call: call as OpCase["call"],
});
const many = (name: string, takes: readonly Made[], call: OpCase["call"]): OpCase => ({ name, takes, call });

/** Ops with more than one result. */
const several = (name: string) => op(name) as unknown as (...args: unknown[]) => Tensor[];

const labels = () => tensor(BigInt64Array.of(1n, 0n, 4n));
const someIgnored = () => tensor(BigInt64Array.of(1n, -100n, 4n));
const mapLabels = () => tensor(BigInt64Array.of(0n, 1n, 2n, 0n, -100n, 2n), [1, 2, 3]);
const held: Record<string, Tensor> = {};
/** The same tensor in every step. */
const fixed = (name: string, make: () => Tensor): Tensor => {
  if (!held[name]) throw new Error(`${name} is not made yet`);
  void make;
  return held[name];
};

/** Tensors that a step finds: they are made before it is recorded. */
export function makeHeld(): void {
  held.labels = labels();
  held.ignored = someIgnored();
  held.map = mapLabels();
  held.mask = ops.gt(tensor([[1, 0, 1, 0, 1], [0, 1, 1, 1, 0], [1, 1, 0, 0, 0]]), constant(0.5));
  held.blind = ops.gt(tensor([[1, 0, 1, 0, 1], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0]]), constant(0.5));
  held.targets = tensor([[0.1, 0.9, 0.5, 0, 1], [0.2, 0.3, 0.4, 1, 0], [0.5, 0.5, 0.5, 0.5, 0.5]]);
  held.weights = tensor([0.5, 1, 2, 0.1, 3]);
  held.threeWeights = tensor([0.5, 1, 2]);
  held.tokens = tensor(BigInt64Array.of(0n, 2n, 2n, 5n), [2, 2]);
  held.ids = tensor([[0, 2], [2, 5]]);
  held.running = tensor([0.1, 0.2, 0.3]);
  held.spread = tensor([1.1, 1.2, 0.9]);
  for (const t of Object.values(held)) t.kept = true;
}
const H = (name: string): Tensor => fixed(name, labels);

const unary = ["neg", "abs", "exp", "expm1", "tanh", "sigmoid", "erf", "sin", "cos", "square"] as const;
const ofPositive = ["sqrt", "rsqrt", "reciprocal", "log", "log1p"] as const;
const activations = ["relu", "silu", "mish", "hardswish", "hardsigmoid", "logSigmoid"] as const;
const EACH = 0, MEAN = 1, SUM = 2;

export const OP_CASES: readonly OpCase[] = [
  ...unary.map((name) => one(name, (x) => ops[name](x))),
  ...ofPositive.map((name) => one(name, (x) => ops[name](x), pos(3, 5))),
  ...activations.map((name) => one(name, (x) => ops[name](x))),
  one("relu in place", (x) => ops.relu_(ops.mul(x, x))),
  one("gelu", (x) => ops.gelu(x)),
  one("gelu tanh", (x) => ops.gelu(x, "tanh")),
  one("leaky_relu", (x) => op("leaky_relu")(x, 0.1)),
  one("leaky_relu in place", (x) => op("leaky_relu_")(ops.mul(x, x), 0.1)),
  one("elu", (x) => op("elu")(x, 1.5)),
  one("elu in place", (x) => op("elu_")(ops.sin(x), 1.5)),
  one("selu", (x) => op("selu")(x)),
  one("celu", (x) => op("celu")(x, 0.7)),
  one("softplus", (x) => op("softplus")(x, 2, 1)),
  one("hardtanh", (x) => op("hardtanh")(x, -0.5, 0.5)),
  one("relu6", (x) => op("relu6")(x)),
  one("threshold", (x) => op("threshold")(x, 0.1, 0.3)),
  one("clamp", (x) => op("clamp")(x, -0.5, 0.7)),
  two("clamp by tensors", (x, y) => ops.clamp(x, y, null)),
  two("prelu", (x, w) => ops.prelu(x, w), [3, 5], [5]),
  two("add", (x, y) => ops.add(x, y)),
  two("add, stretched to the left", (x, y) => ops.add(x, y), [3, 1], [4, 1, 5]),
  one("add a number", (x) => ops.add(x, 2.5)),
  two("add with alpha", (x, y) => op("add.Tensor")(x, y, 0.3)),
  two("add in place", (x, y) => op("add_.Tensor")(ops.mul(x, x), y, 0.3)),
  two("sub", (x, y) => ops.sub(x, y)),
  two("sub scaled", (x, y) => ops.sub(x, y, 3)),
  one("rsub", (x) => op("rsub.Scalar")(x, 1)),
  two("mul", (x, y) => ops.mul(x, y)),
  two("mul in place", (x, y) => ops.mul_(ops.sin(x), y)),
  two("div", (x, y) => ops.div(x, y), [3, 5], pos(5)),
  one("scale", (x) => ops.scale(x, -1.5)),
  two("pow", (x, y) => ops.pow(x, y), pos(3, 5), [5]),
  one("pow 3", (x) => op("pow.Tensor_Scalar")(x, 3)),
  one("pow 2", (x) => op("pow.Tensor_Scalar")(x, 2)),
  one("2 to the power of", (x) => op("pow.Scalar")(2, x)),
  two("maximum", (x, y) => ops.maximum(x, y)),
  two("minimum", (x, y) => ops.minimum(x, y)),
  many("addcmul", [[3, 5], [5], [3, 1]], (x, a, b) => op("addcmul")(x, a, b, 0.5)),
  many("addcdiv", [[3, 5], [5], pos(3, 1)], (x, a, b) => op("addcdiv")(x, a, b, 0.5)),
  many("lerp", [[3, 5], [5], [3, 1]], (x, a, b) => op("lerp.Tensor")(x, a, b)),
  two("where", (x, y) => ops.where(H("mask"), x, y)),
  two("where of a comparison", (x, y) => ops.where(ops.gt(x, y), x, ops.sin(y))),
  one("masked_fill", (x) => ops.maskedFill(x, H("mask"), constant(0.3))),
  one(
    "and, not",
    (x) => ops.where(ops.logicalAnd(ops.gt(x, constant(0)), ops.logicalNot(H("mask"))), x, ops.neg(x)),
  ),
  one("sum", (x) => ops.sum(x)),
  one("sum over rows", (x) => ops.sumDim(x, [1])),
  one("sum over columns", (x) => ops.sumDim(x, [0], true)),
  one("sum of two dimensions", (x) => ops.sumDim(x, [0, -1]), [2, 3, 4]),
  one("mean", (x) => ops.mean(x)),
  one("mean over a dimension", (x) => ops.meanDim(x, [-1], true)),
  one("variance", (x) => ops.variance(x, [1])),
  one("variance without correction", (x) => ops.variance(x, [0], false, true)),
  one("std", (x) => op("std.correction")(x, [1], { correction: 1 })),
  one("amax", (x) => ops.amax(x, [1])),
  one("amin", (x) => ops.amin(x, [0], true)),
  one("max of all", (x) => ops.maxValue(x)),
  one("logsumexp", (x) => op("logsumexp")(x, [1])),
  one("softmax", (x) => ops.softmax(x, -1)),
  one("softmax of columns", (x) => ops.softmax(x, 0)),
  one("log_softmax", (x) => ops.logSoftmax(x, 1)),
  two("linear", (x, w) => ops.linear(x, w, null), [2, 3, 5], [4, 5]),
  many("linear with bias", [[3, 5], [4, 5], [4]], (x, w, b) => ops.linear(x, w, b)),
  many("linear of one output", [[3, 5], [1, 5], [1]], (x, w, b) => ops.linear(x, w, b)),
  two("mm", (x, y) => ops.mm(x, y), [3, 5], [5, 2]),
  two("mm of transposed ones", (x, y) => ops.mm(ops.t(x), ops.t(y)), [5, 3], [2, 5]),
  two("bmm", (x, y) => ops.bmm(x, y), [2, 3, 5], [2, 5, 4]),
  two("matmul of batches", (x, y) => ops.matmul(x, y), [2, 1, 3, 5], [4, 5, 2]),
  two("matmul by a vector", (x, y) => ops.matmul(x, y), [2, 3, 5], [5]),
  two("matmul of a vector", (x, y) => ops.matmul(x, y), [5], [5, 2]),
  two("dot", (x, y) => ops.dot(x, y), [5], [5]),
  many("addmm", [[4], [3, 5], [5, 4]], (x, a, b) => op("addmm")(x, a, b, 0.5, 2)),
  many("baddbmm", [[2, 3, 4], [2, 3, 5], [2, 5, 4]], (x, a, b) => op("baddbmm")(x, a, b)),
  many(
    "attention",
    [[2, 2, 4, 6], [2, 2, 4, 6], [2, 2, 4, 6]],
    (q, k, v) => ops.scaledDotProductAttention(q, k, v),
  ),
  many(
    "attention with a row that sees nothing",
    [[1, 2, 3, 5], [1, 2, 5, 5], [1, 2, 5, 5]],
    (q, k, v) => ops.scaledDotProductAttention(q, k, v, H("blind")),
  ),
  many(
    "causal attention",
    [[2, 2, 4, 6], [2, 2, 4, 6], [2, 2, 4, 6]],
    (q, k, v) => ops.scaledDotProductAttention(q, k, v, null, 0, true),
  ),
  many(
    "long attention",
    [[1, 1, 200, 4], [1, 1, 200, 4], [1, 1, 200, 4]],
    (q, k, v) => ops.scaledDotProductAttention(q, k, v, null, 0, true),
  ),
  many("layer_norm", [[3, 5], pos(5), [5]], (x, w, b) => ops.layerNorm(x, [5], w, b)),
  one("layer_norm without weights", (x) => ops.layerNorm(x, [3, 4]), [2, 3, 4]),
  two("rms_norm", (x, w) => ops.rmsNorm(x, [5], w, 1e-6), [3, 5], pos(5)),
  one("rms_norm without eps", (x) => ops.rmsNorm(x, [5])),
  many("group_norm", [[2, 6, 3], pos(6), [6]], (x, w, b) => ops.groupNorm(x, 3, w, b)),
  many(
    "batch_norm",
    [[4, 3, 2, 2], pos(3), [3]],
    (x, w, b) => ops.batchNorm(x, w, b, H("running"), H("spread"), true, 0.1, 1e-5, true),
  ),
  many(
    "batch_norm in evaluation",
    [[4, 3], pos(3), [3]],
    (x, w, b) => ops.batchNorm(x, w, b, H("running"), H("spread"), false, 0.1, 1e-5, true),
  ),
  two("mse", (x, y) => ops.mseLoss(x, y), [3, 5], [3, 5]),
  two("mse, each", (x, y) => ops.mseLoss(x, y, EACH), [3, 5], [3, 5]),
  two("l1", (x, y) => ops.l1Loss(x, y), [3, 5], [3, 5]),
  two("huber", (x, y) => ops.huberLoss(x, y, MEAN, 0.5), [3, 5], [3, 5]),
  two("smooth l1", (x, y) => op("smooth_l1_loss")(x, y, SUM, 0.5), [3, 5], [3, 5]),
  one("bce with logits", (x) => ops.bceWithLogits(x, H("targets"))),
  one("bce with logits and weights", (x) => ops.bceWithLogits(x, H("targets"), H("weights"), H("weights"))),
  one("bce", (x) => ops.bce(x, H("targets")), share(3, 5)),
  one("cross entropy", (x) => ops.crossEntropyLoss(x, H("labels"))),
  one("cross entropy that ignores", (x) => ops.crossEntropyLoss(x, H("ignored"))),
  one(
    "cross entropy, smoothed and weighted",
    (x) => ops.crossEntropyLoss(x, H("ignored"), H("weights"), MEAN, -100, 0.1),
  ),
  one("cross entropy, summed", (x) => ops.crossEntropyLoss(x, H("ignored"), null, SUM, -100, 0.1)),
  one("cross entropy, each", (x) => ops.crossEntropyLoss(x, H("ignored"), null, EACH)),
  one("cross entropy of a map", (x) => ops.crossEntropyLoss(x, H("map"), H("threeWeights")), [1, 3, 2, 3]),
  one("cross entropy of shares", (x) => ops.crossEntropyLoss(x, H("targets"), H("weights"), MEAN, -100, 0.1)),
  one("nll", (x) => op("nll_loss")(ops.logSoftmax(x, 1), H("labels"))),
  one("reshape", (x) => ops.reshape(x, [5, 3])),
  one(
    "view, flatten, unsqueeze, squeeze",
    (x) => ops.squeeze(ops.unsqueeze(ops.flatten(ops.view(x, [5, 3]), 0), 1), 1),
  ),
  one("permute", (x) => ops.permute(x, [2, 0, 1]), [2, 3, 4]),
  one("transpose", (x) => ops.transpose(x, 0, -1), [2, 3, 4]),
  one("expand", (x) => ops.expand(x, [3, -1, 4]), [2, 1]),
  one("repeat", (x) => op("repeat")(x, [2, 1, 3]), [2, 4]),
  one("narrow", (x) => ops.narrow(x, 1, 1, 3)),
  one("select", (x) => ops.select(x, 0, -1)),
  one("slice", (x) => ops.slice(x, 1, -3, null)),
  one("split", (x) => ops.split(x, 2, 1).reduce((a, b) => ops.mul(ops.sum(a), b))),
  one("chunk", (x) => ops.mul(ops.chunk(x, 2, 1)[0], ops.chunk(x, 2, 1)[1]), [3, 4]),
  one("unbind", (x) => ops.unbind(x, 0).reduce((a, b) => ops.mul(a, b))),
  two("cat", (x, y) => ops.cat([x, y, x], 1), [3, 5], [3, 2]),
  two("stack", (x, y) => ops.stack([x, y], -1), [3, 5], [3, 5]),
  one("pad", (x) => ops.pad(x, [1, 2, 0, 3], "constant", 0.5)),
  one("pad, negative", (x) => ops.pad(x, [-1, 2])),
  one("pad, circular", (x) => ops.pad(x, [2, 1], "circular"), [1, 3, 5]),
  one("pad, reflect", (x) => ops.pad(x, [2, 1], "reflect"), [1, 3, 5]),
  one("pad, replicate", (x) => ops.pad(x, [2, 1], "replicate"), [1, 3, 5]),
  one("roll", (x) => ops.roll(x, [1, -2], [0, 1])),
  one("flip", (x) => ops.flip(x, [1])),
  one("clone, contiguous, detach", (x) => ops.mul(ops.contiguous(ops.clone(x)), ops.detach(ops.sin(x)))),
  one("whole numbers of others", (x) => ops.mul(x, ops.toDtype(ops.toDtype(ops.mul(x, x), "i64"), "f32"))),
  one("embedding by ids of a table", (w) => op("embedding")(w, ops.toDtype(H("ids"), "i64")), [6, 4]),
  one("embedding", (w) => ops.embedding(w, H("tokens"), 2), [6, 3]),
  many("convolution", [[2, 3, 5, 5], [4, 3, 3, 3], [4]], (x, w, b) => ops.conv2d(x, w, b, [2, 2], [1, 1])),
  two("convolution in groups", (x, w) => ops.conv1d(x, w, null, [1], [1], [1], 2), [2, 4, 5], [4, 2, 3]),
  many(
    "transposed convolution",
    [[2, 3, 3, 3], [3, 4, 2, 2], [4]],
    (x, w, b) => ops.convTranspose2d(x, w, b, [2, 2], [0, 0], [1, 1]),
  ),
  one("max_pool2d", (x) => ops.maxPool2d(x, [2, 2]), [2, 3, 5, 4]),
  one("max_pool1d", (x) => ops.maxPool1d(x, [2], [1], [1]), [2, 3, 5]),
  one("avg_pool2d", (x) => ops.avgPool2d(x, [2, 2], [2, 2], [1, 1]), [2, 3, 4, 4]),
  one("avg_pool1d", (x) => ops.avgPool1d(x, [2]), [2, 3, 6]),
  one("adaptive_avg_pool2d", (x) => ops.adaptiveAvgPool2d(x, [2, 3]), [2, 3, 5, 4]),
  one("global average", (x) => ops.adaptiveAvgPool2d(x, [1, 1]), [2, 3, 5, 4]),
  one("upsample, nearest", (x) => ops.upsampleNearest2d(x, [6, 8]), [1, 2, 3, 4]),
  one("upsample, bilinear", (x) => ops.upsampleBilinear2d(x, [6, 8], false), [1, 2, 3, 4]),
  one("reflection_pad2d", (x) => ops.reflectionPad2d(x, [1, 1, 2, 0]), [1, 2, 3, 4]),
  one("reflection_pad1d", (x) => op("reflection_pad1d")(x, [1, 2]), [1, 2, 4]),
  one("replication_pad3d", (x) => op("replication_pad3d")(x, [1, 1, 2, 0, 0, 1]), [1, 2, 3, 2, 2]),
  one("replication_pad2d", (x) => ops.replicationPad2d(x, [1, 1, 2, 0]), [1, 2, 3, 4]),
  one("pixel_shuffle", (x) => ops.pixelShuffle(x, 2), [1, 8, 2, 3]),
  one("slice with steps", (x) => ops.slice(x, 1, 1, null, 2), [3, 8]),
  ...["tan", "sinh", "cosh", "exp2", "hardshrink", "softshrink"].map((name) => one(name, (x) => op(name)(x))),
  ...["log2", "log10"].map((name) => one(name, (x) => op(name)(x), pos(3, 5))),
  two("logaddexp", (x, y) => op("logaddexp")(x, y)),
  one("tril", (x) => op("tril")(x, 1), [2, 3, 5]),
  one("triu", (x) => op("triu")(x, -1), [2, 3, 5]),
  one("diff", (x) => op("diff")(x, 2, 1)),
  one("repeat_interleave", (x) => op("repeat_interleave.self_int")(x, 3, 0)),
  two("outer", (x, y) => op("outer")(x, y), [3], [5]),
  one("glu", (x) => op("glu")(x, 0), [4, 5]),
  one(
    "var_mean",
    (x) => ops.mul(...several("var_mean.correction")(x, [1], { correction: 0 }) as [Tensor, Tensor]),
  ),
  two(
    "scatter_add",
    (x, y) => op("scatter_add")(x, 1, H("tokens"), y),
    [2, 6],
    [2, 2],
  ),
  two("einsum, a product", (x, y) => op("einsum")("ij,kj->ki", [x, y]), [3, 5], [4, 5]),
  two("einsum of heads", (x, y) => op("einsum")("bqhd,bkhd->bhqk", [x, y]), [2, 3, 2, 4], [2, 5, 2, 4]),
  two("einsum that sums apart", (x, y) => op("einsum")("ijk,jl->lj", [x, y]), [2, 3, 4], [3, 5]),
  one("einsum of one", (x) => op("einsum")("ijk->ki", [x]), [2, 3, 4]),
  one("topk", (x) => several("topk")(x, 2, 1)[0]),
  one("sort", (x) => several("sort")(x, 0, true)[0]),
  one("max of a dimension", (x) => several("max.dim")(x, 1)[0]),
  one("min of a dimension, kept", (x) => several("min.dim")(x, 0, true)[0]),
  one("where the greatest is", (x) => ops.gather(x, 1, op("argmax")(x, 1, true))),
  many(
    "lstm, both ways",
    [[3, 4, 5], [2, 4, 2], [2, 4, 2], [8, 5], [8, 2], [8], [8], [8, 5], [8, 2], [8], [8]],
    (x, h, c, ...w) => {
      const [y, last, memory] = several("lstm.input")(x, [h, c], w, true, 1, 0, true, true, false);
      return ops.add(ops.sum(ops.square(y)), ops.sum(ops.mul(last, memory)));
    },
  ),
  many(
    "gru of two layers, batch first",
    [[4, 3, 5], [2, 4, 2], [6, 5], [6, 2], [6, 2], [6, 2]],
    (x, h, ...w) => several("gru.input")(x, h, w, false, 2, 0, true, false, true)[0],
  ),
  many(
    "rnn",
    [[3, 4, 5], [1, 4, 2], [2, 5], [2, 2], [2], [2]],
    (x, h, ...w) => several("rnn_relu.input")(x, h, w, true, 1, 0, true, false, false)[0],
  ),
  one("norm", (x) => op("linalg_vector_norm")(x, { dim: [1] })),
  one("norm of zeros", (x) => op("linalg_vector_norm")(ops.scale(x, 0))),
  many(
    "instance_norm",
    [[2, 3, 5], pos(3), [3]],
    (x, w, b) => op("instance_norm")(x, w, b, null, null, true, 0.1, 1e-5, false),
  ),
  one("index", (x) => op("index.Tensor")(x, [null, H("tokens")]), [3, 6]),
  one("gather", (x) => ops.gather(x, 1, H("tokens")), [2, 6]),
  one("index_select", (x) => ops.indexSelect(x, 1, H("labels"))),
  two("index_add", (x, y) => op("index_add")(x, 1, H("labels"), y, 0.5), [3, 5], [3, 3]),
  one("cumsum", (x) => ops.cumsum(x, 1)),
  one("upsample by factors", (x) => op("upsample_nearest2d.vec")(x, null, [2, 2]), [1, 2, 3, 4]),
  one("upsample by factors, bilinear", (x) => op("upsample_bilinear2d.vec")(x, null, false, [2, 2]), [
    1,
    2,
    3,
    4,
  ]),
  one("whole numbers, counted and compared", (x) => {
    const counted = op("cumsum")(op("gt.Scalar")(x, 0), 1),
      even = op("eq.Scalar")(op("remainder.Scalar")(counted, 2), 0);
    return ops.where(even, x, ops.mul(x, ops.toDtype(op("add.Scalar")(counted, 1), "f32")));
  }),
  one("whole numbers put together", (x) => {
    const both = ops.cat([H("tokens"), op("mul.Scalar")(H("tokens"), 1)], 1);
    return ops.gather(x, 1, both);
  }, [2, 6]),
  one("masks that are turned and gathered by", (x) => {
    const mask = ops.gt(x, constant(0)), turned = ops.reshape(ops.transpose(mask, 0, 1), [15]);
    return ops.mul(ops.reshape(x, [15]), ops.toDtype(turned, "f32"));
  }),
  one("index by chosen numbers", (x) => {
    const places = ops.where(op("ge.Scalar")(H("labels"), 1), H("labels"), op("zeros_like")(H("labels")));
    return op("index.Tensor")(x, [null, places]);
  }),
  one("an op without a rule", (x) => op("cumprod")(x, 1), pos(3, 5)),
  two("an op of two without a rule", (x, y) => op("cdist")(x, y, 2), [3, 5], [4, 5]),
  one("an op in place without a rule", (x) => op("atan_")(ops.mul(x, x))),
  one("a view without a rule", (x) => ops.mul(op("unfold")(x, 1, 2, 1), op("unfold")(x, 1, 2, 1))),
  one("an op of several results without a rule", (x) => {
    const [value, at] = several("median.dim")(x, 1, true);
    return ops.mul(value, ops.gather(x, 1, at));
  }),
  one("complex numbers", (x) => op("fft_irfft")(op("mul.Tensor")(op("fft_rfft")(x), op("fft_rfft")(x)), 6), [
    3,
    6,
  ]),
  one("doubles", (x) => ops.toDtype(ops.sin(ops.toDtype(x, "f64")), "f32")),
  one("whole numbers of 32 bits", (x) => {
    const places = ops.toDtype(ops.toDtype(H("tokens"), "i32"), "i64");
    return ops.gather(x, 1, places);
  }, [2, 6]),
  one("a write to a part of what the step made", (x) => {
    const y = ops.mul(x, x);
    op("copy_")(
      ops.narrow(ops.transpose(y, 0, 1), 0, 1, 2),
      ops.narrow(ops.transpose(ops.sin(x), 0, 1), 0, 2, 2),
    );
    return ops.mul(y, x);
  }),
  one("a write to each second place, and to a view of it", (x) => {
    const y = ops.cat([ops.cos(x), x], 1),
      even = ops.slice(y, 1, 0, null, 2),
      odd = ops.slice(y, 1, 1, null, 2);
    op("copy_")(even, ops.sin(x));
    op("copy_")(odd, ops.cos(x));
    ops.mul_(ops.select(y, 0, 1), constant(2));
    return ops.mul(ops.view(y, [18]), op("flatten.using_ints")(ops.cat([odd, even], 1)));
  }, [3, 3]),
  one("a write beside a view that is used later", (x) => {
    const y = ops.mul(x, x), view = ops.view(y, [15]);
    ops.mul_(ops.narrow(y, 0, 1, 1), constant(2));
    ops.mul_(view, constant(3));
    return ops.mul(ops.view(y, [15]), view);
  }),
  one("a constant of ones", (x) => ops.mul(x, ops.onesLike(x))),
  one("copied into new memory", (x) => ops.mul(x, op("fill_.Scalar")(op("empty_like")(x), 2))),
];
