// nn.MaxPool, AvgPool and AdaptiveAvgPool in one, two and three dimensions. May import ffi, module, sizes.
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
} from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { Module } from "./module.ts";
import { perDimension, type Size } from "./sizes.ts";

type Dims = 1 | 2 | 3;

/** What windows of the largest value can be told. */
export interface MaxPoolOptions {
  /** The kernel's size unless given. */
  stride?: Size;
  /** Places around the input that count as minus infinity; 0 unless told. */
  padding?: Size;
  /** Places from one element of the window to the next; 1 unless told. */
  dilation?: Size;
  /** Whether a window that is not whole counts; false unless told. */
  ceilMode?: boolean;
}
/** What windows of means can be told. */
export interface AvgPoolOptions {
  /** Places from one window to the next; the window's size unless told. */
  stride?: Size;
  /** Zeros around the input; 0 unless told. */
  padding?: Size;
  /** Whether a window that is not whole counts; false unless told. */
  ceilMode?: boolean;
  /** Whether those zeros count in the mean; true unless told. */
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
