// nn.Upsample: nearest, linear, bilinear, trilinear. May import ffi, module, sizes.
import {
  upsampleBilinear2d,
  upsampleLinear1d,
  upsampleNearest1d,
  upsampleNearest2d,
  upsampleNearest3d,
  upsampleTrilinear3d,
} from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { Module } from "./module.ts";
import { perDimension, type Size } from "./sizes.ts";

const dimsOf = { nearest1d: 1, nearest2d: 2, nearest3d: 3, linear: 1, bilinear: 2, trilinear: 3 } as const;

/** How images are made larger. */
export interface UpsampleOptions {
  /** By how much, of all sides or of each. */
  scaleFactor: Size;
  /** PyTorch's modes; "nearest" says for how many dimensions. */
  mode: keyof typeof dimsOf;
  /** Whether the corners' centres stay where they are; false unless told. */
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
