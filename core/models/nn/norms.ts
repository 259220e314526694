// nn.LayerNorm, GroupNorm, RMSNorm. May import ffi, module, sizes.
import { ones, zeros } from "../../../ffi/make.ts";
import { groupNorm, layerNorm, rmsNorm } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { Module } from "./module.ts";
import { perDimension, type Size } from "./sizes.ts";

export class LayerNorm extends Module {
  readonly weight: Tensor | null = null;
  readonly bias: Tensor | null = null;
  readonly #shape: readonly number[];
  readonly #eps: number;

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
  forward(x: Tensor): Tensor {
    return layerNorm(x, this.#shape, this.weight, this.bias, this.#eps);
  }
}

export class GroupNorm extends Module {
  readonly weight: Tensor | null = null;
  readonly bias: Tensor | null = null;
  readonly #groups: number;
  readonly #eps: number;

  constructor(numGroups: number, numChannels: number, options: { eps?: number; affine?: boolean } = {}) {
    super();
    this.#groups = numGroups;
    this.#eps = options.eps ?? 1e-5;
    if (options.affine === false) return;
    this.weight = this.parameter("weight", ones([numChannels]));
    this.bias = this.parameter("bias", zeros([numChannels]));
  }
  forward(x: Tensor): Tensor {
    return groupNorm(x, this.#groups, this.weight, this.bias, this.#eps);
  }
}

export class RMSNorm extends Module {
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
  forward(x: Tensor): Tensor {
    return rmsNorm(x, this.#shape, this.weight, this.#eps);
  }
}
