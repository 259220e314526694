// The two small convolutional networks: simple-convnet (PyTorch's MNIST example, for any image size and
// channels) and cosmo-cnn (maps in, parameters out; a mean over the map, because a random field's statistics
// don't depend on place).
import { adaptiveAvgPool2d, flatten, maxPool2d, relu, relu_ } from "../../../ffi/ops.ts";
import { UserError } from "../../base/errors.ts";
import { type Block, block, type Model, model } from "../model.ts";
import { Conv2d } from "../nn/conv.ts";
import { Dropout, Linear } from "../nn/linear.ts";
import { Group } from "../nn/module.ts";
import type { PaddingMode } from "../nn/padding.ts";
import { BatchNorm } from "../nn/norms.ts";
import { type Build, imageSizes, ownDropout } from "../builder.ts";

interface SimpleConvnetSizes {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
  readonly outputs: number;
  /** The example's own are 0.25 and 0.5. */
  readonly dropout?: number;
}

const SIMPLE_POOL = [2, 2];

export function simpleConvnet({ channels, height, width, outputs, dropout }: SimpleConvnetSizes): Model {
  const rows = Math.floor((height - 4) / 2), columns = Math.floor((width - 4) / 2);
  if (rows < 1 || columns < 1) {
    throw new UserError(
      "usage",
      `the model simple-convnet needs images of at least 6 x 6 pixels, and these are ${height} x ${width}: ` +
        "choose another --model, e.g. mlp.",
    );
  }
  const root = new Group();
  const conv1 = root.add("conv1", new Conv2d(channels, 32, 3));
  const conv2 = root.add("conv2", new Conv2d(32, 64, 3));
  const dropout1 = root.add("dropout1", new Dropout(dropout ?? 0.25));
  const dropout2 = root.add("dropout2", new Dropout(dropout ?? 0.5));
  const fc1 = root.add("fc1", new Linear(64 * rows * columns, 128));
  const fc2 = root.add("fc2", new Linear(128, outputs));

  const blocks = [
    block(
      "convolutions",
      new Group({ conv1, conv2, dropout1 }),
      // The example has the second relu before the pool: the result is the same to the bit, of four times as
      // many numbers.
      (x) => dropout1.forward(relu_(maxPool2d(conv2.forward(relu_(conv1.forward(x))), SIMPLE_POOL))),
    ),
    block(
      "head",
      new Group({ dropout2, fc1, fc2 }),
      (x) => fc2.forward(dropout2.forward(relu_(fc1.forward(flatten(x, 1))))),
    ),
  ];
  return model("simple-convnet", root, blocks, {
    layers: "convolutions 32-64, linear 128",
    convolutional: true,
    channelsLastOnCpu: true,
  });
}

interface CosmoCnnSizes {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
  /** The first stage has this many channels. */
  readonly filters: number;
  readonly outputs: number;
  readonly dropout?: number;
  readonly padding?: PaddingMode;
}

/** Channels are in units of `filters`, and each stage halves the map; small maps have fewer stages. */
const STAGES = [1, 2, 4, 4];
const HEAD = 64;
const POOL = [2, 2], ONE = [1, 1];

export function cosmoCnn(
  { channels, height, width, filters, outputs, dropout = 0, padding: paddingMode }: CosmoCnnSizes,
): Model {
  const root = new Group();
  const features = root.add("features", new Group());
  const blocks: Block[] = [];
  let side = Math.min(height, width), into = channels;
  for (const [i, factor] of STAGES.entries()) {
    if (side < 2) break;
    const out = filters * factor;
    const stage = features.add(i, new Group());
    const conv = stage.add(0, new Conv2d(into, out, 3, { padding: 1, bias: false, paddingMode }));
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

export const models: Readonly<Record<string, Build>> = {
  "simple-convnet": (settings, facts, outputs) =>
    simpleConvnet({ ...imageSizes(settings, facts), outputs, dropout: ownDropout(settings) }),
  "cosmo-cnn": (settings, facts, outputs) =>
    cosmoCnn({
      ...imageSizes(settings, facts),
      filters: settings.width || 8, // These are enough for the statistics of fields, and quick on two cores.
      outputs,
      dropout: ownDropout(settings),
      padding: settings.padding,
    }),
};
