// nn.Embedding. May import ffi, init, module.
import { uninitialised } from "../../../ffi/make.ts";
import { embedding, select } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { fill, normal } from "./init.ts";
import { Module } from "./module.ts";

/** A learnt row for each token or class. */
export class Embedding extends Module {
  /** (rows, width). */
  readonly weight: Tensor;
  readonly #padding: number;

  /** The row `paddingIdx` is zero and gets no gradient. */
  constructor(numEmbeddings: number, embeddingDim: number, options: { paddingIdx?: number } = {}) {
    super();
    const weight = normal(uninitialised([numEmbeddings, embeddingDim]), 0, 1);
    this.#padding = options.paddingIdx ?? -1;
    if (this.#padding >= 0) scope(() => void fill(select(weight, 0, this.#padding), 0));
    this.weight = this.parameter("weight", weight);
  }
  /** (...) of numbers of rows -> (..., width). */
  forward(indices: Tensor): Tensor {
    return embedding(this.weight, indices, this.#padding);
  }
}
