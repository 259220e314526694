// nn.ConvTranspose1d, 2d, 3d. May import ffi, conv, init, module, sizes.
import { uninitialised } from "../../../ffi/make.ts";
import { convTranspose1d, convTranspose2d, convTranspose3d } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { ConvOptions } from "./conv.ts";
import { biasUniform, kaimingUniform } from "./init.ts";
import { Module } from "./module.ts";
import { perDimension, type Size } from "./sizes.ts";

/** What transposed convolutions can be told. */
export interface ConvTransposeOptions extends ConvOptions {
  /** Places added to one side of the output, where several sizes would fit; 0 unless told. */
  outputPadding?: Size;
}

abstract class ConvTranspose extends Module {
  readonly weight: Tensor;
  readonly bias: Tensor | null;
  protected readonly stride: readonly number[];
  protected readonly padding: readonly number[];
  protected readonly outputPadding: readonly number[];
  protected readonly dilation: readonly number[];
  protected readonly groups: number;

  constructor(dims: number, inChannels: number, outChannels: number, kernel: Size, o: ConvTransposeOptions) {
    super();
    this.stride = perDimension(o.stride ?? 1, dims);
    this.padding = perDimension(o.padding ?? 0, dims);
    this.outputPadding = perDimension(o.outputPadding ?? 0, dims);
    this.dilation = perDimension(o.dilation ?? 1, dims);
    this.groups = o.groups ?? 1;
    const shape = [inChannels, outChannels / this.groups, ...perDimension(kernel, dims)];
    this.weight = this.parameter("weight", kaimingUniform(uninitialised(shape)));
    this.bias = o.bias === false
      ? null
      : this.parameter("bias", biasUniform(uninitialised([outChannels]), this.weight));
  }
}

/** torch.nn.ConvTranspose1d, over (n, channels, l). */
export class ConvTranspose1d extends ConvTranspose {
  /** `kernel` is the window's length. */
  constructor(inChannels: number, outChannels: number, kernel: Size, options: ConvTransposeOptions = {}) {
    super(1, inChannels, outChannels, kernel, options);
  }
  /** (n, in, l) -> (n, out, l'). */
  forward(x: Tensor): Tensor {
    const { weight, bias, stride, padding, outputPadding, groups, dilation } = this;
    return convTranspose1d(x, weight, bias, stride, padding, outputPadding, groups, dilation);
  }
}

/** torch.nn.ConvTranspose2d, over (n, channels, h, w). */
export class ConvTranspose2d extends ConvTranspose {
  /** `kernel` is the window's side, or its height and width. */
  constructor(inChannels: number, outChannels: number, kernel: Size, options: ConvTransposeOptions = {}) {
    super(2, inChannels, outChannels, kernel, options);
  }
  /** (n, in, h, w) -> (n, out, h', w'). */
  forward(x: Tensor): Tensor {
    const { weight, bias, stride, padding, outputPadding, groups, dilation } = this;
    return convTranspose2d(x, weight, bias, stride, padding, outputPadding, groups, dilation);
  }
}

/** torch.nn.ConvTranspose3d, over (n, channels, d, h, w). */
export class ConvTranspose3d extends ConvTranspose {
  /** `kernel` is the window's side, or its three sides. */
  constructor(inChannels: number, outChannels: number, kernel: Size, options: ConvTransposeOptions = {}) {
    super(3, inChannels, outChannels, kernel, options);
  }
  /** (n, in, d, h, w) -> (n, out, d', h', w'). */
  forward(x: Tensor): Tensor {
    const { weight, bias, stride, padding, outputPadding, groups, dilation } = this;
    return convTranspose3d(x, weight, bias, stride, padding, outputPadding, groups, dilation);
  }
}
