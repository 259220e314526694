// convlstm: convolutional LSTM over the steps of a history (Shi et al. 2015); the state after the last step gives an
// answer for each pixel. Activations between blocks are sequences, [samples, steps, channels, height, width].
import type { Tensor } from "../../../ffi/tensor.ts";
import { add } from "../../../ffi/make.ts";
import { cat, chunk, expand, mul, narrow, reshape, select, sigmoid, stack, tanh } from "../../../ffi/ops.ts";
import { block, type Model, model } from "../model.ts";
import { Conv2d } from "../nn/conv.ts";
import { Dropout } from "../nn/linear.ts";
import { Group, Module } from "../nn/module.ts";
import type { PaddingMode } from "../nn/padding.ts";
import { UserError } from "../../base/errors.ts";
import { type Build, imageSizes, ownDropout, refuseData } from "../builder.ts";

interface ConvLstmSizes {
  /** All of a sample's: those of each step, one step after the other, and behind them those of all steps. */
  readonly channels: number;
  readonly steps: number;
  readonly filters: number;
  readonly layers: number;
  readonly outputs: number;
  /** This lies beyond a map's borders. */
  readonly padding?: PaddingMode;
  /** The share of each layer's states that is dropped in training. */
  readonly dropout?: number;
}

/** The gates are torch.nn.LSTM's, in its order: input, forget, cell, output. */
class Layer extends Module {
  readonly #input: Conv2d;
  readonly #hidden: Conv2d;
  readonly #drop: Dropout;

  constructor(into: number, { filters, padding: paddingMode, dropout = 0 }: ConvLstmSizes) {
    super();
    this.#input = this.child("input", new Conv2d(into, 4 * filters, 3, { padding: 1, paddingMode }));
    this.#hidden = this.child(
      "hidden",
      new Conv2d(filters, 4 * filters, 3, { padding: 1, paddingMode, bias: false }),
    );
    this.#drop = this.child("dropout", new Dropout(dropout));
  }

  /** Each step's state; the first step has none before it. */
  forward(x: Tensor): Tensor[] {
    const [count, steps, channels, height, width] = x.shape;
    const seen = this.#input.forward(reshape(x, [count * steps, channels, height, width]));
    const each = reshape(seen, [count, steps, -1, height, width]);
    const states: Tensor[] = [];
    let hidden: Tensor | null = null, cell: Tensor | null = null;
    for (let step = 0; step < steps; step++) {
      const own = select(each, 1, step);
      const gates: Tensor = hidden === null ? own : add(own, this.#hidden.forward(hidden));
      const [input, forget, fresh, output] = chunk(gates, 4, 1);
      const made: Tensor = mul(sigmoid(input), tanh(fresh));
      cell = cell === null ? made : add(mul(sigmoid(forget), cell), made);
      hidden = mul(sigmoid(output), tanh(cell));
      states.push(hidden);
    }
    return states;
  }
  dropped(states: Tensor): Tensor {
    return this.#drop.forward(states);
  }
}

export function convLstm(sizes: ConvLstmSizes): Model {
  const { channels, steps, filters, layers, outputs } = sizes;
  const each = Math.floor(channels / steps), common = channels - each * steps;
  const root = new Group();
  const all = root.add("layers", new Group());
  const blocks = Array.from({ length: layers }, (_, i) => {
    const layer = all.add(i, new Layer(i === 0 ? each + common : filters, sizes));
    return block(`layers.${i}`, layer, (x) => {
      const states = layer.forward(i === 0 ? sequenceOf(x, steps, each) : x);
      return layer.dropped(i === layers - 1 ? states[steps - 1] : stack(states, 1));
    });
  });
  const head = root.add("head", new Conv2d(filters, outputs, 1));
  return model("convlstm", root, [...blocks, block("head", head, (x) => head.forward(x))], {
    layers: `${layers} layers of ${filters} channels over ${steps} steps`,
    convolutional: true,
  });
}

/** Channels of all steps, such as a mask, are there at each step. */
function sequenceOf(x: Tensor, steps: number, each: number): Tensor {
  const [count, channels, height, width] = x.shape, own = steps * each;
  if (own === channels) return reshape(x, [count, steps, each, height, width]);
  const sequence = reshape(narrow(x, 1, 0, own), [count, steps, each, height, width]);
  const common = reshape(narrow(x, 1, own, channels - own), [count, 1, channels - own, height, width]);
  return cat([sequence, expand(common, [count, steps, channels - own, height, width])], 2);
}

export const models: Readonly<Record<string, Build>> = {
  convlstm(settings, facts, outputs) {
    if (facts.task === "classification") refuseData("convlstm", facts, "an answer per pixel");
    const { channels } = imageSizes(settings, facts), { history: steps = 1 } = facts.input;
    if (steps === 1) {
      throw new UserError(
        "usage",
        "the model convlstm follows steps of time, and a sample has one: give it several with --history 12, say.",
      );
    }
    const { layers, padding } = settings;
    if (layers === 0) throw new UserError("usage", "the model convlstm needs at least --layers 1.");
    return convLstm({
      ...{ channels, steps, layers, outputs, padding },
      filters: settings.width || 32,
      dropout: ownDropout(settings),
    });
  },
};
