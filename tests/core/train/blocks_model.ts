// A model of many blocks, whose plans take milliseconds to make. Test helper.
import { block, type Model, model } from "../../../core/models/model.ts";
import { Dropout, Linear } from "../../../core/models/nn/linear.ts";
import { Group } from "../../../core/models/nn/module.ts";
import { relu } from "../../../ffi/ops.ts";
import { add } from "../../../ffi/make.ts";
import type { Tensor } from "../../../ffi/tensor.ts";

/** Residual blocks of two layers each, between a first and a last layer. */
export function residual(blocks: number, width: number, dropout = 0): Model {
  const first = new Linear(7, width), last = new Linear(width, 1);
  const layers = Array.from({ length: blocks }, () => {
    const up = new Linear(width, 2 * width), down = new Linear(2 * width, width), drop = new Dropout(dropout);
    return { up, down, drop, module: new Group({ up, down, drop }) };
  });
  const root = new Group({ first, ...Object.fromEntries(layers.map((l, i) => [`b${i}`, l.module])), last });
  return model("residual", root, [
    block("first", first, (x) => first.forward(x as Tensor)),
    ...layers.map(({ up, down, drop, module }, i) =>
      block(`block ${i}`, module, (x) => {
        const inner = down.forward(relu(up.forward(x as Tensor)));
        return add(x as Tensor, dropout > 0 ? drop.forward(inner) : inner);
      })
    ),
    block("last", last, (x) => last.forward(x as Tensor)),
  ], { layers: String(blocks) });
}
