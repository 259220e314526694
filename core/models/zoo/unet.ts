// unet: one output map per class or target, of the input's own sides. Skip connections pass between the blocks
// behind the main activation, as [x, newest skip, older skip, ...].
import type { Tensor } from "../../../ffi/tensor.ts";
import { cat, maxPool2d, narrow, relu_ } from "../../../ffi/ops.ts";
import { UserError } from "../../base/errors.ts";
import { type Activation, type Block, block, type Model, model } from "../model.ts";
import { BatchNorm } from "../nn/norms.ts";
import { Conv2d, ConvTranspose2d } from "../nn/conv.ts";
import { Dropout } from "../nn/linear.ts";
import { Group, Module } from "../nn/module.ts";
import { frameAround, padder, type PaddingMode } from "../nn/padding.ts";

interface UnetSizes {
  readonly channels: number;
  /** The first level has this many channels; each level below has twice as many. */
  readonly filters: number;
  readonly outputs: number;
  /** The map is halved this many times. */
  readonly depth?: number;
  /** This lies beyond a map's borders, for each 3 x 3 convolution and where a side is no multiple of 2^depth. */
  readonly padding?: PaddingMode;
  /** The share of each level's activations that is dropped in training. */
  readonly dropout?: number;
}

/** The names are those of nn.Sequential. */
class DoubleConv extends Module {
  readonly #conv1: Conv2d;
  readonly #norm1: BatchNorm;
  readonly #conv2: Conv2d;
  readonly #norm2: BatchNorm;
  readonly #drop: Dropout;

  constructor(into: number, out: number, { padding: paddingMode, dropout = 0 }: UnetSizes) {
    super();
    const options = { padding: 1, bias: false, paddingMode };
    this.#conv1 = this.child("0", new Conv2d(into, out, 3, options));
    this.#norm1 = this.child("1", new BatchNorm(out));
    this.#conv2 = this.child("3", new Conv2d(out, out, 3, options));
    this.#norm2 = this.child("4", new BatchNorm(out));
    this.#drop = this.child("6", new Dropout(dropout));
  }
  forward(x: Tensor): Tensor {
    x = relu_(this.#norm1.forward(this.#conv1.forward(x)));
    return this.#drop.forward(relu_(this.#norm2.forward(this.#conv2.forward(x))));
  }
}

const POOL = [2, 2];

export function unet(sizes: UnetSizes): Model {
  const { channels, filters, outputs, depth = 3, padding = "zeros" } = sizes;
  const root = new Group();
  const blocks: Block[] = [];
  const frame = new Frame(depth, padding);
  const down = root.add("down", new Group());
  const first = down.add(0, new DoubleConv(channels, filters, sizes));
  blocks.push(block("down.0", first, (x) => first.forward(frame.around(x))));
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
    const conv = new DoubleConv(filters << (level - 1), filters << level, sizes);
    lower(`down.${level}`, down.add(level, conv));
  }
  lower("bottom", root.add("bottom", new DoubleConv(filters << (depth - 1), filters << depth, sizes)));

  const up = root.add("up", new Group());
  for (let i = 0; i < depth; i++) {
    const out = filters << (depth - 1 - i);
    const level = up.add(i, new Group());
    const upsample = level.add("upsample", new ConvTranspose2d(2 * out, out, 2, { stride: 2 }));
    const conv = level.add("conv", new DoubleConv(2 * out, out, sizes));
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
  blocks.push(block("head", head, (x) => frame.within(head.forward(x))));
  return model("unet", root, blocks, {
    layers: `${depth} levels from ${filters} channels`,
    convolutional: true,
    channelsLastOnCpu: true,
  });
}

const tensors = (x: Activation): readonly Tensor[] => Array.isArray(x) ? x : [x as Tensor];

/** A frame around the maps makes their sides multiples of 2^depth; the answer is cut out of it. */
class Frame {
  readonly #depth: number;
  readonly #padding: PaddingMode;
  #height = 0;
  #width = 0;
  #top = 0;
  #left = 0;
  /** Null for sides that are multiples. */
  #pad: ((x: Tensor) => Tensor) | null = null;

  constructor(depth: number, padding: PaddingMode) {
    this.#depth = depth;
    this.#padding = padding;
  }

  /** The sides are those of every batch until the next call: the last block needs them again. */
  around(x: Tensor): Tensor {
    const [, , height, width] = x.shape;
    if (height !== this.#height || width !== this.#width) this.#fit(height, width);
    return this.#pad === null ? x : this.#pad(x);
  }

  within(y: Tensor): Tensor {
    if (this.#pad === null) return y;
    return narrow(narrow(y, 2, this.#top, this.#height), 3, this.#left, this.#width);
  }

  #fit(height: number, width: number): void {
    checkUnetDepth(this.#depth, [height, width], this.#padding);
    const { top, left, sizes } = frameAround(height, width, 2 ** this.#depth);
    [this.#height, this.#width, this.#top, this.#left] = [height, width, top, left];
    this.#pad = sizes && padder(sizes, this.#padding);
  }
}

/** At the deepest level a side has one place, and two where it is reflected; most of it is the map's own. */
export function deepestUnet(sides: readonly number[], padding: PaddingMode): number {
  const side = Math.min(...sides);
  return padding === "reflect" ? Math.floor(Math.log2(side - 1)) : Math.ceil(Math.log2(side));
}

export function checkUnetDepth(depth: number, sides: readonly number[], padding: PaddingMode): void {
  const deepest = deepestUnet(sides, padding);
  if (depth <= deepest) return;
  const maps = `maps of ${sides.join(" x ")}`;
  throw new UserError(
    "usage",
    deepest < 1
      ? `the model unet halves its maps, and ${maps} are too small for that: choose another --model.`
      : `the model unet halves its maps ${depth} times, and ${maps} can be halved ${deepest} times` +
        `${
          padding === "reflect" ? " where they are reflected" : ""
        }: set --depth to ${deepest} or less, or leave it out.`,
  );
}
