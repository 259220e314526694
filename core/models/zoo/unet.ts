// unet: one output map per class or target, of the input's own sides, in two dimensions or three. Skip connections
// pass between the blocks behind the main activation, as [x, newest skip, older skip, ...].
import type { Tensor } from "../../../ffi/tensor.ts";
import { add } from "../../../ffi/make.ts";
import {
  cat,
  maxPool2d,
  maxPool3d,
  mul,
  narrow,
  relu,
  relu_,
  reshape,
  sigmoid,
  transpose,
} from "../../../ffi/ops.ts";
import { UserError } from "../../base/errors.ts";
import { type Activation, type Block, block, type Model, model } from "../model.ts";
import { MultiheadAttention } from "../nn/attention.ts";
import { BatchNorm, LayerNorm } from "../nn/norms.ts";
import { Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d } from "../nn/conv.ts";
import { Dropout } from "../nn/linear.ts";
import { Group, Module } from "../nn/module.ts";
import { frameAround, padder, type PaddingMode } from "../nn/padding.ts";
import { type Build, mapSizes, ownDropout, refuseData } from "../builder.ts";

/** The layers for maps of two dimensions, and for volumes. */
const LAYERS = {
  2: { Conv: Conv2d, ConvTranspose: ConvTranspose2d, halved: (x: Tensor) => maxPool2d(x, [2, 2]) },
  3: { Conv: Conv3d, ConvTranspose: ConvTranspose3d, halved: (x: Tensor) => maxPool3d(x, [2, 2, 2]) },
} as const;

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
  /** The dimensions of a map; 2 by default. */
  readonly dims?: 2 | 3;
  /** The input of two convolutions is added to what they make of it. */
  readonly residual?: boolean;
  /** It weighs the skips point by point, or lets each point of the bottom see all others. */
  readonly attention?: "none" | "gates" | "bottom";
  /** The heads of the attention at the bottom. */
  readonly heads?: number;
}

/** The names are those of nn.Sequential; a shortcut comes with residual blocks, as in ResNet. */
class DoubleConv extends Module {
  readonly #conv1: Conv2d | Conv3d;
  readonly #norm1: BatchNorm;
  readonly #conv2: Conv2d | Conv3d;
  readonly #norm2: BatchNorm;
  readonly #drop: Dropout;
  readonly #residual: boolean;
  readonly #shortcut: ConvNorm | null;

  constructor(into: number, out: number, sizes: UnetSizes) {
    super();
    const { padding: paddingMode, dropout = 0, dims = 2, residual = false } = sizes;
    const { Conv } = LAYERS[dims], options = { padding: 1, bias: false, paddingMode };
    this.#conv1 = this.child("0", new Conv(into, out, 3, options));
    this.#norm1 = this.child("1", new BatchNorm(out));
    this.#conv2 = this.child("3", new Conv(out, out, 3, options));
    this.#norm2 = this.child("4", new BatchNorm(out));
    this.#drop = this.child("6", new Dropout(dropout));
    this.#residual = residual;
    this.#shortcut = residual && into !== out ? this.child("shortcut", new ConvNorm(into, out, dims)) : null;
  }
  forward(x: Tensor): Tensor {
    const inner = relu_(this.#norm1.forward(this.#conv1.forward(x)));
    const y = this.#norm2.forward(this.#conv2.forward(inner));
    const sum = this.#residual ? add(y, this.#shortcut === null ? x : this.#shortcut.forward(x)) : y;
    return this.#drop.forward(relu_(sum));
  }
}

/** A convolution of 1 x 1, and batch norm. */
class ConvNorm extends Module {
  readonly #conv: Conv2d | Conv3d;
  readonly #norm: BatchNorm;

  constructor(into: number, out: number, dims: 2 | 3) {
    super();
    this.#conv = this.child("0", new LAYERS[dims].Conv(into, out, 1, { bias: false }));
    this.#norm = this.child("1", new BatchNorm(out));
  }
  forward(x: Tensor): Tensor {
    return this.#norm.forward(this.#conv.forward(x));
  }
}

/** The gate of Attention U-Net (Oktay et al. 2018): what comes from below says which points of a skip count. */
class Gate extends Module {
  readonly #below: ConvNorm;
  readonly #skip: ConvNorm;
  readonly #share: ConvNorm;

  constructor(width: number, dims: 2 | 3) {
    super();
    const inner = Math.max(1, width >> 1);
    this.#below = this.child("below", new ConvNorm(width, inner, dims));
    this.#skip = this.child("skip", new ConvNorm(width, inner, dims));
    this.#share = this.child("share", new ConvNorm(inner, 1, dims));
  }
  forward(below: Tensor, skip: Tensor): Tensor {
    const both = relu(add(this.#below.forward(below), this.#skip.forward(skip)));
    return mul(skip, sigmoid(this.#share.forward(both)));
  }
}

/** Each point sees all others. */
class SelfAttention extends Module {
  readonly #norm: LayerNorm;
  readonly #attention: MultiheadAttention;

  constructor(width: number, heads: number) {
    super();
    this.#norm = this.child("norm", new LayerNorm(width));
    this.#attention = this.child("attention", new MultiheadAttention(width, heads));
  }
  forward(x: Tensor): Tensor {
    const [count, width] = x.shape;
    const points = transpose(reshape(x, [count, width, -1]), 1, 2);
    const seen = this.#attention.forward(this.#norm.forward(points));
    return add(x, reshape(transpose(seen, 1, 2), x.shape));
  }
}

export function unet(sizes: UnetSizes): Model {
  const { channels, filters, outputs, depth = 3, padding = "zeros", dims = 2, attention = "none" } = sizes;
  const { Conv, ConvTranspose, halved } = LAYERS[dims];
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
        return [conv.forward(halved(skips[0])), ...skips];
      },
    });
  for (let level = 1; level < depth; level++) {
    const conv = new DoubleConv(filters << (level - 1), filters << level, sizes);
    lower(`down.${level}`, down.add(level, conv));
  }
  lower("bottom", root.add("bottom", new DoubleConv(filters << (depth - 1), filters << depth, sizes)));
  if (attention === "bottom") {
    const module = root.add("attention", new SelfAttention(filters << depth, sizes.heads ?? 4));
    blocks.push({
      name: "attention",
      module,
      forward(input) {
        const [x, ...skips] = tensors(input);
        return [module.forward(x), ...skips];
      },
    });
  }

  const up = root.add("up", new Group());
  for (let i = 0; i < depth; i++) {
    const out = filters << (depth - 1 - i);
    const level = up.add(i, new Group());
    const upsample = level.add("upsample", new ConvTranspose(2 * out, out, 2, { stride: 2 }));
    const gate = attention === "gates" ? level.add("gate", new Gate(out, dims)) : null;
    const conv = level.add("conv", new DoubleConv(2 * out, out, sizes));
    blocks.push({
      name: `up.${i}`,
      module: level,
      forward(input) {
        const [x, skip, ...older] = tensors(input);
        const below = upsample.forward(x);
        const y = conv.forward(cat([gate === null ? skip : gate.forward(below, skip), below], 1));
        return older.length === 0 ? y : [y, ...older];
      },
    });
  }
  const head = root.add("head", new Conv(filters, outputs, 1));
  blocks.push(block("head", head, (x) => frame.within(head.forward(x))));
  const kind = [
    dims === 3 ? "volumes" : "",
    sizes.residual ? "residual blocks" : "",
    ATTENTION_WORDS[attention],
  ]
    .filter((part) => part !== "");
  return model("unet", root, blocks, {
    layers: [`${depth} levels from ${filters} channels`, ...kind].join(", "),
    convolutional: dims === 2,
    channelsLastOnCpu: dims === 2,
  });
}

const ATTENTION_WORDS = { none: "", gates: "attention gates", bottom: "attention at the bottom" } as const;

const tensors = (x: Activation): readonly Tensor[] => Array.isArray(x) ? x : [x as Tensor];

/** A frame around the maps makes their sides multiples of 2^depth; the answer is cut out of it. */
class Frame {
  readonly #depth: number;
  readonly #padding: PaddingMode;
  #sides: readonly number[] = [];
  #starts: readonly number[] = [];
  /** Null for sides that are multiples. */
  #pad: ((x: Tensor) => Tensor) | null = null;

  constructor(depth: number, padding: PaddingMode) {
    this.#depth = depth;
    this.#padding = padding;
  }

  /** The sides are those of every batch until the next call: the last block needs them again. */
  around(x: Tensor): Tensor {
    const shape = x.shape, known = this.#sides;
    let same = known.length === shape.length - 2;
    for (let i = 0; same && i < known.length; i++) same = shape[i + 2] === known[i];
    if (!same) this.#fit(shape.slice(2));
    return this.#pad === null ? x : this.#pad(x);
  }

  within(y: Tensor): Tensor {
    if (this.#pad === null) return y;
    let cut = y;
    for (let i = 0; i < this.#sides.length; i++) cut = narrow(cut, i + 2, this.#starts[i], this.#sides[i]);
    return cut;
  }

  #fit(sides: readonly number[]): void {
    checkUnetDepth(this.#depth, sides, this.#padding);
    const { starts, sizes } = frameAround(sides, 2 ** this.#depth);
    [this.#sides, this.#starts] = [sides, starts];
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

function checkHeads(width: number, heads: number): void {
  if (width % heads === 0) return;
  throw new UserError(
    "usage",
    `the ${width} channels at the bottom of unet can't be shared by ${heads} heads: set --heads to a number that divides ` +
      "them, or --width to another.",
  );
}

export const models: Readonly<Record<string, Build>> = {
  unet(settings, facts, outputs) {
    if (facts.task === "classification") refuseData("unet", facts, "an answer per pixel");
    const { channels, sides } = mapSizes(settings, facts);
    const { padding, attention, residual } = settings;
    const depth = settings.depth || Math.max(1, Math.min(3, deepestUnet(sides, padding)));
    checkUnetDepth(depth, sides, padding);
    const filters = settings.width || 32, heads = settings.heads || 4;
    if (attention === "bottom") checkHeads(filters << depth, heads);
    return unet({
      ...{ channels, filters, outputs, depth, padding, residual, attention, heads },
      dims: sides.length === 3 ? 3 : 2,
      dropout: ownDropout(settings),
    });
  },
};
