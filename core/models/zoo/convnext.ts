// convnext_tiny, convnext_small, convnext_base: torchvision's ConvNeXt, its names and initialisation.
import { add, uninitialised } from "../../../ffi/make.ts";
import { adaptiveAvgPool2d, flatten, gelu, mul, permute } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { type Block, block, type Model, model } from "../model.ts";
import { Conv2d } from "../nn/conv.ts";
import { fill, truncNormal } from "../nn/init.ts";
import { Linear } from "../nn/linear.ts";
import { Group, Module } from "../nn/module.ts";
import { LayerNorm } from "../nn/norms.ts";
import { UserError } from "../../base/errors.ts";
import { type Build, imageSizes } from "../builder.ts";

/** The blocks of each of the four stages, and the first one's channels, which double with each stage. */
const SHAPES = {
  convnext_tiny: { stages: [3, 3, 9, 3], width: 96 },
  convnext_small: { stages: [3, 3, 27, 3], width: 96 },
  convnext_base: { stages: [3, 3, 27, 3], width: 128 },
} as const;

export type ConvnextName = keyof typeof SHAPES;
export const CONVNEXTS = Object.keys(SHAPES) as ConvnextName[];

const EPS = 1e-6, LAYER_SCALE = 1e-6, STD = 0.02;
const LAST = [0, 2, 3, 1], FIRST = [0, 3, 1, 2], ONE = [1, 1];

/** A layer norm over the channels of images. */
const overChannels = (norm: LayerNorm, x: Tensor): Tensor => permute(norm.forward(permute(x, LAST)), FIRST);

class Residual extends Module {
  readonly #scale: Tensor;
  readonly #spatial: Conv2d;
  readonly #norm: LayerNorm;
  readonly #widen: Linear;
  readonly #narrow: Linear;

  constructor(width: number) {
    super();
    this.#spatial = new Conv2d(width, width, 7, { padding: 3, groups: width });
    this.#norm = new LayerNorm(width, { eps: EPS });
    this.#widen = new Linear(width, 4 * width);
    this.#narrow = new Linear(4 * width, width);
    this.#scale = this.parameter("layer_scale", fill(uninitialised([width, 1, 1]), LAYER_SCALE));
    const parts = { "0": this.#spatial, "2": this.#norm, "3": this.#widen, "5": this.#narrow };
    this.child("block", new Group(parts));
  }
  forward(x: Tensor): Tensor {
    const normal = this.#norm.forward(permute(this.#spatial.forward(x), LAST));
    const made = permute(this.#narrow.forward(gelu(this.#widen.forward(normal))), FIRST);
    return add(mul(this.#scale, made), x);
  }
}

interface ConvnextSizes {
  readonly channels: number;
  readonly outputs: number;
  /** Channels of the first stage; the model's own where it is absent. */
  readonly width?: number;
}

export function convnext(name: ConvnextName, { channels, outputs, width }: ConvnextSizes): Model {
  const { stages, width: own } = SHAPES[name], first = width ?? own;
  const root = new Group(), features = root.add("features", new Group()), blocks: Block[] = [];
  const stem = new Conv2d(channels, first, 4, { stride: 4 }), stemNorm = new LayerNorm(first, { eps: EPS });
  const stemParts = features.add(0, new Group({ "0": stem, "1": stemNorm }));
  blocks.push(block("stem", stemParts, (x) => overChannels(stemNorm, stem.forward(x))));
  stages.forEach((count, stage) => {
    const inner = first << stage;
    const layers = features.add(2 * stage + 1, new Group());
    for (let i = 0; i < count; i++) {
      const residual = layers.add(i, new Residual(inner));
      blocks.push(block(`features.${2 * stage + 1}.${i}`, residual, (x) => residual.forward(x)));
    }
    if (stage === stages.length - 1) return;
    const norm = new LayerNorm(inner, { eps: EPS }), halve = new Conv2d(inner, 2 * inner, 2, { stride: 2 });
    const parts = features.add(2 * stage + 2, new Group({ "0": norm, "1": halve }));
    blocks.push(block(`features.${2 * stage + 2}`, parts, (x) => halve.forward(overChannels(norm, x))));
  });
  const last = first << (stages.length - 1);
  const norm = new LayerNorm(last, { eps: EPS }), head = new Linear(last, outputs);
  const classifier = root.add("classifier", new Group({ "0": norm, "2": head }));
  blocks.push(
    block(
      "head",
      classifier,
      (x) => head.forward(flatten(overChannels(norm, adaptiveAvgPool2d(x, ONE)), 1)),
    ),
  );
  for (const m of root.modules()) {
    if (!(m instanceof Conv2d || m instanceof Linear)) continue;
    truncNormal(m.weight, STD);
    fill(m.bias!, 0);
  }
  return model(name, root, blocks, {
    layers: `${blocks.length - 5} blocks in stages of ${stages.join("-")}, ${first} channels wide at first`,
    convolutional: true,
  });
}

const convnextBuilder = (name: ConvnextName): Build => (settings, facts, outputs) => {
  const { channels, height, width } = imageSizes(settings, facts);
  if (Math.min(height, width) < LEAST_SIDE) {
    throw new UserError(
      "usage",
      `${name} makes images ${LEAST_SIDE} times smaller, and these are ${height} x ${width}: make them larger ` +
        `(--resize ${LEAST_SIDE} or more), or choose another --model.`,
    );
  }
  return convnext(name, { channels, outputs, ...(settings.width > 0 && { width: settings.width }) });
};

/** Pixels: four for the stem, and two for each of three stages. */
const LEAST_SIDE = 32;

export const models: Readonly<Record<string, Build>> = {
  convnext_tiny: convnextBuilder("convnext_tiny"),
  convnext_small: convnextBuilder("convnext_small"),
  convnext_base: convnextBuilder("convnext_base"),
};
