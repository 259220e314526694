// nn.LayerNorm, GroupNorm, RMSNorm. May import ffi, module, sizes.
import { ones, zeros } from "../../../ffi/make.ts";
import { groupNorm, layerNorm, rmsNorm } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { Module } from "./module.ts";
import { perDimension, type Size } from "./sizes.ts";

/** torch.nn.LayerNorm: over the last dimensions, which the shape names. */
export class LayerNorm extends Module {
  /** Of the normalised shape; null without `affine`. */
  readonly weight: Tensor | null = null;
  /** Of the normalised shape; null without it. */
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
  /** Of any shape that ends in the normalised one. */
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
  /** Of (n, channels, ...). */
  forward(x: Tensor): Tensor {
    return groupNorm(x, this.#groups, this.weight, this.bias, this.#eps);
  }
}

/** torch.nn.RMSNorm: divides by the root of the mean square of the last dimensions. */
export class RMSNorm extends Module {
  /** Of the normalised shape; null without `affine`. */
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
  /** Of any shape that ends in the normalised one. */
  forward(x: Tensor): Tensor {
    return rmsNorm(x, this.#shape, this.weight, this.#eps);
  }
}
