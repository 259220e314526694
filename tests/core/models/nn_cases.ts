// The modules that are compared with torch.nn's, with PyTorch's name and arguments for each. Test data.
import * as act from "../../../core/models/nn/activations.ts";
import { MultiheadAttention } from "../../../core/models/nn/attention.ts";
import { BatchNorm, GroupNorm, LayerNorm, RMSNorm } from "../../../core/models/nn/norms.ts";
import {
  Conv1d,
  Conv2d,
  Conv3d,
  ConvTranspose1d,
  ConvTranspose2d,
  ConvTranspose3d,
} from "../../../core/models/nn/conv.ts";
import { Dropout, Embedding, Linear } from "../../../core/models/nn/linear.ts";
import { truncNormal } from "../../../core/models/nn/init.ts";
import { Module } from "../../../core/models/nn/module.ts";
import * as nn from "../../../core/models/nn/mod.ts";
import { AdaptiveAvgPool, AvgPool, MaxPool, Upsample } from "../../../core/models/nn/pooling.ts";
import { uninitialised } from "../../../ffi/make.ts";
import { mul } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";

type Forward = Module & { forward(x: Tensor): Tensor };

export interface NnCase {
  /** A class of torch.nn, or one of tests/peers/models/nn.py. */
  module: string;
  args: unknown[];
  options: Record<string, unknown>;
  input: { shape: number[]; below?: number };
  make: () => Forward;
}

class FunctionModule extends Module {
  constructor(readonly forward: (x: Tensor) => Tensor) {
    super();
  }
}

class Truncated extends Module {
  readonly #weight: Tensor;
  constructor(size: number, std: number) {
    super();
    this.#weight = this.parameter("weight", truncNormal(uninitialised([size]), std));
  }
  forward(x: Tensor): Tensor {
    return mul(x, this.#weight);
  }
}

const twin = (
  module: string,
  args: unknown[],
  options: Record<string, unknown>,
  shape: number[],
  make: () => Forward,
): NnCase => ({ module, args, options, input: { shape }, make });

/** A function of torch.nn.functional and ours. */
const call = (name: string, options: Record<string, unknown>, forward: (x: Tensor) => Tensor): NnCase =>
  twin("Function", [name], options, [4, 37], () => new FunctionModule(forward));

const upsample = (mode: "nearest" | "linear" | "bilinear" | "trilinear", factor: number, dims: number) =>
  twin(
    "Upsample",
    [],
    { scale_factor: factor, mode },
    [2, 3, 6, 5, 4].slice(0, dims + 2),
    () =>
      new Upsample({ scaleFactor: factor, mode: mode === "nearest" ? `nearest${dims as 1 | 2 | 3}d` : mode }),
  );

export const CASES: readonly NnCase[] = [
  twin("Linear", [5, 7], {}, [4, 5], () => new Linear(5, 7)),
  twin("Linear", [5, 7], { bias: false }, [2, 3, 5], () => new Linear(5, 7, { bias: false })),
  twin(
    "Conv1d",
    [4, 6, 3],
    { stride: 2, padding: 1, groups: 2 },
    [2, 4, 11],
    () => new Conv1d(4, 6, 3, { stride: 2, padding: 1, groups: 2 }),
  ),
  twin(
    "Conv2d",
    [3, 8, [3, 5]],
    { padding: [1, 2], dilation: 2, bias: false },
    [2, 3, 12, 15],
    () => new Conv2d(3, 8, [3, 5], { padding: [1, 2], dilation: 2, bias: false }),
  ),
  twin("Conv3d", [2, 4, 3], { padding: 1 }, [2, 2, 6, 5, 7], () => new Conv3d(2, 4, 3, { padding: 1 })),
  ...(["circular", "reflect", "replicate"] as const).map((paddingMode) =>
    twin(
      "Conv2d",
      [2, 3, [3, 5]],
      { padding: [1, 2], padding_mode: paddingMode },
      [2, 2, 4, 7],
      () => new Conv2d(2, 3, [3, 5], { padding: [1, 2], paddingMode }),
    )
  ),
  twin(
    "Conv1d",
    [2, 3, 3],
    { padding: 1, padding_mode: "circular" },
    [2, 2, 4],
    () => new Conv1d(2, 3, 3, { padding: 1, paddingMode: "circular" }),
  ),
  twin(
    "ConvTranspose1d",
    [4, 6, 3],
    { stride: 2, output_padding: 1 },
    [2, 4, 7],
    () => new ConvTranspose1d(4, 6, 3, { stride: 2, outputPadding: 1 }),
  ),
  twin(
    "ConvTranspose2d",
    [4, 6, 3],
    { stride: 2, padding: 1, groups: 2, dilation: 2 },
    [2, 4, 7, 6],
    () => new ConvTranspose2d(4, 6, 3, { stride: 2, padding: 1, groups: 2, dilation: 2 }),
  ),
  twin(
    "ConvTranspose3d",
    [3, 2, 2],
    { stride: 2, bias: false },
    [2, 3, 4, 3, 5],
    () => new ConvTranspose3d(3, 2, 2, { stride: 2, bias: false }),
  ),
  twin("BatchNorm1d", [6], {}, [8, 6], () => new BatchNorm(6)),
  twin(
    "BatchNorm2d",
    [6],
    { momentum: 0.3, eps: 1e-3 },
    [3, 6, 4, 5],
    () => new BatchNorm(6, { momentum: 0.3, eps: 1e-3 }),
  ),
  twin("BatchNorm3d", [3], { affine: false }, [2, 3, 4, 5, 2], () => new BatchNorm(3, { affine: false })),
  twin("LayerNorm", [17], {}, [3, 5, 17], () => new LayerNorm(17)),
  twin("LayerNorm", [[5, 17]], { bias: false, eps: 1e-3 }, [
    3,
    5,
    17,
  ], () => new LayerNorm([5, 17], { bias: false, eps: 1e-3 })),
  twin(
    "LayerNorm",
    [17],
    { elementwise_affine: false },
    [3, 17],
    () => new LayerNorm(17, { elementwiseAffine: false }),
  ),
  twin("GroupNorm", [3, 6], {}, [2, 6, 5, 4], () => new GroupNorm(3, 6)),
  twin("RMSNorm", [17], {}, [3, 5, 17], () => new RMSNorm(17)),
  twin("RMSNorm", [17], { eps: 1e-3 }, [3, 5, 17], () => new RMSNorm(17, { eps: 1e-3 })),
  {
    ...twin("Embedding", [11, 6], {}, [3, 5], () => new Embedding(11, 6)),
    input: { shape: [3, 5], below: 11 },
  },
  {
    ...twin("Embedding", [11, 6], { padding_idx: 2 }, [], () => new Embedding(11, 6, { paddingIdx: 2 })),
    input: { shape: [3, 5], below: 11 },
  },
  twin("Dropout", [0.3], {}, [5, 40], () => new Dropout(0.3)),
  twin("Dropout1d", [0.3], {}, [5, 40, 3], () => new nn.Dropout1d(0.3)),
  twin("Dropout2d", [0.3], {}, [5, 40, 3, 2], () => new nn.Dropout2d(0.3)),
  twin("Dropout3d", [0.3], {}, [5, 40, 3, 2, 2], () => new nn.Dropout3d(0.3)),
  twin("BatchNorm1d", [6], {}, [8, 6], () => new nn.BatchNorm1d(6)),
  twin("BatchNorm2d", [6], {}, [8, 6, 3, 2], () => new nn.BatchNorm2d(6)),
  twin("BatchNorm3d", [6], {}, [8, 6, 3, 2, 2], () => new nn.BatchNorm3d(6)),
  twin("MaxPool1d", [3], { stride: 2 }, [2, 3, 12], () => new nn.MaxPool1d(3, { stride: 2 })),
  twin("MaxPool2d", [2], {}, [2, 3, 12, 8], () => new nn.MaxPool2d(2)),
  twin("MaxPool3d", [2], {}, [2, 3, 12, 8, 4], () => new nn.MaxPool3d(2)),
  twin("AvgPool1d", [2], {}, [2, 3, 12], () => new nn.AvgPool1d(2)),
  twin("AvgPool2d", [2], {}, [2, 3, 12, 8], () => new nn.AvgPool2d(2)),
  twin("AvgPool3d", [2], {}, [2, 3, 12, 8, 4], () => new nn.AvgPool3d(2)),
  twin("AdaptiveAvgPool1d", [4], {}, [2, 3, 12], () => new nn.AdaptiveAvgPool1d(4)),
  twin("AdaptiveAvgPool2d", [1], {}, [2, 3, 12, 8], () => new nn.AdaptiveAvgPool2d(1)),
  twin("AdaptiveAvgPool3d", [2], {}, [2, 3, 12, 8, 4], () => new nn.AdaptiveAvgPool3d(2)),
  twin("Dropout", [0], {}, [5, 40], () => new Dropout(0)),
  twin("SelfAttention", [16, 4], {}, [3, 9, 16], () => new MultiheadAttention(16, 4)),
  twin(
    "SelfAttention",
    [16, 2],
    { dropout: 0.2, bias: false, causal: true },
    [3, 9, 16],
    () => new MultiheadAttention(16, 2, { dropout: 0.2, bias: false, causal: true }),
  ),
  twin("MaxPool1d", [3], { stride: 2 }, [2, 3, 12], () => new MaxPool(1, 3, { stride: 2 })),
  twin(
    "MaxPool2d",
    [3],
    { stride: 2, padding: 1, ceil_mode: true },
    [2, 3, 12, 9],
    () => new MaxPool(2, 3, { stride: 2, padding: 1, ceilMode: true }),
  ),
  twin("MaxPool3d", [[2, 3, 2]], { dilation: 2 }, [
    2,
    3,
    6,
    8,
    7,
  ], () => new MaxPool(3, [2, 3, 2], { dilation: 2 })),
  twin("AvgPool1d", [3], {}, [2, 3, 12], () => new AvgPool(1, 3)),
  twin(
    "AvgPool2d",
    [3],
    { stride: 2, padding: 1, count_include_pad: false },
    [2, 3, 12, 9],
    () => new AvgPool(2, 3, { stride: 2, padding: 1, countIncludePad: false }),
  ),
  twin("AvgPool3d", [2], { ceil_mode: true }, [2, 3, 5, 6, 7], () => new AvgPool(3, 2, { ceilMode: true })),
  twin("AdaptiveAvgPool1d", [4], {}, [2, 3, 10], () => new AdaptiveAvgPool(1, 4)),
  twin("AdaptiveAvgPool2d", [[3, 2]], {}, [2, 3, 10, 7], () => new AdaptiveAvgPool(2, [3, 2])),
  twin("AdaptiveAvgPool3d", [1], {}, [2, 3, 4, 5, 6], () => new AdaptiveAvgPool(3, 1)),
  upsample("nearest", 2, 1),
  upsample("nearest", 2, 2),
  upsample("nearest", 3, 3),
  upsample("linear", 2.5, 1),
  upsample("bilinear", 1.7, 2),
  upsample("trilinear", 2, 3),
  twin(
    "Upsample",
    [],
    { scale_factor: [2, 3], mode: "bilinear", align_corners: true },
    [2, 3, 4, 5],
    () => new Upsample({ scaleFactor: [2, 3], mode: "bilinear", alignCorners: true }),
  ),
  twin("Truncated", [500, 1.5], {}, [500], () => new Truncated(500, 1.5)),
  twin("LeakyReLU", [0.2], {}, [4, 37], () => new act.LeakyReLU(0.2)),
  twin("PReLU", [3], {}, [4, 3, 5], () => new act.PReLU(3)),
  call("relu", {}, act.relu),
  call("gelu", {}, (x) => act.gelu(x)),
  call("gelu", { approximate: "tanh" }, (x) => act.gelu(x, "tanh")),
  call("silu", {}, act.silu),
  call("mish", {}, act.mish),
  call("tanh", {}, act.tanh),
  call("sigmoid", {}, act.sigmoid),
  call("logsigmoid", {}, act.logSigmoid),
  call("hardswish", {}, act.hardswish),
  call("hardsigmoid", {}, act.hardsigmoid),
  call("softmax", { dim: 1 }, (x) => act.softmax(x, 1)),
  call("log_softmax", { dim: 0 }, (x) => act.logSoftmax(x, 0)),
];
