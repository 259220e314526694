// mlp: linear layers with ReLU between them, named as in nn.Sequential(Linear, ReLU, ..., Linear).
import { flatten, relu_ } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { type Block, block, type Model, model } from "../model.ts";
import { Dropout, Linear } from "../nn/linear.ts";
import { Group } from "../nn/module.ts";
import { type Build, ownDropout, refuseData, sized } from "../builder.ts";

interface MlpSizes {
  readonly inputs: number;
  readonly hidden: number;
  readonly layers: number;
  readonly outputs: number;
  readonly dropout?: number;
  /** Samples have more than one dimension. */
  readonly flatten?: boolean;
}

/** A layer of fewer parameters is not worth a block of its own. */
const BLOCK = 2 ** 18;

export function mlp(sizes: MlpSizes): Model {
  const root = new Group();
  const widths = [sizes.inputs, ...new Array<number>(sizes.layers).fill(sizes.hidden), sizes.outputs];
  const layers = widths.slice(1).map((width, i) => root.add(2 * i, new Linear(widths[i], width)));
  // Dropout shares the place of the ReLU, so that names don't depend on it; "dropout" holds no tensors.
  const dropout = sizes.dropout ? root.add("dropout", new Dropout(sizes.dropout)) : null;
  const forward = (x: Tensor, from: number, to: number) => {
    if (from === 0 && sizes.flatten) x = flatten(x, 1);
    for (let i = from; i < to; i++) {
      x = layers[i].forward(x);
      if (i === sizes.layers) break;
      x = relu_(x);
      if (dropout !== null) x = dropout.forward(x);
    }
    return x;
  };
  const blocks: Block[] = [];
  for (let from = 0, to = 1; from < layers.length; from = to++) {
    while (to < layers.length && parametersOf(layers, from, to) < BLOCK) to++;
    const start = from, end = to;
    const parts = Object.fromEntries(layers.slice(start, end).map((layer, i) => [2 * (start + i), layer]));
    const name = end - start === layers.length
      ? "mlp"
      : `layers ${[...new Set([start, end - 1])].join(" to ")}`;
    blocks.push(
      block(name, new Group({ ...parts, ...dropout && { dropout } }), (x) => forward(x, start, end)),
    );
  }
  return model("mlp", root, blocks, { layers: widths.join("-") });
}

const parametersOf = (layers: readonly Linear[], from: number, to: number): number =>
  layers.slice(from, to).reduce((sum, { weight }) => sum + weight.numel, 0);

const product = (shape: readonly number[]) => shape.reduce((total, size) => total * size, 1);

export const models: Readonly<Record<string, Build>> = {
  mlp(settings, facts, outputs) {
    if (facts.task === "language" || facts.task === "segmentation") {
      refuseData("mlp", facts, "one answer per sample");
    }
    const shape = facts.input.shape;
    const inputs = sized("input_size", settings.input_size, product(shape), "features per sample");
    const { hidden_size: hidden, layers } = settings;
    return mlp({ inputs, hidden, layers, outputs, dropout: ownDropout(settings), flatten: shape.length > 1 });
  },
};
