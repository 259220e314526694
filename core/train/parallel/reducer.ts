// Adds up the ranks' gradients while backward is at work: a bucket is on its way as soon as it is whole.
// May import ffi, dist (types), its siblings.
import { fill_, zeros } from "../../../ffi/make.ts";
import { clone, copy_, narrow, reshape } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Collectives, Ticket } from "../../dist/collectives.ts";
import type { Model } from "../../models/model.ts";
import type { Arena } from "../arena.ts";
import { bucketElements, bucketsOf, firstBlocks } from "./buckets.ts";
import type { Owned } from "./zero_parts.ts";

/** @internal */
export interface Reducer {
  readonly buckets: number;
  /** Nothing more is added to the gradients of this block, or of those behind it. */
  blockDone(block: number): void;
  /**
   * The gradient in the arena, or the part of it that is owned here, is that of all ranks, and so is the loss that is
   * returned: null adds nothing to it.
   */
  finish(loss: Tensor | null): Tensor;
}

export function openReducer(
  arena: Arena,
  model: Model,
  collectives: Collectives,
  bucketMegabytes: number,
  owned: Owned | null = null,
): Reducer {
  const buckets = owned?.buckets ??
    bucketsOf(
      arena.starts,
      arena.flat.numel,
      firstBlocks(arena, model),
      bucketElements(bucketMegabytes, collectives),
    );
  const pieces = buckets.map(({ from, to, after }, i) => ({
    after,
    slice: keep(scope(() => narrow(arena.gradient, 0, from, to - from))),
    phase: `gradients, bucket ${i + 1}`,
  }));
  const shared = keep(zeros([1], { device: arena.gradient.device }));
  let next = 0;
  const queueFrom = (block: number): Ticket => {
    let ticket = 0;
    for (; next < pieces.length && pieces[next].after >= block; next++) {
      const { slice, phase } = pieces[next];
      ticket = owned?.reduce(next) ?? collectives.allReduce(slice, "sum", phase);
    }
    return ticket;
  };
  return {
    buckets: pieces.length,
    blockDone: queueFrom,
    finish(loss) {
      queueFrom(0);
      next = 0;
      if (loss === null) fill_(shared, 0);
      else scope(() => copy_(shared, reshape(loss, [1])));
      collectives.wait(collectives.allReduce(shared, "sum", "loss")); // the last of them: all are done then
      owned?.settle();
      return scope(() => clone(reshape(shared, [])));
    },
  };
}
