// Ops whose numbers depend on how libtorch's kernels round: as wide as whole vectors and what is left of them. Test data.
import { constant } from "../../../ffi/make.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import * as ops from "../../../core/models/user/ops.ts";
import { op } from "../../../core/models/user/op.ts";

/** The name, the shapes of what it takes, and the op itself. */
type BitsCase = readonly [string, readonly (readonly number[])[], (...args: Tensor[]) => Tensor];

const ROWS = [90, 37], HEADS = [2, 3, 12, 16], MAPS = [5, 6, 7, 33];

/** Ops with more than one result. */
const several = (name: string) => op(name) as unknown as (...args: unknown[]) => Tensor[];
const positive = (x: Tensor): Tensor => ops.add(ops.abs(x), constant(0.1));
const turned = (x: Tensor): Tensor => ops.permute(x, [0, 2, 1, 3]);
/** As images lie whose channels stand last. */
const channelsFirst = (x: Tensor): Tensor => ops.permute(x, [0, 3, 1, 2]);

const stretched = (x: Tensor): Tensor => op("expand")(x, [4, -1, -1], false);

const unary = [
  "sigmoid",
  "tanh",
  "exp",
  "silu",
  "mish",
  "hardswish",
  "hardsigmoid",
  "logSigmoid",
  "square",
] as const;

/** Of maps of so many sides; the result has one place, or a few. */
const smallMaps = [
  { sides: 1, kernel: 3, stride: 1, padding: 1 },
  { sides: 2, kernel: 3, stride: 2, padding: 1 },
  { sides: 2, kernel: 1, stride: 2, padding: 0 },
  { sides: 2, kernel: 3, stride: 1, padding: 1 },
  { sides: 4, kernel: 3, stride: 2, padding: 1 },
  { sides: 1, kernel: 3, stride: 8, padding: 3 }, // the result meets nothing of the map
].flatMap(({ sides, kernel, stride, padding }) =>
  [32, 12].flatMap((channels) =>
    [false, true].map((bias): BitsCase => [
      `convolution of ${channels} x ${sides} x ${sides} by ${kernel} in steps of ${stride}${
        bias ? " with a bias" : ""
      }`,
      [[9, channels, sides, sides], [48, channels, kernel, kernel], ...(bias ? [[48]] : [])],
      (x, w, b) => op("conv2d")(x, w, b ?? null, [stride, stride], [padding, padding]),
    ])
  )
);

export const BITS_CASES: readonly BitsCase[] = [
  ...smallMaps,
  ["a bias of many rows", [[300, 128], [128]], (x, b) => ops.square(ops.add(x, b))],
  ["a bias of many rows that threads can't share", [[400, 96], [96]], (x, b) => ops.square(ops.add(x, b))],
  ...unary.map((name): BitsCase => [name, [ROWS], (x) => ops[name](x)]),
  ["sqrt", [ROWS], (x) => ops.sqrt(positive(x))],
  ["softplus", [ROWS], (x) => op("softplus")(x, 2, 1)],
  ["glu", [[8, 38]], (x) => op("glu")(x, 1)],
  ["add with alpha", [ROWS, [37]], (x, y) => op("add.Tensor")(x, y, 0.3)],
  ["sub scaled", [ROWS, ROWS], (x, y) => ops.sub(x, y, 3)],
  ["pow 3", [ROWS], (x) => op("pow.Tensor_Scalar")(x, 3)],
  ["pow 2 of a value that is used again", [ROWS], (x) => ops.mul(op("pow.Tensor_Scalar")(ops.sin(x), 2), x)],
  ["pow -0.5", [ROWS], (x) => op("pow.Tensor_Scalar")(positive(x), -0.5)],
  ["addcmul", [ROWS, [37], [90, 1]], (x, a, b) => op("addcmul")(x, a, b, 0.5)],
  ["addcdiv", [ROWS, [37], [90, 1]], (x, a, b) => op("addcdiv")(x, a, positive(b), 0.5)],
  ["lerp", [ROWS, ROWS, ROWS], (x, a, b) => op("lerp.Tensor")(x, a, b)],
  ["lerp by a number", [ROWS, ROWS], (x, a) => op("lerp.Scalar")(x, a, 0.3)],
  ["variance", [ROWS], (x) => ops.variance(x, [1])],
  ["std", [ROWS], (x) => op("std.correction")(x, [1], { correction: 1 })],
  [
    "var_mean",
    [[5, 6, 3, 3]],
    (x) => {
      const [spread, mean] = several("var_mean.correction")(x, [1, 2, 3], { correction: 0, keepdim: true });
      return ops.div(ops.sub(x, mean), positive(spread));
    },
  ],
  ["logsumexp", [ROWS], (x) => op("logsumexp")(x, [1])],
  ["norm", [ROWS], (x) => op("linalg_vector_norm")(x, { dim: [-1], keepdim: true })],
  [
    "the square of a turned product with a bias, copied in rows",
    [[3, 8, 6], [5, 6], [5]],
    (x, w, b) => ops.square(op("contiguous")(op("transpose.int")(op("linear")(x, w, b), 1, 2))),
  ],
  ["cumsum", [ROWS], (x) => ops.cumsum(x, 1)],
  ["dot", [[50], [50]], (x, y) => ops.dot(x, y)],
  ["rms_norm", [ROWS, [37]], (x, w) => ops.rmsNorm(x, [37], w, 1e-6)],
  [
    "instance_norm",
    [[2, 3, 35], [3], [3]],
    (x, w, b) => op("instance_norm")(x, w, b, null, null, true, 0.1, 1e-5, false),
  ],
  [
    "batch_norm in evaluation",
    [[4, 30, 5, 5], [30], [30], [30], [30]],
    (x, w, b, v, m) => ops.batchNorm(x, w, b, ops.detach(m), ops.detach(positive(v)), false, 0.1, 1e-5, true),
  ],
  ["mse with a factor", [ROWS, ROWS], (x, y) => ops.mseLoss(x, y)],
  [
    "a sum of losses",
    [ROWS, ROWS],
    (x, y) => ops.add(ops.scale(ops.mseLoss(x, y), 0.3), ops.scale(ops.l1Loss(x, y), 0.7)),
  ],
  [
    "poisson_nll",
    [ROWS, ROWS],
    (x, y) => ops.poissonNllLoss(x, ops.detach(positive(y)), true, false, 1e-8, 1),
  ],
  ["huber", [ROWS, ROWS], (x, y) => ops.huberLoss(x, y, 1, 0.5)],
  ["smooth l1", [ROWS, ROWS], (x, y) => op("smooth_l1_loss")(x, y, 1, 1)],
  ["bce with logits", [ROWS, ROWS], (x, y) => ops.bceWithLogits(x, ops.detach(ops.sigmoid(y)))],
  ["bce", [ROWS, ROWS], (x, y) => ops.bce(ops.sigmoid(x), ops.detach(ops.sigmoid(y)))],
  ["exp2, log2, log10, tan", [ROWS], (x) => {
    const y = positive(op("exp2")(x));
    return ops.add(ops.add(op("log2")(y), op("log10")(y)), op("tan")(x));
  }],
  [
    "baddbmm with alpha",
    [[2, 1, 20], [2, 30, 50], [2, 50, 20]],
    (x, a, b) => op("baddbmm")(x, a, b, 1, 0.3),
  ],
  [
    "attention by hand",
    [[2, 12, 3, 16], [2, 12, 3, 16], [2, 12, 3, 16]],
    (q, k, v) => {
      const scores = ops.matmul(turned(q), ops.transpose(turned(k), -2, -1));
      return ops.matmul(ops.softmax(ops.scale(scores, 0.25), -1), turned(v));
    },
  ],
  [
    "attention of one sample",
    [[3, 12, 16], [3, 12, 16], [3, 12, 16]],
    (q, k, v) => ops.scaledDotProductAttention(q, k, v),
  ],
  [
    "attention with wider values",
    [HEADS, [2, 3, 20, 16], [2, 3, 20, 24]],
    (q, k, v) => ops.scaledDotProductAttention(q, k, v),
  ],
  [
    "attention masked by a parameter",
    [HEADS, HEADS, HEADS, [1, 3, 12, 12]],
    (q, k, v, mask) => ops.scaledDotProductAttention(q, k, v, mask),
  ],
  [
    "attention with a mask of truth values",
    [HEADS, HEADS, HEADS, [12, 12]],
    (q, k, v, mask) => ops.scaledDotProductAttention(q, k, v, ops.gt(mask, constant(-1))),
  ],
  [
    "a sum of what was turned",
    [[5, 36, 33]],
    (x) => ops.sumDim(ops.scale(ops.permute(x, [0, 2, 1]), 2), [2]),
  ],
  [
    "a sum of a view of what was turned",
    [[6, 36, 33]],
    (x) => ops.sumDim(ops.scale(ops.reshape(ops.permute(x, [0, 2, 1]), [2, 3, 33, 36]), 2), [3]),
  ],
  [
    "a sum of a part of what was turned",
    [[6, 36, 33]],
    (x) => ops.sumDim(ops.scale(ops.narrow(ops.permute(x, [0, 2, 1]), 1, 3, 30), 2), [2]),
  ],
  [
    "a sum of what was turned, times a factor a row",
    [[6, 36, 33], [6, 33, 1]],
    (x, a) => ops.sumDim(ops.mul(a, ops.permute(x, [0, 2, 1])), [2]),
  ],
  [
    "a sum over a matrix times many, with a factor a row of it",
    [[64, 2], [4, 12, 2], [64, 1]],
    (w, x, b) => op("softplus")(ops.add(ops.matmul(w, ops.transpose(x, 1, 2)), b), 1, 20),
  ],
  [
    "a bias behind dimensions that are joined and turned",
    [[4, 8, 64], [64], [4, 2, 8, 32]],
    (x, b, q) => {
      const heads = ops.permute(ops.reshape(ops.add(x, b), [4, 8, 2, 32]), [0, 2, 3, 1]);
      return ops.matmul(q, ops.scale(heads, 0.42));
    },
  ],
  ["the mean of silu", [[4, 16, 5, 5]], (x) => ops.meanDim(ops.silu(x), [2, 3])],
  [
    "the mean of an image that lies channels last, with a factor a channel",
    [[4, 2, 2, 36], [36, 36, 1, 1], [1, 36, 1, 1]],
    (x, w, s) => ops.meanDim(ops.mul(ops.conv2d(channelsFirst(x), w), s), [2, 3]),
  ],
  [
    "the mean of an image, turned",
    [[4, 2, 2, 36], [36, 36, 1, 1], [1, 36, 1, 1]],
    (x, w, s) => {
      const image = ops.mul(ops.conv2d(channelsFirst(x), w), s);
      return ops.sin(ops.permute(ops.meanDim(image, [2, 3], true), [0, 2, 3, 1]));
    },
  ],
  [
    "the mean of what was turned, with a factor a channel",
    [[4, 2, 2, 168], [168]],
    (x, s) => ops.meanDim(channelsFirst(ops.mul(x, s)), [2, 3]),
  ],
  [
    "silu, with zeros around it",
    [[2, 5, 7, 7]],
    (x) => ops.sin(op("constant_pad_nd")(ops.silu(ops.sin(x)), [0, 1, 0, 1], 0)),
  ],
  [
    "an image that lies channels last, made contiguous",
    [[4, 5, 5, 36], [36, 36, 1, 1], [36, 36, 1, 1]],
    (x, w, v) => {
      const image = ops.conv2d(channelsFirst(x), w);
      return ops.sumDim(ops.conv2d(ops.contiguous(image), v), [0, 2]);
    },
  ],
  [
    "the gradient of an image that lies channels last, summed in rows",
    [[4, 16, 36], [36, 36, 1, 1], [4, 1, 36]],
    (x, w, s) => {
      const y = ops.add(x, s), other = ops.sin(y);
      const image = ops.conv2d(ops.reshape(ops.permute(y, [0, 2, 1]), [4, 36, 4, 4]), w);
      return ops.add(other, ops.permute(ops.reshape(image, [4, 36, 16]), [0, 2, 1]));
    },
  ],
  [
    "a part of an image that lies channels last, behind a bias",
    [[4, 8, 8, 36], [36, 36, 1, 1], [8, 36, 1, 1], [8]],
    (x, w, v, b) => {
      const image = ops.conv2d(ops.conv2d(channelsFirst(x), w), v, b);
      return ops.sin(ops.narrow(image, 1, 0, 4));
    },
  ],
  ["gelu, turned behind it", [[4, 32, 20]], (x) => ops.sin(ops.permute(ops.gelu(x), [0, 2, 1]))],
  ["gelu of what was turned", [[4, 32, 20]], (x) => ops.gelu(ops.permute(ops.sin(x), [0, 2, 1]))],
  [
    "a view whose rows are used again, beside the view itself",
    [[48, 32], [32], [32]],
    (x, a, b) => {
      const y = ops.reshape(ops.sin(x), [4, 12, 32]), rows = () => ops.reshape(y, [48, 32]);
      const products = ops.add(ops.mul(rows(), a), ops.mul(rows(), b));
      return ops.add(ops.reshape(products, [4, 12, 32]), ops.sin(y));
    },
  ],
  [
    "a copy that is used again, beside what was copied",
    [[48, 32], [32], [32]],
    (x, a, b) => {
      const y = ops.sin(x), copy = ops.clone(y);
      return ops.add(ops.add(ops.mul(copy, a), ops.mul(copy, b)), ops.sin(y));
    },
  ],
  ["sums of two dimensions", [MAPS], (x) => ops.sumDim(x, [0, 2])],
  [
    "a token that is stretched over samples, and used twice",
    [[1, 1, 48], [4, 16, 48]],
    (token, x) => {
      const each = stretched(token);
      return ops.add(ops.meanDim(ops.cat([each, x], 1), [1], true), ops.mul(each, each));
    },
  ],
  ["a function of what was stretched", [[1, 1, 48], [4, 1, 48]], (x, y) => ops.mul(ops.sin(stretched(x)), y)],
  [
    "the bias of scores whose heads are mixed",
    [[4, 4, 16, 16], [4, 4], [4]],
    (x, w, b) => ops.softmax(ops.permute(ops.linear(ops.permute(x, [0, 2, 3, 1]), w, b), [0, 3, 1, 2]), -1),
  ],
  [
    "an image of patches that a copy put together",
    [[16, 1, 32], [24, 32, 1, 1]],
    (x, w) => {
      const patches = ops.transpose(ops.reshape(ops.sin(x), [4, 4, 1, 32]), 1, 3);
      const lines = ops.transpose(ops.reshape(patches, [128, 1, 2, 2]), 1, 2);
      return ops.conv2d(ops.reshape(lines, [4, 32, 2, 2]), w);
    },
  ],
  [
    "a channel's mean that lies channels last, normalised",
    [[4, 2, 2, 64], [16, 64, 1, 1], [16], [16]],
    (x, w, scale, shift) => {
      const mean = ops.adaptiveAvgPool2d(channelsFirst(ops.sin(x)), [1, 1]);
      return ops.batchNorm(ops.conv2d(mean, w), scale, shift, null, null, true, 0.1, 1e-5, false);
    },
  ],
  ...(["reflect", "replicate", "circular"] as const).flatMap((mode): BitsCase[] => [
    [`rows with a border, ${mode}`, [[4, 8, 16]], (x) => ops.sin(op("pad")(ops.sin(x), [3, 3], mode, null))],
    [
      `maps with a border, ${mode}`,
      [[2, 8, 16, 12]],
      (x) => ops.sin(op("pad")(ops.sin(x), [3, 2, 1, 2], mode, null)),
    ],
  ]),
  ...[false, true].flatMap((first): BitsCase[] => {
    const state = [1, first ? 4 : 12, 16], how = [true, 1, 0, true, false, first] as const;
    return [
      [
        `gru, ${first ? "samples" : "time"} first`,
        [[4, 12, 18], state, [48, 18], [48, 16], [48], [48]],
        (x, h, ...weights) => several("gru.input")(x, h, weights, ...how)[0],
      ],
      [
        `lstm, ${first ? "samples" : "time"} first`,
        [[4, 12, 18], state, state, [64, 18], [64, 16], [64], [64]],
        (x, h, c, ...weights) => several("lstm.input")(x, [h, c], weights, ...how)[0],
      ],
    ];
  }),
];
