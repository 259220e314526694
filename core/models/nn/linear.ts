// nn.Linear, nn.Embedding and nn.Dropout.
import { uninitialised } from "../../../ffi/make.ts";
import { dropout, embedding, linear, select } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { biasUniform, fill, kaimingUniform, normal } from "./init.ts";
import { Adaptable, Module } from "./module.ts";

/** torch.nn.Linear: x times the transposed weight, and the bias. */
export class Linear extends Adaptable {
  /** (outFeatures, inFeatures). */
  weight: Tensor;
  /** (outFeatures), or null. */
  readonly bias: Tensor | null;

  /** Weights are drawn as PyTorch draws them; `bias` is true by default. */
  constructor(inFeatures: number, outFeatures: number, options: { bias?: boolean } = {}) {
    super();
    this.weight = this.parameter("weight", kaimingUniform(uninitialised([outFeatures, inFeatures])));
    this.bias = options.bias === false
      ? null
      : this.parameter("bias", biasUniform(uninitialised([outFeatures]), this.weight));
  }

  /** Uses another module's weight, e.g. an embedding's. */
  tie(weight: Tensor): void {
    this.weight = this.share("weight", weight);
  }

  /** (..., inFeatures) -> (..., outFeatures). */
  forward(x: Tensor): Tensor {
    return this.adapted(linear(x, this.weight, this.bias), x);
  }
}

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

/** In training, numbers become 0 with probability `p` and the others grow by 1 / (1 - p). */
export class Dropout extends Module {
  /** `p` is the share that is dropped. */
  constructor(readonly p = 0.5) {
    super();
  }
  /** Takes any shape; in evaluation it gives its input. */
  forward(x: Tensor): Tensor {
    return this.training && this.p > 0 ? dropout(x, this.p, true) : x;
  }
}
