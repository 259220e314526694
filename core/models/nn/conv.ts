// nn.Conv1d, Conv2d, Conv3d. May import ffi, init, module, sizes.
import { uninitialised } from "../../../ffi/make.ts";
import { conv1d, conv2d, conv3d } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { biasUniform, kaimingUniform } from "./init.ts";
import { Module } from "./module.ts";
import { perDimension, type Size } from "./sizes.ts";

export interface ConvOptions {
  stride?: Size;
  padding?: Size;
  dilation?: Size;
  groups?: number;
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

export class Conv1d extends Conv {
  constructor(inChannels: number, outChannels: number, kernelSize: Size, options: ConvOptions = {}) {
    super(1, inChannels, outChannels, kernelSize, options);
  }
  forward(x: Tensor): Tensor {
    return conv1d(x, this.weight, this.bias, this.stride, this.padding, this.dilation, this.groups);
  }
}

export class Conv2d extends Conv {
  constructor(inChannels: number, outChannels: number, kernelSize: Size, options: ConvOptions = {}) {
    super(2, inChannels, outChannels, kernelSize, options);
  }
  forward(x: Tensor): Tensor {
    return conv2d(x, this.weight, this.bias, this.stride, this.padding, this.dilation, this.groups);
  }
}

export class Conv3d extends Conv {
  constructor(inChannels: number, outChannels: number, kernelSize: Size, options: ConvOptions = {}) {
    super(3, inChannels, outChannels, kernelSize, options);
  }
  forward(x: Tensor): Tensor {
    return conv3d(x, this.weight, this.bias, this.stride, this.padding, this.dilation, this.groups);
  }
}
