// Stochastic depth (Huang et al. 2016): a residual branch is left out of some samples while training.
import { ones } from "../../../ffi/make.ts";
import { dropout, mul } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { Module } from "./module.ts";

/** torchvision's, in its mode "row": kept samples grow by 1 / (1 - p). */
export class StochasticDepth extends Module {
  /** The share of samples that go without. */
  constructor(readonly p: number) {
    super();
  }
  /** Takes what a branch gives, samples first; in evaluation it stays as it is. */
  forward(branch: Tensor): Tensor {
    if (!this.training || this.p === 0) return branch;
    const { shape, dtype, device } = branch;
    const kept = ones(shape.map((size, i) => i === 0 ? size : 1), { dtype, device });
    return mul(branch, dropout(kept, this.p, true));
  }
}

/** The share grows evenly from the first block, which has 0, to the last. */
export const depthAt = (share: number, block: number, blocks: number): number =>
  blocks > 1 ? share * block / (blocks - 1) : share;
