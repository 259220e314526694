// nn.Linear. May import ffi, init, module.
import { uninitialised } from "../../../ffi/make.ts";
import { linear } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { biasUniform, kaimingUniform } from "./init.ts";
import { Module } from "./module.ts";

/** torch.nn.Linear: x times the transposed weight, and the bias. */
export class Linear extends Module {
  /** (outFeatures, inFeatures). */
  weight: Tensor;
  /** (outFeatures), or null. */
  readonly bias: Tensor | null;

  /** Weights are drawn as PyTorch draws them; `bias` is true unless told. */
  constructor(inFeatures: number, outFeatures: number, options: { bias?: boolean } = {}) {
    super();
    this.weight = this.parameter("weight", kaimingUniform(uninitialised([outFeatures, inFeatures])));
    this.bias = options.bias === false
      ? null
      : this.parameter("bias", biasUniform(uninitialised([outFeatures]), this.weight));
  }

  /** Uses another module's weight, e.g. an embedding's. */
  tie(weight: Tensor): void {
    this.weight = this.share("weight", weight);
  }

  /** (..., inFeatures) -> (..., outFeatures). */
  forward(x: Tensor): Tensor {
    return linear(x, this.weight, this.bias);
  }
}
