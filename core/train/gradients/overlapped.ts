// Reduces gradients bucket by bucket over ranks while backward runs block by block.
import type { Collectives, Ticket } from "../../ranks/collectives.ts";
import type { Activation, Model } from "../../models/model.ts";
import type { Arena } from "../arena.ts";
import { fill_, longLivedZeros, zeros } from "../../../ffi/make.ts";
import { clone, copy_, detach, narrow, reshape } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { type Bucket, bucketElements, bucketsOf, firstBlocks } from "./buckets.ts";
import { autocast } from "../../../ffi/context.ts";
import { backward, boundary, gradOf } from "../../../ffi/autograd.ts";
import { handedOn, tape } from "../../../ffi/tape.ts";
import { isFloating } from "../../../ffi/dtype.ts";
import { UserError } from "../../base/errors.ts";
import type { SyncedNorm } from "../../models/nn/forward_context.ts";
import { backwardThroughNorms, takeNorms } from "../../models/nn/sync_batch_norm.ts";
import {
  backwardFrom,
  type BlockDone,
  checkpointed,
  headInParts,
  inParts,
  mapped,
  type Outcome,
  outputOf,
  type Pass,
  tensorList,
  type Weight,
} from "../blocks.ts";
import type { CompiledPass, GradientCut, Run } from "../compiler.ts";
import { type Account, COMMUNICATION, COMPUTE } from "../../run/account.ts";
import { accumulate, type GradientStrategy, type MicroBatchOptions, plainGradients } from "./strategy.ts";
import type { SyncNorms } from "./sync_norms.ts";

/** How ranks that each own a part of every bucket reduce them. */
interface Partition {
  readonly buckets: readonly Bucket[];
  /** Buckets come in order. */
  reduce(bucket: number): Ticket;
  settle(): void;
}

type Reducer = ReturnType<typeof openReducer>;

export function openReducer(
  arena: Arena,
  model: Model,
  collectives: Collectives,
  bucketMegabytes: number,
  { owned = null, half = false }: { readonly owned?: Partition | null; readonly half?: boolean } = {},
) {
  if (half) refuseHalf(collectives, owned);
  const blocks = firstBlocks(arena, model);
  const buckets = owned?.buckets ??
    bucketsOf(arena.starts, arena.flat.numel, blocks, bucketElements(bucketMegabytes, collectives));
  const { gradient } = arena;
  const sent = half
    ? keep(longLivedZeros([gradient.numel], { dtype: "bf16", device: gradient.device }))
    : null;
  const part = (of: Tensor, { from, to }: Bucket) => keep(scope(() => narrow(of, 0, from, to - from)));
  const pieces = buckets.map((bucket, i) => ({
    after: bucket.after,
    slice: part(gradient, bucket),
    sent: sent && part(sent, bucket),
    phase: `gradients, bucket ${i + 1}`,
  }));
  const shared = keep(zeros([1], gradient));
  let next = 0;
  const queueFrom = (block: number): Ticket => {
    let ticket = 0;
    for (; next < pieces.length && pieces[next].after >= block; next++) {
      const { slice, sent, phase } = pieces[next];
      if (sent) copy_(sent, slice);
      ticket = owned?.reduce(next) ?? collectives.allReduce(sent ?? slice, "sum", phase);
    }
    return ticket;
  };
  return {
    buckets: pieces.length,
    cuts: bucketCuts(buckets, blocks),
    /** The gradients of this block and those behind it are whole. */
    blockDone: (block: number): void => void queueFrom(block),
    /** The arena or its owned part gets the gradient of all ranks, and the result is their loss; null adds nothing to it. */
    finish(loss: Tensor | null): Tensor {
      queueFrom(0);
      next = 0;
      if (loss === null) fill_(shared, 0);
      else scope(() => copy_(shared, reshape(loss, [1])));
      collectives.wait(collectives.allReduce(shared, "sum", "loss")); // all are done after the last
      owned?.settle();
      if (sent) copy_(gradient, sent);
      return scope(() => clone(reshape(shared, [])));
    },
  };
}

function refuseHalf({ backend }: Collectives, owned: Partition | null): void {
  const other = owned !== null
    ? "--zero 1, whose ranks update fp32 parts of the sum"
    : backend === "mpi"
    ? "MPI, which has no sum of bf16 (take NCCL, or CPUs without MPI)"
    : null;
  if (other === null) return;
  throw new UserError(
    "usage",
    `distributed.reduce bf16 does not go together with ${other}: leave one of them out.`,
  );
}

/** `norms` is set where batch norm is over all ranks. */
export function overlappedGradients(
  options: MicroBatchOptions,
  reducer: Reducer,
  norms: SyncNorms | null,
  account: Pick<Account, "lap">,
): GradientStrategy {
  const { checkpointing, compiled } = options;
  const plain = checkpointing ? checkpointed : segmented;
  const way = norms
    ? compiled ? throughNorms(norms, compiled, options) : { run: plain, empty: norms.without }
    : { run: compiled?.over(plain, reducer.cuts) ?? plain, empty: null };
  const micro = { ...options, ...way, done: reducer.blockDone };
  return {
    ...plainGradients(options),
    forwardBackward: (batches, shares, watch, passes) => accumulate(micro, batches, shares, watch, passes),
    reduce(loss) {
      account.lap(COMPUTE);
      const all = reducer.finish(loss);
      account.lap(COMMUNICATION);
      return all;
    },
  };
}

/** All ranks have one order of collectives, whichever of them has a plan: then gradients come behind all norms'. */
function throughNorms(norms: SyncNorms, compiled: CompiledPass, { pass }: MicroBatchOptions) {
  const plain: Run = (...args) => (norms.again(), segmented(...args));
  const run = compiled.over(plain, [], norms.again), last = pass.model.blocks.length - 1;
  const behind = <R>(done: BlockDone | null, body: (done: BlockDone | null) => R): R => {
    norms.begin();
    const result = body(null);
    if (done) { for (let block = last; block >= 0; block--) done(block); }
    return result;
  };
  return {
    run:
      ((p, input, target, weight, done) =>
        behind(done, (done) => run(p, input, target, weight, done))) satisfies Run,
    empty: (done: BlockDone | null) => behind(done, norms.without),
  };
}

// Each block has a graph of its own, so its gradients are reduced while the block before it is at work.

/** The leaf gathers the gradients of the blocks behind. */
interface Joint {
  readonly made: Tensor;
  readonly leaf: Tensor;
}

/** It has the same bits as `straight`. */
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
    tape.recorder?.entered(i);
    p.seeds?.seed(i);
    return scope(() => blocks[i].forward(x));
  };
  const cuts: Joint[][] = [], atRest = p.atRest ?? 0;
  const norms: (readonly SyncedNorm[])[] = [];
  let x: Activation = input;
  for (let i = 0; i < last; i++) {
    const before: Activation = x;
    const made = autocast(p.cast, p.onGpu, () => run(i, before));
    const cut: Joint[] = [];
    x = through(made, tensorList(before), cut, i >= atRest);
    cuts.push(cut);
    norms.push(takeNorms(p.model.root));
  }
  const top = inParts(p, target)
    ? headInParts(p, outputOf(x), target, weight)
    : topOf(p, () => outputOf(run(last, x)), target, weight, norms);
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

function topOf(
  p: Pass,
  last: () => Tensor,
  target: Tensor,
  weight: Weight,
  norms: (readonly SyncedNorm[])[],
): Outcome {
  const top = autocast(p.cast, p.onGpu, () => {
    const output = last();
    return { output, loss: p.loss.apply(output, target) };
  });
  const own = takeNorms(p.model.root);
  norms.push(own);
  backward(top.loss, weight, own.length > 0);
  backwardThroughNorms(own);
  return top;
}

function through(made: Activation, before: readonly Tensor[], cut: Joint[], wanted: boolean): Activation {
  return mapped(made, (t) => {
    if (before.includes(t) || !isFloating(t.dtype)) return t;
    const leaf = handedOn(t, wanted ? boundary : detach);
    cut.push({ made: t, leaf });
    return leaf;
  });
}

/** Plans are cut where a bucket is whole; what is whole behind the last cut needs none. */
function bucketCuts(buckets: readonly Bucket[], blocks: readonly number[]): GradientCut[] {
  let before = Infinity;
  return buckets.filter(({ after }, i) => after !== buckets[i + 1]?.after).map(({ after }) => {
    const parameters = blocks.flatMap((block, i) => block >= after && block < before ? [i] : []);
    before = after;
    return { block: after, parameters };
  });
}
