// nn.BatchNorm1d, 2d, 3d (one class: the op takes any of them). May import ffi, core/errors, module.
import { constant, ones, zeros } from "../../../ffi/make.ts";
import { batchNorm, scatterAdd_, view } from "../../../ffi/ops.ts";
import { describe, scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../errors.ts";
import { Module } from "./module.ts";
import { syncedBatchNorm, synchronised } from "./sync_batch_norm.ts";

export interface BatchNormOptions {
  eps?: number;
  momentum?: number;
  affine?: boolean;
}

let pass: "only" | "first" | "second" = "only";

function during<R>(which: "first" | "second", body: () => R): R {
  pass = which;
  try {
    return body();
  } finally {
    pass = "only";
  }
}

/** Runs forward over a batch that `recompute` goes over again (gradient checkpointing). */
export const firstPass = <R>(body: () => R): R => during("first", body);

/** Runs forward a second time over the same batch (gradient checkpointing): running statistics stay as they are. */
export const recompute = <R>(body: () => R): R => during("second", body);

/** True inside firstPass: what the second must find as it is now is to be put aside. */
export const toBeRecomputed = (): boolean => pass === "first";

/** True inside recompute: whatever else keeps statistics leaves them, too. */
export const recomputing = (): boolean => pass === "second";

export class BatchNorm extends Module {
  readonly features: number;
  readonly weight: Tensor | null = null;
  readonly bias: Tensor | null = null;
  readonly #mean: Tensor;
  readonly #variance: Tensor;
  readonly #batches: Tensor;
  readonly #eps: number;
  readonly #momentum: number;

  constructor(features: number, options: BatchNormOptions = {}) {
    super();
    this.features = features;
    this.#eps = options.eps ?? 1e-5;
    this.#momentum = options.momentum ?? 0.1;
    if (options.affine !== false) {
      this.weight = this.parameter("weight", ones([features]));
      this.bias = this.parameter("bias", zeros([features]));
    }
    this.#mean = this.buffer("running_mean", zeros([features]));
    this.#variance = this.buffer("running_var", ones([features]));
    this.#batches = this.buffer("num_batches_tracked", zeros([], { dtype: "i64" }));
  }

  forward(x: Tensor): Tensor {
    const { weight, bias } = this;
    if (!this.training) {
      return batchNorm(x, weight, bias, this.#mean, this.#variance, false, this.#momentum, this.#eps, true);
    }
    if (synchronised()) {
      this.#count();
      const [mean, variance, momentum, eps] = [this.#mean, this.#variance, this.#momentum, this.#eps];
      return syncedBatchNorm(x, { weight, bias, mean, variance, momentum, eps });
    }
    if (x.shape[0] === 1) refuseLonely(x);
    if (recomputing()) return batchNorm(x, weight, bias, null, null, true, this.#momentum, this.#eps, true);
    this.#count();
    return batchNorm(x, weight, bias, this.#mean, this.#variance, true, this.#momentum, this.#eps, true);
  }

  #count(): void {
    // In place without a Scalar; as vectors of one, since deterministic CUDA has no way for 0-dim tensors.
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
  throw new UserError(
    "usage",
    `batch norm needs more than one value per channel to train on, and got ${describe(x)}: ` +
      "use a larger batch size, larger images, or a number of samples that leaves no batch of one.",
  );
}
