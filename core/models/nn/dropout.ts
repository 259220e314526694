// nn.Dropout. May import ffi, module.
import { dropout } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { Module } from "./module.ts";

/** In training, numbers become 0 with probability `p` and the others grow by 1 / (1 - p). */
export class Dropout extends Module {
  /** `p` is the share that is dropped. */
  constructor(readonly p = 0.5) {
    super();
  }
  /** Of any shape; in evaluation as it is. */
  forward(x: Tensor): Tensor {
    return this.training && this.p > 0 ? dropout(x, this.p, true) : x;
  }
}
