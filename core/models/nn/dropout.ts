// nn.Dropout. May import ffi, module.
import { dropout } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { Module } from "./module.ts";

export class Dropout extends Module {
  constructor(readonly p = 0.5) {
    super();
  }
  forward(x: Tensor): Tensor {
    return this.training && this.p > 0 ? dropout(x, this.p, true) : x;
  }
}
