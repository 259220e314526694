// resnet18, 34, 50, 101: torchvision's architecture, parameter names and initialisation.
import { add } from "../../../ffi/make.ts";
import { adaptiveAvgPool2d, flatten, maxPool2d, relu_ } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { type Block, block, type Model, model } from "../model.ts";
import { BatchNorm } from "../nn/norms.ts";
import { Conv2d } from "../nn/conv.ts";
import { kaimingNormalFanOut } from "../nn/init.ts";
import { Linear } from "../nn/linear.ts";
import { Group, Module } from "../nn/module.ts";
import { depthAt, StochasticDepth } from "../nn/stochastic_depth.ts";
import { type Build, imageSizes } from "../builder.ts";

/** Each of the four stages has this many residual blocks. */
const SHAPES = {
  resnet18: { stages: [2, 2, 2, 2], bottleneck: false },
  resnet34: { stages: [3, 4, 6, 3], bottleneck: false },
  resnet50: { stages: [3, 4, 6, 3], bottleneck: true },
  resnet101: { stages: [3, 4, 23, 3], bottleneck: true },
} as const;

export type ResnetName = keyof typeof SHAPES;
export const RESNETS = Object.keys(SHAPES) as ResnetName[];

interface BlockShape {
  readonly into: number;
  readonly planes: number;
  readonly stride: number;
  /** The branch is left out of this share of the samples. */
  readonly leftOut: number;
}

class Step {
  constructor(readonly conv: Conv2d, readonly norm: BatchNorm) {}
  forward(x: Tensor): Tensor {
    return this.norm.forward(this.conv.forward(x));
  }
}

/** torchvision draws the 1x1 shortcut before the block it belongs to. */
function shortcut({ into, stride }: Pick<BlockShape, "into" | "stride">, out: number): Step | null {
  if (stride === 1 && into === out) return null;
  return new Step(new Conv2d(into, out, 1, { stride, bias: false }), new BatchNorm(out));
}

class Residual extends Module {
  readonly #steps: Step[] = [];
  readonly #shortcut: Step | null;
  readonly #depth: StochasticDepth;

  constructor(place: BlockShape, bottleneck: boolean) {
    super();
    const { into, planes, stride } = place;
    const out = bottleneck ? 4 * planes : planes;
    this.#shortcut = shortcut(place, out);
    if (bottleneck) {
      this.#step(into, planes, 1, 1);
      this.#step(planes, planes, 3, stride);
      this.#step(planes, out, 1, 1);
    } else {
      this.#step(into, planes, 3, stride);
      this.#step(planes, planes, 3, 1);
    }
    this.#depth = this.child("stochastic_depth", new StochasticDepth(place.leftOut));
    if (this.#shortcut !== null) {
      const { conv, norm } = this.#shortcut;
      this.child("downsample", new Group({ "0": conv, "1": norm }));
    }
  }

  #step(into: number, out: number, kernel: number, stride: number): void {
    const number = this.#steps.length + 1;
    const padding = kernel === 3 ? 1 : 0;
    const conv = this.child(`conv${number}`, new Conv2d(into, out, kernel, { stride, padding, bias: false }));
    this.#steps.push(new Step(conv, this.child(`bn${number}`, new BatchNorm(out))));
  }

  forward(x: Tensor): Tensor {
    const steps = this.#steps, last = steps.length - 1;
    let y = x;
    for (let i = 0; i < last; i++) y = relu_(steps[i].forward(y));
    y = this.#depth.forward(steps[last].forward(y));
    return relu_(add(y, this.#shortcut === null ? x : this.#shortcut.forward(x)));
  }
}

const POOL = [3, 3], POOL_STRIDE = [2, 2], POOL_PADDING = [1, 1], ONE = [1, 1];

export function resnet(
  name: ResnetName,
  { channels, outputs, stochasticDepth = 0 }: { channels: number; outputs: number; stochasticDepth?: number },
): Model {
  const { stages, bottleneck } = SHAPES[name];
  const root = new Group();
  const conv1 = root.add("conv1", new Conv2d(channels, 64, 7, { stride: 2, padding: 3, bias: false }));
  const bn1 = root.add("bn1", new BatchNorm(64));
  const residuals: Block[] = [];
  const inAll = stages.reduce((sum, each) => sum + each, 0);
  let into = 64;
  stages.forEach((count, stage) => {
    const planes = 64 << stage;
    const layer = root.add(`layer${stage + 1}`, new Group());
    for (let i = 0; i < count; i++) {
      const stride = stage > 0 && i === 0 ? 2 : 1;
      const leftOut = depthAt(stochasticDepth, residuals.length, inAll);
      const residual = layer.add(i, new Residual({ into, planes, stride, leftOut }, bottleneck));
      residuals.push(block(`layer${stage + 1}.${i}`, residual, (x) => residual.forward(x)));
      into = bottleneck ? 4 * planes : planes;
    }
  });
  const fc = root.add("fc", new Linear(into, outputs));
  for (const m of root.modules()) if (m instanceof Conv2d) kaimingNormalFanOut(m.weight);

  const stem = (x: Tensor) =>
    maxPool2d(relu_(bn1.forward(conv1.forward(x))), POOL, POOL_STRIDE, POOL_PADDING);
  const blocks = [
    block("stem", new Group({ conv1, bn1 }), stem),
    ...residuals,
    block("head", fc, (x) => fc.forward(flatten(adaptiveAvgPool2d(x, ONE), 1))),
  ];
  return model(name, root, blocks, {
    layers: `${residuals.length} residual blocks in stages of ${stages.join("-")}`,
    convolutional: true,
  });
}

const resnetBuilder = (name: ResnetName): Build => (settings, facts, outputs) =>
  resnet(name, {
    channels: imageSizes(settings, facts).channels,
    outputs,
    stochasticDepth: settings.stochastic_depth,
  });

export const models: Readonly<Record<string, Build>> = {
  resnet18: resnetBuilder("resnet18"),
  resnet34: resnetBuilder("resnet34"),
  resnet50: resnetBuilder("resnet50"),
  resnet101: resnetBuilder("resnet101"),
};
