// mlp: linear layers with ReLU between them, named as in nn.Sequential(Linear, ReLU, ..., Linear).
// May import ffi, nn, model.
import { flatten, relu } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { block, type Model, model } from "../model.ts";
import { Dropout } from "../nn/dropout.ts";
import { Linear } from "../nn/linear.ts";
import { Module } from "../nn/module.ts";

export interface MlpSizes {
  readonly inputs: number;
  readonly hidden: number;
  /** Hidden layers. */
  readonly layers: number;
  readonly outputs: number;
  readonly dropout?: number;
  /** Whether samples have more than one dimension. */
  readonly flatten?: boolean;
}

class Mlp extends Module {
  readonly #hidden: Linear[] = [];
  readonly #last: Linear;
  readonly #dropout: Dropout | null;
  readonly #flatten: boolean;

  constructor(sizes: MlpSizes) {
    super();
    let width = sizes.inputs;
    for (let i = 0; i < sizes.layers; i++) {
      this.#hidden.push(this.child(String(2 * i), new Linear(width, sizes.hidden)));
      width = sizes.hidden;
    }
    this.#last = this.child(String(2 * sizes.layers), new Linear(width, sizes.outputs));
    // Dropout shares the place of the ReLU, so that names don't depend on it; "dropout" holds no tensors.
    this.#dropout = sizes.dropout ? this.child("dropout", new Dropout(sizes.dropout)) : null;
    this.#flatten = sizes.flatten ?? false;
  }

  forward(x: Tensor): Tensor {
    if (this.#flatten) x = flatten(x, 1);
    for (let i = 0; i < this.#hidden.length; i++) {
      x = relu(this.#hidden[i].forward(x));
      if (this.#dropout !== null) x = this.#dropout.forward(x);
    }
    return this.#last.forward(x);
  }
}

export function mlp(sizes: MlpSizes): Model {
  const root = new Mlp(sizes);
  const widths = [sizes.inputs, ...new Array(sizes.layers).fill(sizes.hidden), sizes.outputs];
  return model("mlp", root, [block("mlp", root, (x) => root.forward(x))], { layers: widths.join("-") });
}
