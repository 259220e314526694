// nn.Linear. May import ffi, init, module.
import { uninitialised } from "../../../ffi/make.ts";
import { linear } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { biasUniform, kaimingUniform } from "./init.ts";
import { Module } from "./module.ts";

export class Linear extends Module {
  weight: Tensor;
  readonly bias: Tensor | null;

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

  forward(x: Tensor): Tensor {
    return linear(x, this.weight, this.bias);
  }
}
