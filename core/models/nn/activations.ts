// Activations: functions where they hold nothing, modules where they do. Not here: ELU, SELU, Softplus, Hardtanh,
// whose ops take a Scalar, which the native interface doesn't carry.
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
} from "../user/ops.ts";

/** x, or `negativeSlope` times x where it is negative. */
export class LeakyReLU extends Module {
  readonly #slope: number;
  #weight: Tensor | null = null;

  /** `negativeSlope`: 0 would be ReLU. */
  constructor(negativeSlope = 0.01) {
    super();
    this.#slope = negativeSlope;
  }
  /** Takes any shape, element by element. */
  forward(x: Tensor): Tensor {
    return prelu(x, this.#weight ??= constant(this.#slope, x.dtype, x.device));
  }
}

/** x, or a learnt weight times x where it is negative. */
export class PReLU extends Module {
  /** One, or one for each channel. */
  readonly weight: Tensor;

  /** `numParameters` is 1 or the number of channels; each begins with `init`. */
  constructor(numParameters = 1, init = 0.25) {
    super();
    this.weight = this.parameter("weight", fill_(uninitialised([numParameters]), init));
  }
  /** Takes (n, channels, ...), element by element. */
  forward(x: Tensor): Tensor {
    return prelu(x, this.weight);
  }
}
