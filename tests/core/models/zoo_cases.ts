// The models that are compared with PyTorch, small enough for one core. Test data.
import type { Facts, Model } from "../../../core/models/model.ts";
import { cosmoCnn, simpleConvnet } from "../../../core/models/zoo/convnets.ts";
import { convLstm } from "../../../core/models/zoo/convlstm.ts";
import { convnext } from "../../../core/models/zoo/convnext.ts";
import { fno } from "../../../core/models/zoo/fno.ts";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { resnet, RESNETS } from "../../../core/models/zoo/resnet.ts";
import { unet } from "../../../core/models/zoo/unet.ts";
import { vit } from "../../../core/models/zoo/vit.ts";

interface Made {
  shape: number[];
  /** Random integers below it; random normal numbers without. */
  below?: number;
}
export interface ZooCase {
  title: string;
  /** The function of examples/python/zoo_models.py, and its arguments. */
  peer: string;
  sizes: Record<string, unknown>;
  make: () => Model;
  input: Made;
  target: Made;
  task: Facts["task"];
  /** Images lie channels last, as training lays them for this model. */
  channelsLast?: boolean;
  /** Draw all parameters anew after comparing the first: zeros in them would hide what the gradients are. */
  redraw?: boolean;
}

/** A model whose sizes are named alike on both sides. */
function same<S extends object>(
  title: string,
  peer: string,
  build: (sizes: S) => Model,
  sizes: S,
  rest: Pick<ZooCase, "input" | "target" | "task">,
): ZooCase {
  return { title, peer, sizes: sizes as Record<string, unknown>, make: () => build(sizes), ...rest };
}

/** Maps whose sides are no multiples of 2^depth, with each kind of border. */
const ODD_MAPS: readonly ZooCase[] = [
  ...(["zeros", "replicate", "reflect", "circular", "longitude"] as const).flatMap((padding) => [
    unetOn([24, 36], { padding, depth: 3, filters: 4 }),
    unetOn([7, 9], { padding, depth: 2, filters: 4 }),
  ]),
  unetOn([7, 9], { padding: "circular", depth: 3, filters: 2 }),
  unetOn([181, 360], { padding: "longitude", depth: 3, filters: 2 }),
  unetOn([181, 360], { padding: "zeros", depth: 5, filters: 2, dropout: 0.2 }),
];

/** Beside the plain one: residual blocks, attention, volumes. */
const MORE_UNETS: readonly ZooCase[] = ([
  ["with residual blocks", [16, 24], { residual: true, depth: 2 }],
  ["with attention gates and residual blocks", [13, 22], { attention: "gates", residual: true, depth: 2 }],
  ["with attention at the bottom", [13, 22], {
    attention: "bottom",
    heads: 2,
    depth: 2,
    padding: "longitude",
  }],
  ["of volumes", [8, 12, 16], { dims: 3, depth: 2 }],
  ["of volumes with everything", [5, 9, 11], {
    dims: 3,
    depth: 1,
    attention: "gates",
    residual: true,
    dropout: 0.2,
  }],
  ["of volumes of the Earth", [3, 6, 10], { dims: 3, depth: 1, attention: "bottom", padding: "longitude" }],
] as const).map(([what, sides, rest]) =>
  same(`unet ${what}`, "unet", unet, { channels: 2, filters: 4, outputs: 3, ...rest }, {
    input: { shape: [2, 2, ...sides] },
    target: { shape: [2, 3, ...sides] },
    task: "regression",
  })
);

const SEQUENCES: readonly ZooCase[] = ([
  ["", { channels: 8, steps: 4, layers: 2 }],
  [" with a mask, dropout and a map of the Earth", {
    channels: 4,
    steps: 3,
    layers: 1,
    padding: "longitude",
    dropout: 0.2,
  }],
] as const).map(([what, rest]) =>
  same(`convlstm${what}`, "convlstm", convLstm, { filters: 4, outputs: 3, ...rest }, {
    input: { shape: [2, rest.channels, 7, 10] },
    target: { shape: [2, 3, 7, 10] },
    task: "regression",
  })
);

/** Of other shapes than torchvision's squares. */
const ODD_VITS: readonly ZooCase[] = ([
  [[12, 20], 4, "zeros"],
  [[13, 22], 4, "zeros"],
  [[13, 22], 5, "longitude"],
] as const).map(([[height, width], patch, padding]) => {
  const sizes = { patch, layers: 1, heads: 2, embed: 16, outputs: 3, padding };
  return {
    title: `vit on ${height} x ${width} in patches of ${patch} with ${padding} beyond the borders`,
    peer: "vit",
    sizes: { image: [height, width], ...sizes },
    make: () => vit({ channels: 3, height, width, ...sizes }),
    redraw: true,
    input: { shape: [2, 3, height, width] },
    target: { shape: [2], below: 3 },
    task: "classification",
  };
});

function unetOn(
  sides: number[],
  rest: Omit<Parameters<typeof unet>[0], "channels" | "outputs"> & { padding: string },
): ZooCase {
  const title = `unet ${rest.depth} times halved on ${
    sides.join(" x ")
  } with ${rest.padding} beyond the borders`;
  return same(title, "unet", unet, { channels: 2, outputs: 3, ...rest }, {
    input: { shape: [2, 2, ...sides] },
    target: { shape: [2, 3, ...sides] },
    task: "regression",
  });
}

const PLAIN: readonly ZooCase[] = [
  same("mlp", "mlp", mlp, { inputs: 7, hidden: 128, layers: 2, outputs: 1 }, {
    input: { shape: [32, 7] },
    target: { shape: [32, 1] },
    task: "regression",
  }),
  same("wide mlp of several blocks", "mlp", mlp, { inputs: 7, hidden: 520, layers: 3, outputs: 2 }, {
    input: { shape: [8, 7] },
    target: { shape: [8, 2] },
    task: "regression",
  }),
  same("mlp with dropout", "mlp", mlp, { inputs: 7, hidden: 16, layers: 3, outputs: 4, dropout: 0.3 }, {
    input: { shape: [8, 7] },
    target: { shape: [8], below: 4 },
    task: "classification",
  }),
  same(
    "simple-convnet",
    "simple_convnet",
    simpleConvnet,
    { channels: 1, height: 28, width: 28, outputs: 10 },
    {
      input: { shape: [4, 1, 28, 28] },
      target: { shape: [4], below: 10 },
      task: "classification",
    },
  ),
  same(
    "simple-convnet for 8x8 digits without dropout",
    "simple_convnet",
    simpleConvnet,
    { channels: 1, height: 8, width: 8, outputs: 10, dropout: 0 },
    { input: { shape: [16, 1, 8, 8] }, target: { shape: [16], below: 10 }, task: "classification" },
  ),
  ...RESNETS.map((name): ZooCase => ({
    title: name,
    peer: "resnet",
    sizes: { name, channels: 3, outputs: 10 },
    make: () => resnet(name, { channels: 3, outputs: 10 }),
    input: { shape: [2, 3, 32, 32] },
    target: { shape: [2], below: 10 },
    task: "classification",
  })),
  {
    title: "resnet18 for one channel",
    peer: "resnet",
    sizes: { name: "resnet18", channels: 1, outputs: 5 },
    make: () => resnet("resnet18", { channels: 1, outputs: 5 }),
    input: { shape: [2, 1, 40, 56] },
    target: { shape: [2], below: 5 },
    task: "classification",
  },
  same("gpt", "gpt", gpt, { vocabulary: 65, context: 16, layers: 2, heads: 4, embed: 32 }, {
    input: { shape: [3, 16], below: 65 },
    target: { shape: [3, 16], below: 65 },
    task: "language",
  }),
  same(
    "gpt with dropout, without biases, on sequences shorter than its context",
    "gpt",
    gpt,
    { vocabulary: 65, context: 32, layers: 2, heads: 2, embed: 32, dropout: 0.2, bias: false },
    { input: { shape: [3, 24], below: 65 }, target: { shape: [3, 24], below: 65 }, task: "language" },
  ),
  same("unet", "unet", unet, { channels: 2, filters: 8, outputs: 3 }, {
    input: { shape: [2, 2, 16, 24] },
    target: { shape: [2, 16, 24], below: 3 },
    task: "segmentation",
  }),
  same(
    "cosmo-cnn",
    "cosmo_cnn",
    cosmoCnn,
    { channels: 1, height: 32, width: 32, filters: 8, outputs: 2 },
    { input: { shape: [4, 1, 32, 32] }, target: { shape: [4, 2] }, task: "regression" },
  ),
  same(
    "cosmo-cnn on small maps with dropout",
    "cosmo_cnn",
    cosmoCnn,
    { channels: 3, height: 7, width: 9, filters: 4, outputs: 1, dropout: 0.25 },
    { input: { shape: [4, 3, 7, 9] }, target: { shape: [4, 1] }, task: "regression" },
  ),
  ...(["circular", "longitude"] as const).map((padding) =>
    same(
      `cosmo-cnn with ${padding} beyond the borders`,
      "cosmo_cnn",
      cosmoCnn,
      { channels: 1, height: 16, width: 24, filters: 4, outputs: 2, padding },
      { input: { shape: [4, 1, 16, 24] }, target: { shape: [4, 2] }, task: "regression" },
    )
  ),
  same("fno", "fno", fno, { channels: 2, filters: 6, layers: 3, modes: 4, outputs: 3 }, {
    input: { shape: [2, 2, 16, 24] },
    target: { shape: [2, 3, 16, 24] },
    task: "regression",
  }),
  same("fno on odd sides", "fno", fno, { channels: 1, filters: 4, layers: 1, modes: 3, outputs: 3 }, {
    input: { shape: [2, 1, 7, 9] },
    target: { shape: [2, 7, 9], below: 3 },
    task: "segmentation",
  }),
  {
    title: "convnext_tiny, four channels wide at first",
    peer: "convnext_tiny",
    sizes: { width: 4, outputs: 3 },
    make: () => convnext("convnext_tiny", { channels: 3, outputs: 3, width: 4 }),
    redraw: true,
    input: { shape: [2, 3, 32, 32] },
    target: { shape: [2], below: 3 },
    task: "classification",
  },
  {
    title: "vit",
    peer: "vit",
    sizes: { image: 16, patch: 4, layers: 2, heads: 4, embed: 32, outputs: 10, dropout: 0.1 },
    make: () =>
      vit({
        channels: 3,
        height: 16,
        width: 16,
        patch: 4,
        layers: 2,
        heads: 4,
        embed: 32,
        outputs: 10,
        dropout: 0.1,
      }),
    redraw: true,
    input: { shape: [3, 3, 16, 16] },
    target: { shape: [3], below: 10 },
    task: "classification",
  },
];

/** Of unet, PyTorch takes some gradients of skips through another layout, and they differ in their last bits. */
const LAST = ["simple-convnet", "cosmo-cnn"];

export const CASES: readonly ZooCase[] = [
  ...PLAIN,
  ...ODD_MAPS,
  ...MORE_UNETS,
  ...SEQUENCES,
  ...ODD_VITS,
  ...PLAIN.filter(({ title }) => LAST.includes(title)).map((one) => ({
    ...one,
    title: `${one.title} of images that lie channels last`,
    channelsLast: true,
  })),
];
