// unet: one output map per class or target. Skip connections pass between the blocks behind the main
// activation, as [x, newest skip, older skip, ...].
import type { Tensor } from "../../../ffi/tensor.ts";
import { cat, maxPool2d, relu_ } from "../../../ffi/ops.ts";
import { UserError } from "../../base/errors.ts";
import { type Activation, type Block, block, type Model, model } from "../model.ts";
import { BatchNorm } from "../nn/norms.ts";
import { Conv2d, ConvTranspose2d } from "../nn/conv.ts";
import { Group, Module } from "../nn/module.ts";

interface UnetSizes {
  readonly channels: number;
  /** The first level has this many channels; each level below has twice as many. */
  readonly filters: number;
  readonly outputs: number;
  /** The map is halved this many times. */
  readonly depth?: number;
}

/** The names are those of nn.Sequential. */
class DoubleConv extends Module {
  readonly #conv1: Conv2d;
  readonly #norm1: BatchNorm;
  readonly #conv2: Conv2d;
  readonly #norm2: BatchNorm;

  constructor(into: number, out: number) {
    super();
    this.#conv1 = this.child("0", new Conv2d(into, out, 3, { padding: 1, bias: false }));
    this.#norm1 = this.child("1", new BatchNorm(out));
    this.#conv2 = this.child("3", new Conv2d(out, out, 3, { padding: 1, bias: false }));
    this.#norm2 = this.child("4", new BatchNorm(out));
  }
  forward(x: Tensor): Tensor {
    x = relu_(this.#norm1.forward(this.#conv1.forward(x)));
    return relu_(this.#norm2.forward(this.#conv2.forward(x)));
  }
}

const POOL = [2, 2];

export function unet({ channels, filters, outputs, depth = 3 }: UnetSizes): Model {
  const root = new Group();
  const blocks: Block[] = [];
  const down = root.add("down", new Group());
  const first = down.add(0, new DoubleConv(channels, filters));
  blocks.push(block("down.0", first, (x) => (checkSides(x, depth), first.forward(x))));
  const lower = (name: string, conv: DoubleConv) =>
    blocks.push({
      name,
      module: conv,
      forward(input) {
        const skips = tensors(input);
        return [conv.forward(maxPool2d(skips[0], POOL)), ...skips];
      },
    });
  for (let level = 1; level < depth; level++) {
    lower(`down.${level}`, down.add(level, new DoubleConv(filters << (level - 1), filters << level)));
  }
  lower("bottom", root.add("bottom", new DoubleConv(filters << (depth - 1), filters << depth)));

  const up = root.add("up", new Group());
  for (let i = 0; i < depth; i++) {
    const out = filters << (depth - 1 - i);
    const level = up.add(i, new Group());
    const upsample = level.add("upsample", new ConvTranspose2d(2 * out, out, 2, { stride: 2 }));
    const conv = level.add("conv", new DoubleConv(2 * out, out));
    blocks.push({
      name: `up.${i}`,
      module: level,
      forward(input) {
        const [x, skip, ...older] = tensors(input);
        const y = conv.forward(cat([skip, upsample.forward(x)], 1));
        return older.length === 0 ? y : [y, ...older];
      },
    });
  }
  const head = root.add("head", new Conv2d(filters, outputs, 1));
  blocks.push(block("head", head, (x) => head.forward(x)));
  return model("unet", root, blocks, {
    layers: `${depth} levels from ${filters} channels`,
    convolutional: true,
    channelsLastOnCpu: true,
  });
}

const tensors = (x: Activation): readonly Tensor[] => Array.isArray(x) ? x : [x as Tensor];

function checkSides(x: Tensor, depth: number): void {
  const factor = 1 << depth;
  const [, , height, width] = x.shape;
  if (height % factor === 0 && width % factor === 0) return;
  throw new UserError(
    "usage",
    `the model unet halves its images ${depth} times, so their sides must be multiples of ${factor}, ` +
      `and these are ${height} x ${width}: crop or pad them.`,
  );
}
