// nn.Conv1d, Conv2d, Conv3d. May import ffi, init, module, sizes.
import { uninitialised } from "../../../ffi/make.ts";
import { conv1d, conv2d, conv3d } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { biasUniform, kaimingUniform } from "./init.ts";
import { Module } from "./module.ts";
import { perDimension, type Size } from "./sizes.ts";

/** What convolutions can be told. */
export interface ConvOptions {
  /** Places from one window to the next; 1 unless told. */
  stride?: Size;
  /** Zeros around the input on each side; 0 unless told. */
  padding?: Size;
  /** Places from one weight of the kernel to the next; 1 unless told. */
  dilation?: Size;
  /** Groups of channels that don't see each other; 1 unless told. */
  groups?: number;
  /** Whether a number is added to each output channel; true unless told. */
  bias?: boolean;
}

abstract class Conv extends Module {
  readonly weight: Tensor;
  readonly bias: Tensor | null;
  protected readonly stride: readonly number[];
  protected readonly padding: readonly number[];
  protected readonly dilation: readonly number[];
  protected readonly groups: number;

  constructor(dims: number, inChannels: number, outChannels: number, kernelSize: Size, o: ConvOptions) {
    super();
    this.stride = perDimension(o.stride ?? 1, dims);
    this.padding = perDimension(o.padding ?? 0, dims);
    this.dilation = perDimension(o.dilation ?? 1, dims);
    this.groups = o.groups ?? 1;
    const shape = [outChannels, inChannels / this.groups, ...perDimension(kernelSize, dims)];
    this.weight = this.parameter("weight", kaimingUniform(uninitialised(shape)));
    this.bias = o.bias === false
      ? null
      : this.parameter("bias", biasUniform(uninitialised([outChannels]), this.weight));
  }
}

/** torch.nn.Conv1d, over (n, channels, l). */
export class Conv1d extends Conv {
  /** `kernelSize` is the window's length. */
  constructor(inChannels: number, outChannels: number, kernelSize: Size, options: ConvOptions = {}) {
    super(1, inChannels, outChannels, kernelSize, options);
  }
  /** (n, in, l) -> (n, out, l'). */
  forward(x: Tensor): Tensor {
    return conv1d(x, this.weight, this.bias, this.stride, this.padding, this.dilation, this.groups);
  }
}

/** torch.nn.Conv2d, over (n, channels, h, w). */
export class Conv2d extends Conv {
  /** `kernelSize` is the window's side, or its height and width. */
  constructor(inChannels: number, outChannels: number, kernelSize: Size, options: ConvOptions = {}) {
    super(2, inChannels, outChannels, kernelSize, options);
  }
  /** (n, in, h, w) -> (n, out, h', w'). */
  forward(x: Tensor): Tensor {
    return conv2d(x, this.weight, this.bias, this.stride, this.padding, this.dilation, this.groups);
  }
}

/** torch.nn.Conv3d, over (n, channels, d, h, w). */
export class Conv3d extends Conv {
  /** `kernelSize` is the window's side, or its three sides. */
  constructor(inChannels: number, outChannels: number, kernelSize: Size, options: ConvOptions = {}) {
    super(3, inChannels, outChannels, kernelSize, options);
  }
  /** (n, in, d, h, w) -> (n, out, d', h', w'). */
  forward(x: Tensor): Tensor {
    return conv3d(x, this.weight, this.bias, this.stride, this.padding, this.dilation, this.groups);
  }
}
