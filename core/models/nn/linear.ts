// nn.Linear, nn.Embedding and nn.Dropout.
import { ones, uninitialised } from "../../../ffi/make.ts";
import { dropout, embedding, linear, mul, select } from "../../../ffi/ops.ts";
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

/** In training, whole channels become 0 with probability `p`, sample by sample, and the others grow by 1 / (1 - p). */
export class ChannelDropout extends Dropout {
  /** Takes (n, channels, ...); in evaluation it gives its input. */
  override forward(x: Tensor): Tensor {
    if (!this.training || this.p === 0) return x;
    const { dtype, device } = x, [n, channels, ...sides] = x.shape;
    return mul(x, dropout(ones([n, channels, ...sides.map(() => 1)], { dtype, device }), this.p, true));
  }
}
/** torch.nn.Dropout1d: of (n, channels, length). */
export class Dropout1d extends ChannelDropout {}
/** torch.nn.Dropout2d: of (n, channels, height, width). */
export class Dropout2d extends ChannelDropout {}
/** torch.nn.Dropout3d: of (n, channels, depth, height, width). */
export class Dropout3d extends ChannelDropout {}
