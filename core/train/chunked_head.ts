// The head of a language model in parts: the logits of all tokens and their gradients are the largest tensors of a
// step, and are never whole. Each part goes forward and backward before the next begins.
import { autocast } from "../../ffi/context.ts";
import { asksForGradient, backward, boundary, gradOf } from "../../ffi/autograd.ts";
import { add } from "../../ffi/make.ts";
import { cat, detach, div, narrow, reshape } from "../../ffi/ops.ts";
import { handedOn, tape, untold } from "../../ffi/tape.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { Outcome, Pass, Weight } from "./blocks.ts";

/** Fewer tokens at once would keep matrix products from their speed. */
const LEAST_TOKENS = 256;
const F32 = 4;

/** So many tokens' logits fit into `mebibytes` as f32; 0 stands for all, as it does where `mebibytes` is 0. */
export function tokensAtOnce(mebibytes: number, vocabulary: number): number {
  if (mebibytes === 0) return 0;
  return Math.max(LEAST_TOKENS, Math.floor(mebibytes * 2 ** 20 / (F32 * vocabulary)));
}

/** True where the head takes these targets in parts. */
export const inParts = ({ model, loss, tokensAtOnce, metrics }: Pass, target: Tensor): boolean =>
  tokensAtOnce !== undefined && tokensAtOnce > 0 && target.numel > tokensAtOnce && !metrics &&
  model.head !== undefined && loss.total !== undefined;

/**
 * The last block, the loss and backward, from what the block before gave. The outcome has no logits. Who records it sees
 * a loss that is the sum of the parts', and derives its gradient by himself.
 */
export function headInParts(p: Pass, x: Tensor, target: Tensor, weight: Weight): Outcome {
  const head = p.model.head!, { sum, count } = p.loss.total!, atOnce = p.tokensAtOnce!;
  const last = p.model.blocks.length - 1;
  const hidden = autocast(p.cast, p.onGpu, () => {
    tape.hears?.entered(last);
    p.seeds?.seed(last);
    return head.hidden(x);
  });
  const tokens = target.numel;
  const rows = reshape(handedOn(hidden, detach), [tokens, -1]),
    labels = reshape(target, [tokens]),
    all = count(labels);
  const gradients: Tensor[] = [];
  let loss: Tensor | null = null;
  for (let from = 0; from < tokens; from += atOnce) {
    const size = Math.min(atOnce, tokens - from);
    const part = scope(() => {
      const leaf = handedOn(narrow(rows, 0, from, size), boundary);
      const mean = autocast(
        p.cast,
        p.onGpu,
        () => div(sum(head.logits(leaf), narrow(labels, 0, from, size)), all),
      );
      untold(() => backward(mean, weight));
      return { loss: handedOn(mean, detach), gradient: untold(() => gradOf(leaf)!) };
    });
    gradients.push(part.gradient);
    loss = loss === null ? part.loss : add(loss, part.loss);
  }
  if (asksForGradient(hidden)) {
    backward(hidden, untold(() => reshape(cat(gradients, 0), hidden.shape)));
  }
  return { loss: loss!, output: rows };
}
