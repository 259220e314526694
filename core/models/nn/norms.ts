// nn.LayerNorm, GroupNorm, RMSNorm and BatchNorm (1d, 2d and 3d are one class: the op takes any of them).
import { constant, ones, zeros } from "../../../ffi/make.ts";
import { batchNorm, groupNorm, layerNorm, rmsNorm, scatterAdd_, view } from "../../../ffi/ops.ts";
import { describe, scope, type Tensor } from "../../../ffi/tensor.ts";
import { Module, perDimension, type Size } from "./module.ts";
import { LonelyBatch } from "./lonely_batch.ts";
import { syncedBatchNorm } from "./sync_batch_norm.ts";

/** torch.nn.LayerNorm: over the last dimensions, which the shape names. */
export class LayerNorm extends Module {
  /** Has the normalised shape; null without `affine`. */
  readonly weight: Tensor | null = null;
  /** Has the normalised shape; null without it. */
  readonly bias: Tensor | null = null;
  readonly #shape: readonly number[];
  readonly #eps: number;

  /** `normalizedShape` is the size, or the sizes, of the last dimensions. */
  constructor(
    normalizedShape: Size,
    options: { eps?: number; elementwiseAffine?: boolean; bias?: boolean } = {},
  ) {
    super();
    this.#shape = perDimension(normalizedShape, 1);
    this.#eps = options.eps ?? 1e-5;
    if (options.elementwiseAffine === false) return;
    this.weight = this.parameter("weight", ones(this.#shape));
    if (options.bias !== false) this.bias = this.parameter("bias", zeros(this.#shape));
  }
  /** Takes any shape that ends in the normalised one. */
  forward(x: Tensor): Tensor {
    return layerNorm(x, this.#shape, this.weight, this.bias, this.#eps);
  }
}

/** torch.nn.GroupNorm: over groups of channels, sample by sample. */
export class GroupNorm extends Module {
  /** (channels); null without `affine`. */
  readonly weight: Tensor | null = null;
  /** (channels); null without `affine`. */
  readonly bias: Tensor | null = null;
  readonly #groups: number;
  readonly #eps: number;

  /** `numGroups` divides `numChannels`. */
  constructor(numGroups: number, numChannels: number, options: { eps?: number; affine?: boolean } = {}) {
    super();
    this.#groups = numGroups;
    this.#eps = options.eps ?? 1e-5;
    if (options.affine === false) return;
    this.weight = this.parameter("weight", ones([numChannels]));
    this.bias = this.parameter("bias", zeros([numChannels]));
  }
  /** Takes (n, channels, ...). */
  forward(x: Tensor): Tensor {
    return groupNorm(x, this.#groups, this.weight, this.bias, this.#eps);
  }
}

/** torch.nn.RMSNorm: divides by the root of the mean square of the last dimensions. */
export class RMSNorm extends Module {
  /** Has the normalised shape; null without `affine`. */
  readonly weight: Tensor | null = null;
  readonly #shape: readonly number[];
  readonly #eps: number | null;

  /** Without eps it is the data type's own smallest step, as in PyTorch. */
  constructor(normalizedShape: Size, options: { eps?: number; elementwiseAffine?: boolean } = {}) {
    super();
    this.#shape = perDimension(normalizedShape, 1);
    this.#eps = options.eps ?? null;
    if (options.elementwiseAffine !== false) this.weight = this.parameter("weight", ones(this.#shape));
  }
  /** Takes any shape that ends in the normalised one. */
  forward(x: Tensor): Tensor {
    return rmsNorm(x, this.#shape, this.weight, this.#eps);
  }
}

export interface BatchNormOptions {
  eps?: number;
  momentum?: number;
  affine?: boolean;
}

export class BatchNorm extends Module {
  readonly features: number;
  readonly weight: Tensor | null = null;
  readonly bias: Tensor | null = null;
  readonly #mean: Tensor;
  readonly #variance: Tensor;
  readonly #batches: Tensor;
  readonly #eps: number;
  /**
   * The share of a batch's own statistics in the running ones.
   * @internal
   */
  momentum: number;

  constructor(features: number, options: BatchNormOptions = {}) {
    super();
    this.features = features;
    this.#eps = options.eps ?? 1e-5;
    this.momentum = options.momentum ?? 0.1;
    if (options.affine !== false) {
      this.weight = this.parameter("weight", ones([features]));
      this.bias = this.parameter("bias", zeros([features]));
    }
    this.#mean = this.buffer("running_mean", zeros([features]));
    this.#variance = this.buffer("running_var", ones([features]));
    this.#batches = this.buffer("num_batches_tracked", zeros([], { dtype: "i64" }));
  }

  /** (features): the mean that evaluation subtracts. */
  get runningMean(): Tensor {
    return this.#mean;
  }
  /** (features): the variance that evaluation divides by. */
  get runningVar(): Tensor {
    return this.#variance;
  }

  /**
   * Running mean, running variance, and how many batches they are of.
   * @internal
   */
  get statistics(): readonly [Tensor, Tensor, Tensor] {
    return [this.#mean, this.#variance, this.#batches];
  }

  forward(x: Tensor): Tensor {
    const { weight, bias } = this;
    if (!this.training) {
      return batchNorm(x, weight, bias, this.#mean, this.#variance, false, this.momentum, this.#eps, true);
    }
    const { ranks, pass, norms } = this.forwardContext;
    if (ranks) {
      this.#count();
      const [mean, variance, momentum, eps] = [this.#mean, this.#variance, this.momentum, this.#eps];
      return syncedBatchNorm(x, { weight, bias, mean, variance, momentum, eps }, ranks, norms);
    }
    if (x.shape[0] === 1) refuseLonely(x);
    // The first pass moved the running statistics; in the second they stay.
    if (pass === "second") {
      return batchNorm(x, weight, bias, null, null, true, this.momentum, this.#eps, true);
    }
    this.#count();
    return batchNorm(x, weight, bias, this.#mean, this.#variance, true, this.momentum, this.#eps, true);
  }

  #count(): void {
    // It adds in place without a Scalar; as vectors of one, since deterministic CUDA has no way for 0-dim
    // tensors.
    const device = this.#batches.device;
    scope(() => {
      const [count, zero, one] = [this.#batches, constant(0, "i64", device), constant(1, "i64", device)]
        .map((t) => view(t, [1]));
      scatterAdd_(count, 0, zero, one);
    });
  }
}

/** One value per channel has no variance; it would turn the running variance into NaN. */
function refuseLonely(x: Tensor): void {
  if (x.shape.slice(2).some((size) => size > 1)) return;
  throw new LonelyBatch(
    "usage",
    `batch norm needs more than one value per channel to train on, and got ${describe(x)}: ` +
      "use a larger batch size, larger images, or a number of samples that leaves no batch of one.",
  );
}

/** torch.nn.BatchNorm1d: of (n, features) or (n, features, length). */
export class BatchNorm1d extends BatchNorm {}
/** torch.nn.BatchNorm2d: of (n, features, height, width). */
export class BatchNorm2d extends BatchNorm {}
/** torch.nn.BatchNorm3d: of (n, features, depth, height, width). */
export class BatchNorm3d extends BatchNorm {}
