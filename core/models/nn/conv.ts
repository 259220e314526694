// nn.Conv1d to Conv3d and nn.ConvTranspose1d to ConvTranspose3d.
import { uninitialised } from "../../../ffi/make.ts";
import {
  conv1d,
  conv2d,
  conv3d,
  convTranspose1d,
  convTranspose2d,
  convTranspose3d,
} from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { biasUniform, kaimingUniform } from "./init.ts";
import { Adaptable, Module, perDimension, type Size } from "./module.ts";
import { padder, type PaddingMode } from "./padding.ts";

/** Options of convolutions. */
export interface ConvOptions {
  /** Places from one window to the next; 1 by default. */
  stride?: Size;
  /** Places around the input on each side; 0 by default. */
  padding?: Size;
  /** Those places hold this, as PyTorch's padding_mode says; "zeros" by default. */
  paddingMode?: PaddingMode;
  /** Places from one weight of the kernel to the next; 1 by default. */
  dilation?: Size;
  /** Groups of channels that don't see each other; 1 by default. */
  groups?: number;
  /** Adds a number to each output channel; true by default. */
  bias?: boolean;
}

abstract class Conv extends Adaptable {
  readonly weight: Tensor;
  readonly bias: Tensor | null;
  protected readonly stride: readonly number[];
  protected readonly padding: readonly number[];
  protected readonly dilation: readonly number[];
  protected readonly groups: number;
  readonly #pad: ((x: Tensor) => Tensor) | null;

  /** @internal */
  readonly options: ConvOptions;

  constructor(dims: number, inChannels: number, outChannels: number, kernelSize: Size, o: ConvOptions) {
    super();
    this.options = o;
    this.stride = perDimension(o.stride ?? 1, dims);
    const padding = perDimension(o.padding ?? 0, dims), mode = o.paddingMode ?? "zeros";
    const own = mode !== "zeros" && padding.some((size) => size > 0); // the convolution itself knows zeros alone
    this.#pad = own ? padder([...padding].reverse().flatMap((size) => [size, size]), mode) : null;
    this.padding = own ? perDimension(0, dims) : padding;
    this.dilation = perDimension(o.dilation ?? 1, dims);
    this.groups = o.groups ?? 1;
    const shape = [outChannels, inChannels / this.groups, ...perDimension(kernelSize, dims)];
    this.weight = this.parameter("weight", kaimingUniform(uninitialised(shape)));
    this.bias = o.bias === false
      ? null
      : this.parameter("bias", biasUniform(uninitialised([outChannels]), this.weight));
  }

  protected padded(x: Tensor): Tensor {
    return this.#pad === null ? x : this.#pad(x);
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
    const { weight, bias, stride, padding, dilation, groups } = this;
    return this.adapted(conv1d(this.padded(x), weight, bias, stride, padding, dilation, groups), x);
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
    const { weight, bias, stride, padding, dilation, groups } = this;
    return this.adapted(conv2d(this.padded(x), weight, bias, stride, padding, dilation, groups), x);
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
    const { weight, bias, stride, padding, dilation, groups } = this;
    return this.adapted(conv3d(this.padded(x), weight, bias, stride, padding, dilation, groups), x);
  }
}

/** Options of transposed convolutions. */
export interface ConvTransposeOptions extends Omit<ConvOptions, "paddingMode"> {
  /** Places added to one side of the output, where several sizes would fit; 0 by default. */
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
