// Activations: functions where they hold nothing, modules where they do. May import ffi, module.
// Not here: ELU, SELU, Softplus, Hardtanh, whose ops take a Scalar, which the native interface doesn't carry.
import { constant, fill_, uninitialised } from "../../../ffi/make.ts";
import { prelu } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { Module } from "./module.ts";

export {
  gelu,
  hardsigmoid,
  hardswish,
  logSigmoid,
  logSoftmax,
  mish,
  relu,
  relu_,
  sigmoid,
  silu,
  softmax,
  tanh,
} from "../../../ffi/ops.ts";

export class LeakyReLU extends Module {
  readonly #slope: number;
  #weight: Tensor | null = null;

  constructor(negativeSlope = 0.01) {
    super();
    this.#slope = negativeSlope;
  }
  forward(x: Tensor): Tensor {
    return prelu(x, this.#weight ??= constant(this.#slope, x.dtype, x.device));
  }
}

export class PReLU extends Module {
  readonly weight: Tensor;

  constructor(numParameters = 1, init = 0.25) {
    super();
    this.weight = this.parameter("weight", fill_(uninitialised([numParameters]), init));
  }
  forward(x: Tensor): Tensor {
    return prelu(x, this.weight);
  }
}
