// Forward and backward block by block: each block has a graph of its own, so its gradients are known to be whole as
// soon as its backward returns, and can be reduced while the block before it is at work. May import ffi, models, blocks.
import { autocast } from "../../../ffi/autocast.ts";
import { backward, boundary, gradOf } from "../../../ffi/autograd.ts";
import { isFloating } from "../../../ffi/dtype.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Activation } from "../../models/model.ts";
import { backwardThroughNorms, type Norm, takeNorms } from "../../models/nn/sync_batch_norm.ts";
import { backwardFrom, type BlockDone, list, type Outcome, type Pass, type Weight } from "../blocks.ts";

/** What a block made, and the leaf that stands for it in the blocks behind: it gathers their gradients. */
interface Cut {
  readonly made: Tensor;
  readonly leaf: Tensor;
}

/** As `straight`, with the same bits. Made in the caller's scope. */
export function segmented(
  p: Pass,
  input: Tensor,
  target: Tensor,
  weight: Weight,
  done: BlockDone | null,
): Outcome {
  const { blocks } = p.model;
  const last = blocks.length - 1;
  const run = (i: number, x: Activation) => {
    p.seeds?.seed(i);
    return scope(() => blocks[i].forward(x));
  };
  const cuts: Cut[][] = [];
  const norms: (readonly Norm[])[] = [];
  let x: Activation = input;
  for (let i = 0; i < last; i++) {
    const before: Activation = x;
    const made = autocast(p.cast, p.onGpu, () => run(i, before));
    const cut: Cut[] = [];
    x = through(made, list(before), cut);
    cuts.push(cut);
    norms.push(takeNorms());
  }
  const top = autocast(p.cast, p.onGpu, () => {
    const output = run(last, x) as Tensor;
    return { output, loss: p.loss.apply(output, target) };
  });
  norms.push(takeNorms());
  backward(top.loss, weight, norms[last].length > 0);
  backwardThroughNorms(norms[last]);
  done?.(last);
  for (let i = last - 1; i >= 0; i--) {
    const cut = cuts[i];
    scope(() =>
      backwardFrom(cut.map(({ made }) => made), cut.map(({ leaf }) => gradOf(leaf)), norms[i].length > 0)
    );
    backwardThroughNorms(norms[i]);
    for (const { made, leaf } of cut) {
      made.free();
      leaf.free();
    }
    done?.(i);
  }
  return top;
}

/** What was only handed on is a leaf already. */
function through(made: Activation, before: readonly Tensor[], cut: Cut[]): Activation {
  const one = (t: Tensor) => {
    if (before.includes(t) || !isFloating(t.dtype)) return t;
    const leaf = boundary(t);
    cut.push({ made: t, leaf });
    return leaf;
  };
  return Array.isArray(made) ? made.map(one) : one(made as Tensor);
}
