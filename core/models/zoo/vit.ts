// vit: torchvision's VisionTransformer, its names and initialisation, for images of any sides.
import { add, uninitialised, zeros } from "../../../ffi/make.ts";
import { cat, expand, gelu, permute, reshape, select } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { block, type Model, model } from "../model.ts";
import { MultiheadAttention } from "../nn/attention.ts";
import { Conv2d } from "../nn/conv.ts";
import { Dropout, Linear } from "../nn/linear.ts";
import { fans, fill, normal, truncNormal, xavierUniform } from "../nn/init.ts";
import { Group, Module } from "../nn/module.ts";
import { depthAt, StochasticDepth } from "../nn/stochastic_depth.ts";
import { LayerNorm } from "../nn/norms.ts";
import { frameAround, padder, type PaddingMode } from "../nn/padding.ts";
import { UserError } from "../../base/errors.ts";
import { attentionSizes, type Build, imageSizes, ownDropout } from "../builder.ts";

interface VitSizes {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
  readonly patch: number;
  /** Images whose sides are no multiples of a patch are padded so. */
  readonly padding?: PaddingMode;
  readonly layers: number;
  readonly heads: number;
  readonly embed: number;
  readonly outputs: number;
  readonly dropout?: number;
  /** Branches of the last layer are left out of this share of the samples, those of earlier ones of less. */
  readonly stochasticDepth?: number;
}

const EPS = 1e-6;
const CHANNELS_LAST = [0, 2, 1];

class Mlp extends Module {
  readonly #widen: Linear;
  readonly #narrow: Linear;
  readonly #drop: Dropout;

  constructor({ embed, dropout = 0 }: VitSizes) {
    super();
    this.#widen = this.child("0", new Linear(embed, 4 * embed));
    this.#narrow = this.child("3", new Linear(4 * embed, embed));
    this.#drop = this.child("dropout", new Dropout(dropout));
    for (const { weight, bias } of [this.#widen, this.#narrow]) {
      xavierUniform(weight);
      normal(bias!, 0, 1e-6);
    }
  }
  forward(x: Tensor): Tensor {
    x = this.#drop.forward(gelu(this.#widen.forward(x)));
    return this.#drop.forward(this.#narrow.forward(x));
  }
}

class Layer extends Module {
  readonly #norm1: LayerNorm;
  readonly #attention: MultiheadAttention;
  readonly #drop: Dropout;
  readonly #norm2: LayerNorm;
  readonly #mlp: Mlp;
  readonly #depth: StochasticDepth;

  constructor(sizes: VitSizes, layer: number) {
    super();
    this.#norm1 = this.child("ln_1", new LayerNorm(sizes.embed, { eps: EPS }));
    this.#attention = this.child("self_attention", new MultiheadAttention(sizes.embed, sizes.heads));
    this.#drop = this.child("dropout", new Dropout(sizes.dropout ?? 0));
    this.#norm2 = this.child("ln_2", new LayerNorm(sizes.embed, { eps: EPS }));
    this.#mlp = this.child("mlp", new Mlp(sizes));
    const leftOut = depthAt(sizes.stochasticDepth ?? 0, layer, sizes.layers);
    this.#depth = this.child("stochastic_depth", new StochasticDepth(leftOut));
  }
  forward(x: Tensor): Tensor {
    x = add(this.#depth.forward(this.#drop.forward(this.#attention.forward(this.#norm1.forward(x)))), x);
    return add(x, this.#depth.forward(this.#mlp.forward(this.#norm2.forward(x))));
  }
}

/** The tokens are patches through a convolution, the class token and the positions. */
class Tokens extends Module {
  readonly first: Tensor;
  readonly patches: Conv2d;
  readonly positions: Tensor;
  readonly drop: Dropout;
  readonly grid: { readonly rows: number; readonly columns: number };
  readonly #sequence: number[];
  readonly #firsts: number[];
  readonly #pad: ((x: Tensor) => Tensor) | null;

  constructor({ channels, height, width, patch, embed, dropout = 0, padding = "zeros" }: VitSizes) {
    super();
    this.grid = { rows: Math.ceil(height / patch), columns: Math.ceil(width / patch) };
    const count = this.grid.rows * this.grid.columns;
    const { sizes } = frameAround([height, width], patch);
    this.#pad = sizes && padder(sizes, padding);
    this.first = this.parameter("class_token", zeros([1, 1, embed]));
    this.patches = this.child("conv_proj", new Conv2d(channels, embed, patch, { stride: patch }));
    this.positions = this.parameter("pos_embedding", normal(uninitialised([1, count + 1, embed]), 0, 0.02));
    this.drop = this.child("dropout", new Dropout(dropout));
    this.#sequence = [0, embed, count];
    this.#firsts = [0, -1, -1];
  }
  forward(x: Tensor): Tensor {
    this.#sequence[0] = this.#firsts[0] = x.shape[0];
    const whole = this.#pad === null ? x : this.#pad(x);
    const patches = permute(reshape(this.patches.forward(whole), this.#sequence), CHANNELS_LAST);
    const tokens = cat([expand(this.first, this.#firsts), patches], 1);
    return this.drop.forward(add(tokens, this.positions));
  }
}

/** The tree gives torchvision's names to the parts. */
class Encoder extends Group {
  constructor(tokens: Tokens, layers: Group, norm: LayerNorm) {
    super();
    this.parameter("pos_embedding", tokens.positions);
    this.add("dropout", tokens.drop);
    this.add("layers", layers);
    this.add("ln", norm);
  }
}
class Root extends Group {
  constructor(tokens: Tokens, encoder: Encoder, head: Linear) {
    super();
    this.parameter("class_token", tokens.first);
    this.add("conv_proj", tokens.patches);
    this.add("encoder", encoder);
    this.add("heads", new Group({ head }));
  }
}

export function vit(sizes: VitSizes): Model {
  const tokens = new Tokens(sizes);
  const layers = Array.from({ length: sizes.layers }, (_, i) => new Layer(sizes, i));
  const named = new Group(Object.fromEntries(layers.map((layer, i) => [`encoder_layer_${i}`, layer])));
  const norm = new LayerNorm(sizes.embed, { eps: EPS });
  const head = new Linear(sizes.embed, sizes.outputs);
  const { weight, bias } = tokens.patches;
  truncNormal(weight, Math.sqrt(1 / fans(weight).fanIn));
  fill(bias!, 0);
  fill(head.weight, 0);
  fill(head.bias!, 0);

  const root = new Root(tokens, new Encoder(tokens, named, norm), head);
  const blocks = [
    block("tokens", tokens, (x) => tokens.forward(x)),
    ...layers.map((layer, i) => block(`layer ${i}`, layer, (x) => layer.forward(x))),
    block("head", new Group({ norm, head }), (x) => head.forward(select(norm.forward(x), 1, 0))),
  ];
  const made = model("vit", root, blocks, {
    layers: `${sizes.layers} layers, ${sizes.embed} wide, ${sizes.heads} heads, patches of ${sizes.patch}`,
  });
  return {
    ...made,
    noDecay: ["ndim<2"],
    positions: { name: "encoder.pos_embedding", ...tokens.grid, others: 1 },
  };
}

/** So many patches of one pixel each are too many to attend to. */
const MANY_PIXELS = 4096;

/** A setting of 0 takes the largest side that leaves at least 16 patches; images are padded to whole patches. */
function patchSize(setting: number, height: number, width: number): number {
  const divides = (side: number) => height % side === 0 && width % side === 0;
  const enough = (side: number) => height * width >= 16 * side * side;
  if (setting === 0) {
    const fitting = [16, 8, 4, 2].find((side) => divides(side) && enough(side));
    return fitting ?? (height * width > MANY_PIXELS ? 16 : 1);
  }
  if (setting > Math.min(height, width)) {
    throw new UserError(
      "usage",
      `model.patch_size ${setting} is larger than images of ${height} x ${width}: ` +
        `set --patch-size to ${Math.min(height, width)} or less, or leave it out.`,
    );
  }
  return setting;
}

export const models: Readonly<Record<string, Build>> = {
  vit(settings, facts, outputs) {
    const { channels, height, width } = imageSizes(settings, facts);
    return vit({
      channels,
      height,
      width,
      patch: patchSize(settings.patch_size, height, width),
      layers: settings.layers,
      ...attentionSizes(settings),
      outputs,
      dropout: ownDropout(settings),
      stochasticDepth: settings.stochastic_depth,
      padding: settings.padding,
    });
  },
};
