// nn.MultiheadAttention(batch_first=True) of a sequence over itself, without attention weights as a result.
import type { Attends } from "../../../ffi/attention.ts";
import { uninitialised, zeros } from "../../../ffi/make.ts";
import {
  contiguous,
  linear,
  permute,
  scaledDotProductAttention,
  select,
  squeeze,
  transpose,
  unsqueeze,
  view,
} from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { fill, xavierUniform } from "./init.ts";
import { Linear } from "./linear.ts";
import { Adaptable } from "./module.ts";

const TOKENS_FIRST = [2, 0, 1, 3];

/** torch.nn.MultiheadAttention: several attentions beside each other, over (n, l, embedDim). */
export class MultiheadAttention extends Adaptable {
  readonly #weight: Tensor;
  readonly #bias: Tensor | null = null;
  readonly #project: Linear;
  /** Share of attention weights dropped while training. */
  readonly p: number;
  readonly #causal: boolean;
  /** @internal */
  readonly attends: Attends;
  // Forward uses these shapes of one call again, so that it makes no lists.
  readonly #packed: number[];
  readonly #perHead: number[];
  readonly #split: number[];
  readonly #rows: number[];
  readonly #joined: number[];

  /** `numHeads` divides `embedDim`. */
  constructor(
    embedDim: number,
    numHeads: number,
    options: { dropout?: number; bias?: boolean; causal?: boolean } = {},
  ) {
    super();
    const { bias = true } = options;
    this.p = options.dropout ?? 0;
    this.#causal = options.causal ?? false;
    this.#weight = this.parameter("in_proj_weight", uninitialised([3 * embedDim, embedDim]));
    if (bias) this.#bias = this.parameter("in_proj_bias", zeros([3 * embedDim]));
    this.#project = this.child("out_proj", new Linear(embedDim, embedDim, { bias }));
    xavierUniform(this.#weight);
    if (this.#project.bias !== null) fill(this.#project.bias, 0);
    const width = embedDim / numHeads;
    this.attends = { heads: numHeads, width, causal: this.#causal, dropout: this.p };
    this.#packed = [0, 0, 3, embedDim];
    this.#perHead = [0, 0, width];
    this.#split = [0, numHeads, 0, width];
    this.#rows = [0, embedDim];
    this.#joined = [0, 0, embedDim];
  }

  /** x is [batch, tokens, embed]. PyTorch's order of views, so that sums run in its order too. */
  forward(x: Tensor): Tensor {
    const shape = x.shape, batch = shape[0], tokens = shape[1];
    this.#packed[0] =
      this.#perHead[0] =
      this.#split[2] =
      this.#joined[0] =
        tokens;
    this.#packed[1] = this.#split[0] = this.#joined[1] = batch;
    this.#perHead[1] = batch * this.#split[1];
    this.#rows[0] = batch * tokens;
    const first = transpose(x, 0, 1);
    const flat = view(this.adapted(linear(first, this.#weight, this.#bias), first), this.#packed);
    const packed = contiguous(squeeze(transpose(unsqueeze(flat, 0), 0, -2), -2));
    const y = scaledDotProductAttention(
      this.#head(packed, 0),
      this.#head(packed, 1),
      this.#head(packed, 2),
      null,
      this.training ? this.p : 0,
      this.#causal,
    );
    const rows = view(contiguous(permute(y, TOKENS_FIRST)), this.#rows);
    return transpose(view(this.#project.forward(rows), this.#joined), 0, 1);
  }

  /** `which` is queries (0), keys (1) or values (2). The result is [batch, heads, tokens, width]. */
  #head(packed: Tensor, which: number): Tensor {
    return view(transpose(view(select(packed, 0, which), this.#perHead), 0, 1), this.#split);
  }
}
