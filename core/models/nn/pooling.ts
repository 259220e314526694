// nn.MaxPool, AvgPool and AdaptiveAvgPool in one to three dimensions, and nn.Upsample.
import {
  adaptiveAvgPool1d,
  adaptiveAvgPool2d,
  adaptiveAvgPool3d,
  avgPool1d,
  avgPool2d,
  avgPool3d,
  maxPool1d,
  maxPool2d,
  maxPool3d,
  upsampleBilinear2d,
  upsampleLinear1d,
  upsampleNearest1d,
  upsampleNearest2d,
  upsampleNearest3d,
  upsampleTrilinear3d,
} from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { Module, perDimension, type Size } from "./module.ts";

type Dims = 1 | 2 | 3;

/** Options of windows of the largest value. */
export interface MaxPoolOptions {
  /** The kernel's size unless given. */
  stride?: Size;
  /** Places around the input that count as minus infinity; 0 by default. */
  padding?: Size;
  /** Places from one element of the window to the next; 1 by default. */
  dilation?: Size;
  /** Counts a window that is not whole; false by default. */
  ceilMode?: boolean;
}
/** Options of windows of means. */
export interface AvgPoolOptions {
  /** Places from one window to the next; the window's size by default. */
  stride?: Size;
  /** Zeros around the input; 0 by default. */
  padding?: Size;
  /** Counts a window that is not whole; false by default. */
  ceilMode?: boolean;
  /** Counts those zeros in the mean; true by default. */
  countIncludePad?: boolean;
}

const maxPools = { 1: maxPool1d, 2: maxPool2d, 3: maxPool3d };
const avgPools = { 1: avgPool1d, 2: avgPool2d, 3: avgPool3d };
const adaptivePools = { 1: adaptiveAvgPool1d, 2: adaptiveAvgPool2d, 3: adaptiveAvgPool3d };

/** new MaxPool(2, 3) is nn.MaxPool2d(3). */
export class MaxPool extends Module {
  readonly #pool: typeof maxPool2d;
  readonly #kernel: readonly number[];
  readonly #stride: readonly number[];
  readonly #padding: readonly number[];
  readonly #dilation: readonly number[];
  readonly #ceil: boolean;

  /** `dims` is 1, 2 or 3; one number stands for all sides. */
  constructor(dims: Dims, kernelSize: Size, options: MaxPoolOptions = {}) {
    super();
    this.#pool = maxPools[dims];
    this.#kernel = perDimension(kernelSize, dims);
    this.#stride = perDimension(options.stride ?? kernelSize, dims);
    this.#padding = perDimension(options.padding ?? 0, dims);
    this.#dilation = perDimension(options.dilation ?? 1, dims);
    this.#ceil = options.ceilMode ?? false;
  }
  /** (n, c, ...) -> (n, c, ...'), smaller. */
  forward(x: Tensor): Tensor {
    return this.#pool(x, this.#kernel, this.#stride, this.#padding, this.#dilation, this.#ceil);
  }
}

/** torch.nn.AvgPool1d, 2d and 3d: the mean of each window. */
export class AvgPool extends Module {
  readonly #pool: (...args: Parameters<typeof avgPool1d>) => Tensor;
  readonly #kernel: readonly number[];
  readonly #stride: readonly number[];
  readonly #padding: readonly number[];
  readonly #ceil: boolean;
  readonly #countPadding: boolean;

  /** `dims` is 1, 2 or 3; one number stands for all sides. */
  constructor(dims: Dims, kernelSize: Size, options: AvgPoolOptions = {}) {
    super();
    this.#pool = avgPools[dims];
    this.#kernel = perDimension(kernelSize, dims);
    this.#stride = perDimension(options.stride ?? kernelSize, dims);
    this.#padding = perDimension(options.padding ?? 0, dims);
    this.#ceil = options.ceilMode ?? false;
    this.#countPadding = options.countIncludePad ?? true;
  }
  /** (n, c, ...) -> (n, c, ...'), smaller. */
  forward(x: Tensor): Tensor {
    return this.#pool(x, this.#kernel, this.#stride, this.#padding, this.#ceil, this.#countPadding);
  }
}

/** torch.nn.AdaptiveAvgPool1d, 2d and 3d: means over windows that give the output this size. */
export class AdaptiveAvgPool extends Module {
  readonly #pool: typeof adaptiveAvgPool2d;
  readonly #size: readonly number[];

  /** `dims` is 1, 2 or 3; one number stands for all sides. */
  constructor(dims: Dims, outputSize: Size) {
    super();
    this.#pool = adaptivePools[dims];
    this.#size = perDimension(outputSize, dims);
  }
  /** (n, c, ...) -> (n, c, ...outputSize). */
  forward(x: Tensor): Tensor {
    return this.#pool(x, this.#size);
  }
}

const dimsOf = { nearest1d: 1, nearest2d: 2, nearest3d: 3, linear: 1, bilinear: 2, trilinear: 3 } as const;

/** How images are made larger. */
export interface UpsampleOptions {
  /** By how much, of all sides or of each. */
  scaleFactor: Size;
  /** PyTorch's modes; "nearest" says for how many dimensions. */
  mode: keyof typeof dimsOf;
  /** Leaves the corners' centres where they are; false by default. */
  alignCorners?: boolean;
}

/** torch.nn.Upsample: (n, c, ...) at sizes that are a multiple. */
export class Upsample extends Module {
  readonly #mode: UpsampleOptions["mode"];
  readonly #scale: readonly number[];
  readonly #align: boolean;
  // The size of one call's result, kept so that forward makes no list.
  readonly #size: number[];

  /** `mode` says what comes between the values. */
  constructor({ scaleFactor, mode, alignCorners }: UpsampleOptions) {
    super();
    this.#mode = mode;
    this.#scale = perDimension(scaleFactor, dimsOf[mode]);
    this.#align = alignCorners ?? false;
    this.#size = new Array(dimsOf[mode]).fill(0);
  }

  /** (n, c, ...) -> (n, c, ... times the factor). */
  forward(x: Tensor): Tensor {
    const size = this.#size, shape = x.shape, align = this.#align;
    const [a, b, c] = this.#scale;
    for (let i = 0; i < size.length; i++) size[i] = Math.floor(shape[i + 2] * this.#scale[i]);
    switch (this.#mode) {
      case "nearest1d":
        return upsampleNearest1d(x, size, a);
      case "nearest2d":
        return upsampleNearest2d(x, size, a, b);
      case "nearest3d":
        return upsampleNearest3d(x, size, a, b, c);
      case "linear":
        return upsampleLinear1d(x, size, align, a);
      case "bilinear":
        return upsampleBilinear2d(x, size, align, a, b);
      case "trilinear":
        return upsampleTrilinear3d(x, size, align, a, b, c);
    }
  }
}

// The names of PyTorch, where the number of dimensions is a part of them.

/** torch.nn.MaxPool1d: the largest value of each window. */
export class MaxPool1d extends MaxPool {
  /** One number stands for all sides. */
  constructor(kernelSize: Size, options: MaxPoolOptions = {}) {
    super(1, kernelSize, options);
  }
}

/** torch.nn.MaxPool2d: the largest value of each window. */
export class MaxPool2d extends MaxPool {
  /** One number stands for all sides. */
  constructor(kernelSize: Size, options: MaxPoolOptions = {}) {
    super(2, kernelSize, options);
  }
}

/** torch.nn.MaxPool3d: the largest value of each window. */
export class MaxPool3d extends MaxPool {
  /** One number stands for all sides. */
  constructor(kernelSize: Size, options: MaxPoolOptions = {}) {
    super(3, kernelSize, options);
  }
}

/** torch.nn.AvgPool1d: the mean of each window. */
export class AvgPool1d extends AvgPool {
  /** One number stands for all sides. */
  constructor(kernelSize: Size, options: AvgPoolOptions = {}) {
    super(1, kernelSize, options);
  }
}

/** torch.nn.AvgPool2d: the mean of each window. */
export class AvgPool2d extends AvgPool {
  /** One number stands for all sides. */
  constructor(kernelSize: Size, options: AvgPoolOptions = {}) {
    super(2, kernelSize, options);
  }
}

/** torch.nn.AvgPool3d: the mean of each window. */
export class AvgPool3d extends AvgPool {
  /** One number stands for all sides. */
  constructor(kernelSize: Size, options: AvgPoolOptions = {}) {
    super(3, kernelSize, options);
  }
}

/** torch.nn.AdaptiveAvgPool1d: means over windows that give the output this size. */
export class AdaptiveAvgPool1d extends AdaptiveAvgPool {
  /** One number stands for all sides. */
  constructor(outputSize: Size) {
    super(1, outputSize);
  }
}

/** torch.nn.AdaptiveAvgPool2d: means over windows that give the output this size. */
export class AdaptiveAvgPool2d extends AdaptiveAvgPool {
  /** One number stands for all sides. */
  constructor(outputSize: Size) {
    super(2, outputSize);
  }
}

/** torch.nn.AdaptiveAvgPool3d: means over windows that give the output this size. */
export class AdaptiveAvgPool3d extends AdaptiveAvgPool {
  /** One number stands for all sides. */
  constructor(outputSize: Size) {
    super(3, outputSize);
  }
}
