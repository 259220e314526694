// cosmo-cnn: maps in, parameters out. Convolution stages, each half the size of the one before, then a mean over
// the map (the statistics of a random field don't depend on place) and a small head. May import ffi, nn, model.
import { adaptiveAvgPool2d, flatten, maxPool2d, relu, relu_ } from "../../../ffi/ops.ts";
import { type Block, block, type Model, model } from "../model.ts";
import { BatchNorm } from "../nn/batch_norm.ts";
import { Conv2d } from "../nn/conv.ts";
import { Dropout } from "../nn/dropout.ts";
import { Linear } from "../nn/linear.ts";
import { Group } from "../nn/module.ts";

export interface CosmoCnnSizes {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
  /** Channels of the first stage. */
  readonly filters: number;
  readonly outputs: number;
  readonly dropout?: number;
}

/** Channels of each stage, in units of `filters`; small maps have fewer stages. */
const STAGES = [1, 2, 4, 4];
const HEAD = 64;
const POOL = [2, 2], ONE = [1, 1];

export function cosmoCnn({ channels, height, width, filters, outputs, dropout = 0 }: CosmoCnnSizes): Model {
  const root = new Group();
  const features = root.add("features", new Group());
  const blocks: Block[] = [];
  let side = Math.min(height, width), into = channels;
  for (const [i, factor] of STAGES.entries()) {
    if (side < 2) break;
    const out = filters * factor;
    const stage = features.add(i, new Group());
    const conv = stage.add(0, new Conv2d(into, out, 3, { padding: 1, bias: false }));
    const norm = stage.add(1, new BatchNorm(out));
    blocks.push(
      block(`features.${i}`, stage, (x) => maxPool2d(relu_(norm.forward(conv.forward(x))), POOL)),
    );
    into = out;
    side = Math.floor(side / 2);
  }
  const head = root.add("head", new Group());
  const first = head.add(0, new Linear(into, HEAD));
  const drop = head.add("dropout", new Dropout(dropout));
  const last = head.add(2, new Linear(HEAD, outputs));
  blocks.push(
    block("head", head, (x) => {
      const mean = flatten(adaptiveAvgPool2d(x, ONE), 1);
      return last.forward(drop.forward(relu(first.forward(mean))));
    }),
  );
  const widths = STAGES.slice(0, blocks.length - 1).map((factor) => filters * factor);
  return model("cosmo-cnn", root, blocks, {
    layers: `convolutions ${widths.join("-")}, linear ${HEAD}`,
    convolutional: true,
    channelsLastOnCpu: true,
  });
}
