// gpt: GPT-2's shape with nanoGPT's names and initialisation; the output layer shares the token embedding.
import type { Attends } from "../../../ffi/attention.ts";
import { add } from "../../../ffi/make.ts";
import {
  gelu,
  narrow,
  reshape,
  scaledDotProductAttention,
  split,
  transpose,
  view,
} from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { block, type Model, model } from "../model.ts";
import { Dropout, Embedding, Linear } from "../nn/linear.ts";
import { fill, normal } from "../nn/init.ts";
import { Group, Module } from "../nn/module.ts";
import { depthAt, StochasticDepth } from "../nn/stochastic_depth.ts";
import { LayerNorm } from "../nn/norms.ts";
import { atLeast, attentionSizes, type Build, ownDropout, refuseData } from "../builder.ts";

interface GptSizes {
  readonly vocabulary: number;
  /** This is the longest sequence, in tokens. */
  readonly context: number;
  readonly layers: number;
  readonly heads: number;
  readonly embed: number;
  readonly dropout?: number;
  /** Branches of the last layer are left out of this share of the samples, those of earlier ones of less. */
  readonly stochasticDepth?: number;
  readonly bias?: boolean;
  /** Without it each token sees those behind it, too. */
  readonly causal?: boolean;
}

class Attention extends Module {
  readonly attend: Linear;
  readonly project: Linear;
  readonly attends: Attends;
  readonly #drop: Dropout;
  readonly #embed: number;
  // Forward uses these shapes of one call again, so that it makes no lists: [batch, tokens, heads, width] and
  // [batch, tokens, embed].
  readonly #perHead: number[];
  readonly #joined: number[];

  constructor({ embed, heads, dropout = 0, bias = true, causal = true }: GptSizes) {
    super();
    this.attend = this.child("c_attn", new Linear(embed, 3 * embed, { bias }));
    this.project = this.child("c_proj", new Linear(embed, embed, { bias }));
    this.#drop = this.child("resid_dropout", new Dropout(dropout));
    this.attends = { heads, width: embed / heads, causal, dropout };
    this.#embed = embed;
    this.#perHead = [0, 0, heads, embed / heads];
    this.#joined = [0, 0, embed];
  }

  forward(x: Tensor): Tensor {
    const shape = x.shape;
    this.#perHead[0] = this.#joined[0] = shape[0];
    this.#perHead[1] = this.#joined[1] = shape[1];
    const parts = split(this.attend.forward(x), this.#embed, 2);
    const q = transpose(view(parts[0], this.#perHead), 1, 2);
    const k = transpose(view(parts[1], this.#perHead), 1, 2);
    const v = transpose(view(parts[2], this.#perHead), 1, 2);
    const y = scaledDotProductAttention(q, k, v, null, this.training ? this.#drop.p : 0, this.attends.causal);
    return this.#drop.forward(this.project.forward(reshape(transpose(y, 1, 2), this.#joined)));
  }
}

class Mlp extends Module {
  readonly widen: Linear;
  readonly project: Linear;
  readonly #drop: Dropout;

  constructor({ embed, dropout = 0, bias = true }: GptSizes) {
    super();
    this.widen = this.child("c_fc", new Linear(embed, 4 * embed, { bias }));
    this.project = this.child("c_proj", new Linear(4 * embed, embed, { bias }));
    this.#drop = this.child("dropout", new Dropout(dropout));
  }
  forward(x: Tensor): Tensor {
    return this.#drop.forward(this.project.forward(gelu(this.widen.forward(x), "tanh")));
  }
}

class Layer extends Module {
  readonly attention: Attention;
  readonly mlp: Mlp;
  readonly #norm1: LayerNorm;
  readonly #norm2: LayerNorm;
  readonly #depth: StochasticDepth;

  constructor(sizes: GptSizes, layer: number) {
    super();
    const bias = sizes.bias;
    this.#norm1 = this.child("ln_1", new LayerNorm(sizes.embed, { bias }));
    this.attention = this.child("attn", new Attention(sizes));
    this.#norm2 = this.child("ln_2", new LayerNorm(sizes.embed, { bias }));
    this.mlp = this.child("mlp", new Mlp(sizes));
    const leftOut = depthAt(sizes.stochasticDepth ?? 0, layer, sizes.layers);
    this.#depth = this.child("stochastic_depth", new StochasticDepth(leftOut));
  }
  forward(x: Tensor): Tensor {
    x = add(x, this.#depth.forward(this.attention.forward(this.#norm1.forward(x))));
    return add(x, this.#depth.forward(this.mlp.forward(this.#norm2.forward(x))));
  }
}

export function gpt(sizes: GptSizes): Model {
  const { vocabulary, context, embed, bias, layers: depth } = sizes;
  const root = new Group();
  const transformer = root.add("transformer", new Group());
  const tokens = transformer.add("wte", new Embedding(vocabulary, embed));
  const positions = transformer.add("wpe", new Embedding(context, embed));
  const drop = transformer.add("drop", new Dropout(sizes.dropout ?? 0));
  const h = transformer.add("h", new Group());
  const layers = Array.from({ length: depth }, (_, i) => h.add(i, new Layer(sizes, i)));
  const norm = transformer.add("ln_f", new LayerNorm(embed, { bias }));
  const head = root.add("lm_head", new Linear(embed, vocabulary, { bias: false }));
  head.tie(tokens.weight);
  initialise(root, layers);

  const embedded = (x: Tensor) =>
    drop.forward(add(tokens.forward(x), narrow(positions.weight, 0, 0, x.shape[1])));
  const parts = {
    hidden: (x: Tensor) => norm.forward(x),
    logits: (hidden: Tensor) => head.forward(hidden),
  };
  const blocks = [
    block("embedding", new Group({ wte: tokens, wpe: positions, drop }), embedded),
    ...layers.map((layer, i) => block(`layer ${i}`, layer, (x) => layer.forward(x))),
    block(
      "head",
      new Group({ ln_f: norm, lm_head: head }),
      (x) => parts.logits(parts.hidden(x)),
    ),
  ];
  const shape = `${depth} layers, ${embed} wide, ${sizes.heads} heads, context ${context}`;
  return { ...model("gpt", root, blocks, { layers: shape, head: parts }), noDecay: ["ndim<2"] };
}

/**
 * nanoGPT draws from a normal of 0.02, smaller where a layer adds to the residual stream. The tied weight is
 * drawn twice.
 */
function initialise(root: Module, layers: readonly Layer[]): void {
  for (const m of root.modules()) {
    if (!(m instanceof Linear || m instanceof Embedding)) continue;
    normal(m.weight, 0, 0.02);
    if (m instanceof Linear && m.bias !== null) fill(m.bias, 0);
  }
  const std = 0.02 / Math.sqrt(2 * layers.length);
  for (const layer of layers) {
    normal(layer.attention.project.weight, 0, std);
    normal(layer.mlp.project.weight, 0, std);
  }
}

export const models: Readonly<Record<string, Build>> = {
  gpt(settings, facts, outputs) {
    if (facts.task !== "language") refuseData("gpt", facts, "sequences of tokens");
    return gpt({
      vocabulary: atLeast("vocab_size", settings.vocab_size, outputs, "tokens in its vocabulary"),
      context: atLeast("context", settings.context, facts.input.shape[0], "tokens in a sequence"),
      layers: settings.layers,
      ...attentionSizes(settings),
      dropout: ownDropout(settings),
      stochasticDepth: settings.stochastic_depth,
      bias: settings.bias,
      causal: !facts.masked,
    });
  },
};
