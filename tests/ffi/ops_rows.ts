// For each op, calls with small valid arguments. ops_test.ts makes each call here and in Python and compares.
import type * as ops from "../../ffi/ops.ts";
import { as, bool, complex, f32, i64, type Input, positive, scalar, x, y } from "./inputs.ts";

type Row = readonly unknown[];
type Name = keyof typeof ops;

/** Ops that take one tensor and nothing else that matters. */
const ofOne = (input: Input, ...names: Name[]) => Object.fromEntries(names.map((name) => [name, [[input]]]));
const ofTwo = (a: Input, b: Input, ...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, [[a, b]]]));

const fromNothing: Record<string, Row[]> = {
  zerosOp: [[[2, 3]], [[], "i64"]],
  onesOp: [[[2, 3], "bf16", null, "cpu", false], [[0], "bool"]],
  empty: [[[2, 3], "f16"], [[1, 2, 3, 4], "f32", null, "cpu", null, "channels_last"]],
  randn: [[[5]], [[2, 3], "f64"]],
  rand: [[[5]]],
  randint: [[0, 10, [5]], [-(2 ** 40), 2 ** 40, [5]], [2 ** 33, 2 ** 33 + 5, [5], "i64"]],
  zerosLike: [[x(2, 3)], [x(2), "i32"]],
  emptyLike: [[x(2, 3)], [x(1, 2, 3, 4), null, null, null, null, "channels_last"]],
  onesLike: [[x(2, 3)], [x(2), "f64"]],
  normal_: [[x(4)], [x(4), -3, 0.5]],
  uniform_: [[x(4)], [x(4), -3, -2]],
  bernoulli_: [[x(8)], [x(8), 0.1]],
};

const shaping: Record<string, Row[]> = {
  copy_: [[x(2, 3), y(3)]],
  contiguous: [[x(2, 3)], [x(1, 2, 3, 4), "channels_last"]],
  clone: [[x(2, 3)], [x(1, 2, 3, 4), "channels_last"]],
  view: [[x(2, 3), [3, -1]]],
  reshape: [[x(2, 3), [6]]],
  narrow: [[x(4, 3), -2, 1, 2]],
  select: [[x(4, 3), 0, -1]],
  slice: [[x(6)], [x(6), 0, 1, -1, 2], [x(6), 0, null, 2]],
  transpose: [[x(2, 3), 0, -1]],
  permute: [[x(2, 3, 4), [2, 0, 1]]],
  expand: [[x(3, 1), [3, 4]], [x(3, 1), [2, -1, 2]]],
  unsqueeze: [[x(3), -1]],
  squeeze: [[x(1, 3), 0]],
  flatten: [[x(2, 3, 4)], [x(2, 3, 4), 1, 2]],
  split: [[x(6, 2), 2], [x(5, 2), 2], [x(2, 6), 4, -1]],
  chunk: [[x(6, 2), 3], [x(2, 6), 2, 1]],
  unbind: [[x(3, 2)], [x(3, 2), 1]],
  cat: [[[x(2, 3), y(1, 3)]], [[x(2, 3), y(2, 1)], -1]],
  stack: [[[x(3), y(3)]], [[x(3), y(3)], 1]],
  flip: [[x(2, 3), [0, -1]]],
  roll: [[x(6), [-2]], [x(2, 3), [1, 1], [0, 1]]],
  asStrided: [[x(6), [2, 2], [1, 2]], [x(6), [2], [2], 1]],
  toDtype: [[x(3), "bf16"], [x(3), "f32", false, true]],
  toCopy: [[x(3), "f16", null, "cpu"], [x(1, 2, 3, 4), null, null, null, null, false, "channels_last"]],
  where: [[bool(1, 0, 1), x(3), y(3)]],
  maskedFill: [[x(3), bool(1, 0, 1), scalar(9)]],
  gather: [[x(2, 3), 1, { ...i64(2, 0), shape: [2, 1] }]],
  indexSelect: [[x(4, 2), 0, i64(3, 1)]],
  indexCopy_: [[x(4, 2), 0, i64(3, 1), y(2, 2)]],
  scatterAdd_: [[x(2, 3), 1, { ...i64(2, 0), shape: [2, 1] }, y(2, 1)]],
};

const arithmetic: Record<string, Row[]> = {
  clamp: [[x(4), scalar(-0.5), scalar(0.5)], [x(4), null, scalar(0.5)], [x(4), scalar(0)]],
  clamp_: [[x(4), scalar(-0.5), scalar(0.5)]],
  lerp_: [[x(4), y(4), scalar(0.3)]],
  sumDim: [[x(2, 3), [1]], [x(2, 3), null], [x(2, 3), [0, 1], true, "f64"]],
  sum: [[x(2, 3)], [as("bool", bool(1, 1, 0))], [x(3), "f64"]],
  mean: [[x(2, 3)], [i64(1, 2), "f32"]],
  meanDim: [[x(2, 3), [0], true]],
  variance: [[x(2, 3), [1]], [x(2, 3), null, false, true]],
  amax: [[x(2, 3)], [x(2, 3), [1], true]],
  amin: [[x(2, 3), [0]]],
  argmax: [[x(2, 3)], [x(2, 3), 1], [x(2, 3), -1, true]],
  topk: [[x(2, 5), 3], [x(2, 5), 2, 0, false, false]],
  sort: [[x(2, 3)], [x(2, 3), 0, true]],
  cumsum: [[x(2, 3), 1], [i64(1, 2, 3), 0, "f32"]],
  matmul: [[x(2, 3), y(3, 4)], [x(2, 2, 3), y(3)]],
  mm: [[x(2, 3), y(3, 4)]],
  bmm: [[x(2, 2, 3), y(2, 3, 2)]],
  softmax: [[x(2, 3), -1], [x(2, 3), 0, "f64"]],
  logSoftmax: [[x(2, 3), -1]],
  fftFftn: [[x(4, 4)], [x(4, 4), [2, 4], [0, 1], "ortho"]],
  fftIfftn: [[complex(4, 4, 2)]],
  fftRfftn: [[x(4, 4), null, [1]]],
  fftIrfftn: [[complex(4, 3, 2), [4, 4]]],
  fftRfft2: [[x(4, 4)], [x(4, 4), null, [-2, -1], "forward"]],
  fftIrfft2: [[complex(4, 3, 2)]],
  fftFft2: [[x(4, 4)]],
  fftIfft2: [[complex(4, 4, 2)]],
};

const layers: Record<string, Row[]> = {
  linear: [[x(2, 3), y(4, 3)], [x(2, 3), y(4, 3), x(4)]],
  conv1d: [[x(1, 2, 6), y(3, 2, 3)], [x(1, 2, 6), y(4, 1, 3), x(4), [2], [1], [1], 2]],
  conv2d: [[x(1, 2, 5, 5), y(3, 2, 3, 3)], [
    x(1, 2, 5, 5),
    y(4, 1, 2, 2),
    x(4),
    [2, 1],
    [1, 0],
    [1, 2],
    2,
  ]],
  conv3d: [[x(1, 1, 3, 3, 3), y(2, 1, 2, 2, 2)], [x(1, 1, 3, 3, 3), y(2, 1, 2, 2, 2), x(2), [2, 1, 1]]],
  convTranspose1d: [[x(1, 2, 4), y(2, 3, 2)], [x(1, 2, 4), y(2, 3, 2), x(3), [2], [0], [1]]],
  convTranspose2d: [[x(1, 2, 3, 3), y(2, 3, 2, 2), null, [2, 2]]],
  convTranspose3d: [[x(1, 1, 2, 2, 2), y(1, 2, 2, 2, 2)]],
  batchNorm: [[x(3, 2), f32(1, 2), null, f32(0, 0), f32(1, 1), true, 0.1, 1e-5, false], [
    x(3, 2),
    null,
    null,
    f32(0.1, 0.2),
    f32(1, 2),
    false,
    0.1,
    1e-3,
    true,
  ]],
  layerNorm: [[x(2, 4), [4]], [x(2, 4), [2, 4], y(2, 4), x(2, 4), 1e-3]],
  groupNorm: [[x(2, 4, 3), 2], [x(2, 4, 3), 4, f32(1, 2, 3, 4), f32(4, 3, 2, 1), 1e-3]],
  rmsNorm: [[x(2, 4), [4]], [x(2, 4), [4], f32(1, 2, 3, 4), 1e-3]],
  embedding: [[x(5, 3), i64(4, 0, 4)], [x(5, 3), i64(1, 2), 2]],
  dropout: [[x(8), 0.5, true], [x(8), 0.5, false]],
  scaledDotProductAttention: [[x(1, 2, 4, 8), y(1, 2, 4, 8), x(1, 2, 4, 8)], [
    x(1, 2, 4, 8),
    y(1, 2, 4, 8),
    x(1, 2, 4, 8),
    null,
    0,
    true,
    0.5,
  ], [x(1, 2, 4, 8), y(1, 2, 4, 8), x(1, 2, 4, 8), y(4, 4)]],
  maxPool1d: [[x(1, 2, 6), [2]]],
  maxPool2d: [[x(1, 1, 4, 4), [2, 2]], [x(1, 1, 5, 5), [3, 3], [2, 2], [1, 1], [1, 1], true]],
  maxPool3d: [[x(1, 1, 4, 4, 4), [2, 2, 2]]],
  avgPool1d: [[x(1, 2, 6), [2]], [x(1, 2, 6), [3], [2], [1], true, false]],
  avgPool2d: [[x(1, 1, 4, 4), [2, 2]], [x(1, 1, 4, 4), [3, 3], [1, 1], [1, 1], false, true, 4]],
  avgPool3d: [[x(1, 1, 4, 4, 4), [2, 2, 2]]],
  adaptiveAvgPool1d: [[x(1, 2, 6), [4]]],
  adaptiveAvgPool2d: [[x(1, 2, 5, 5), [1, 1]], [x(1, 2, 5, 5), [2, 3]]],
  adaptiveAvgPool3d: [[x(1, 1, 4, 4, 4), [2, 1, 3]]],
  prelu: [[x(2, 3), f32(0.1, 0.2, 0.3)]],
  gelu: [[x(4)], [x(4), "tanh"]],
  upsampleNearest1d: [[x(1, 2, 3), [6]]],
  upsampleNearest2d: [[x(1, 1, 2, 2), [4, 4], 2, 2], [x(1, 1, 2, 2), [3, 5]]],
  upsampleNearest3d: [[x(1, 1, 2, 2, 2), [4, 4, 4]]],
  upsampleLinear1d: [[x(1, 2, 3), [5], true]],
  upsampleBilinear2d: [[x(1, 1, 2, 2), [4, 3], false], [x(1, 1, 2, 2), [4, 4], true]],
  upsampleTrilinear3d: [[x(1, 1, 2, 2, 2), [3, 4, 4], false]],
  pixelShuffle: [[x(1, 4, 2, 2), 2]],
};

const training: Record<string, Row[]> = {
  crossEntropyLoss: [[x(3, 4), i64(0, 3, 1)], [x(3, 4), i64(0, -1, 1), f32(1, 2, 3, 4), 2, -1, 0.1]],
  mseLoss: [[x(3), y(3)], [x(3), y(3), 0]],
  l1Loss: [[x(3), y(3)]],
  huberLoss: [[x(3), y(3)], [x(3), y(3), 2, 0.25]],
  bceWithLogits: [[x(3), positive(3)], [x(3), positive(3), f32(1, 2, 3), f32(0.5), 2]],
  bce: [[positive(3), f32(0, 1, 1)]],
  fusedAdamW_: [[
    [x(3), x(2)],
    [y(3), y(2)],
    [f32(0, 0, 0), f32(0, 0)],
    [f32(0, 0, 0), f32(1, 1)],
    [],
    [scalar(1), scalar(1)],
    ...[1e-3, 0.9, 0.999, 0.01, 1e-8, false, false],
  ]],
  fusedAdam_: [[
    [x(3)],
    [y(3)],
    [y(3)],
    [positive(3)],
    [positive(3)],
    [scalar(3)],
    ...[1e-3, 0.9, 0.999, 0.01, 1e-8, true, true],
  ]],
  fusedSgd_: [[[x(3)], [y(3)], [f32(1, 2, 3)], 0.1, 0.9, 0.01, 0, true, false, false]],
  foreachZero_: [[[x(3), x(2)]]],
  foreachCopy_: [[[x(3), x(2)], [y(3), y(2)]]],
  foreachMul_: [[[x(3), x(2)], scalar(0.5)]],
  foreachAddcmul_: [[[x(3), x(2)], [y(3), y(2)], [positive(1), positive(2)], f32(1, 0.5)]],
  foreachSqrt: [[[positive(3), positive(2)]]],
  checkAndUnscale_: [
    [[x(3), x(2)], f32(0), f32(0.5)],
    [[f32(1, Infinity), x(2)], f32(0), f32(0.5)],
  ],
  updateLossScale_: [[f32(1024), as("i32", i64(0)), f32(1), 2, 0.5, 2000]],
};

const short = {
  ...ofOne(x(2, 3), "detach", "t", "neg", "exp", "expm1", "abs", "square", "sign", "sin", "cos", "tanh"),
  ...ofOne(
    x(2, 3),
    "sigmoid",
    "asinh",
    "erf",
    "erfinv",
    "erfinv_",
    "floor",
    "maxValue",
    "minValue",
    "relu",
    "relu_",
  ),
  ...ofOne(x(2, 3), "alias", "silu", "mish", "hardswish", "hardsigmoid", "logSigmoid", "isPinned", "isLeaf"),
  ...ofOne(positive(5), "log", "log1p", "sqrt", "rsqrt", "reciprocal"),
  ...ofOne(bool(1, 0, 1), "allTrue", "anyTrue", "logicalNot"),
  ...ofOne(f32(1, NaN, -Infinity), "isfinite", "isnan"),
  ...ofOne(complex(2, 3, 2), "viewAsReal", "real"),
  ...ofOne(x(2, 3, 2), "viewAsComplex"),
  ...ofTwo(x(2, 3), y(3), "mul", "mul_", "div", "div_", "maximum", "minimum"),
  ...ofTwo(f32(1, 2, 3), f32(3, 2, 1), "eq", "ne", "gt", "ge", "lt", "le", "dot"),
  ...ofTwo(bool(1, 0, 1), bool(1, 1, 0), "logicalAnd"),
  ...ofTwo(positive(3), y(3), "pow"),
};

export const rows: Record<string, Row[]> = {
  ...fromNothing,
  ...shaping,
  ...arithmetic,
  ...layers,
  ...training,
  ...short,
};

/** Ops without a row, with where they are tested instead. */
export const elsewhere: Partial<Record<Name, string>> = {
  backwardOp: "autograd_test.ts: it needs a graph",
  pinMemory: "cuda_test.ts: it needs a GPU",
};

/** Ops whose result has no defined values. */
export const uninitialised: ReadonlySet<string> = new Set<Name>(["empty", "emptyLike"]);
