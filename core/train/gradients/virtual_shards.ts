// --deterministic=world: gradients of virtual shards are added in one fixed tree, so the bits don't depend on
// the number of ranks.
import { isFloating } from "../../../ffi/dtype.ts";
import { add, constant, ones, sub, zero_, zeros } from "../../../ffi/make.ts";
import { cat, clamp, clone, copy_, div, foreachAddcmul_, narrow, reshape, select } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Arena } from "../arena.ts";
import {
  type MicroBatch,
  nodesWithin,
  type Shards,
  shardsOfRank,
  type ShardSum,
  type Share,
  treeSum,
} from "../micro_batch.ts";
import type { Collectives } from "../../ranks/collectives.ts";
import { checkpointed, straight } from "../blocks.ts";
import {
  accumulate,
  type GradientStrategy,
  type MicroBatchOptions,
  plainGradients,
  type StepWatch,
} from "./strategy.ts";

/**
 * Gives the sums of all ranks, or of any nodes of the tree that cover it. A rank that holds a whole node has
 * one sum to give.
 */
export type CombineSums = (own: readonly ShardSum<Tensor>[]) => readonly ShardSum<Tensor>[];

/** @internal */
interface VirtualShards extends Shards {
  readonly combine: CombineSums;
  readonly arena: Arena;
  /** Forward changes these: averaged statistics, and counters of batches. */
  readonly statistics: readonly Tensor[];
  readonly counters: readonly Tensor[];
  readonly buffers: Tensor[];
}

export const alone: CombineSums = (own) => own;

export function openVirtualShards(
  { count, rank, world, combine }: Pick<VirtualShards, "count" | "combine"> & {
    readonly rank: number;
    readonly world: number;
  },
  arena: Arena,
  buffers: readonly Tensor[],
): VirtualShards {
  const floating = (t: Tensor) => isFloating(t.dtype);
  return {
    count,
    own: shardsOfRank(count, rank, world),
    combine,
    arena,
    statistics: buffers.filter(floating),
    counters: buffers.filter((t) => !floating(t)),
    buffers: [],
  };
}

export function shardedGradients(v: VirtualShards, options: MicroBatchOptions): GradientStrategy {
  let before: State, own: readonly ShardSum<Tensor>[];
  return {
    ...plainGradients(options),
    shards: v,
    zero() {
      before = shardState(v);
    },
    forwardBackward(batches, shares, watch) {
      own = ownSums(v, before, (shard) => computeShard(options, shard, batches, shares, watch));
      return null; // the losses are in the sums
    },
    reduce: () => scope(() => combineSums(v, before, v.combine(own))),
  };
}

/** Returns the shard's loss; null where nothing in it counts. */
export function computeShard(
  options: MicroBatchOptions,
  shard: number,
  batches: readonly MicroBatch[],
  shares: readonly Share[],
  { observe, pauses }: StepWatch,
): Tensor | null {
  const { pass: { seeds }, checkpointing, compiled } = options;
  if (seeds) seeds.share = shard;
  const mine = (_: unknown, i: number) => batches[i].shard === shard;
  const own = batches.filter(mine);
  const plain = checkpointing ? checkpointed : straight, run = compiled?.over(plain) ?? plain;
  const micro = { ...options, run, done: null, empty: null };
  const watch = { observe, pauses: { next: pauses.next, rest() {} } }; // ranks meet after the last shard
  micro.compiled?.begin();
  const loss = accumulate(micro, own, shares.filter(mine), watch, own.length);
  if (loss !== null) pauses.next();
  return loss;
}

/** The model's buffers as the step finds them. */
interface State {
  readonly statistics: readonly Tensor[];
  readonly counters: readonly Tensor[];
}

export const shardState = (v: VirtualShards): State => ({
  statistics: v.statistics.map((t) => clone(t)),
  counters: v.counters.map((t) => clone(t)),
});

/** The sums lie in buffers that the next step uses again. */
export function ownSums(
  v: VirtualShards,
  before: State,
  compute: (shard: number) => Tensor | null,
): ShardSum<Tensor>[] {
  const free = [...v.buffers];
  const leaf = (shard: number) => {
    const into = free.pop() ?? another(v);
    scope(() => fill(into, v, before, () => compute(shard)));
    return into;
  };
  const both = (left: Tensor, right: Tensor) => {
    addTo(left, right);
    free.push(right);
    return left;
  };
  return nodesWithin(v.own, v.count).map((node) => {
    const value = treeSum(node, (from, to) => to - from === 1 ? leaf(from) : undefined, both);
    return { ...node, value };
  });
}

function another(v: VirtualShards): Tensor {
  const buffer = keep(zeros([sizeOf(v)], v.arena.gradient));
  v.buffers.push(buffer);
  return buffer;
}

/** One vector: gradient, changes of the statistics, loss, and 1 for having had samples. */
function fill(into: Tensor, v: VirtualShards, before: State, compute: () => Tensor | null): void {
  const { gradient } = v.arena, { numel } = gradient;
  zero_(gradient);
  v.statistics.forEach((t, i) => copy_(t, before.statistics[i]));
  const loss = compute();
  if (loss === null) return void zero_(into);
  const changes = v.statistics.map((t, i) => reshape(sub(t, before.statistics[i]), [-1]));
  const rest = cat([...changes, reshape(loss, [1]), ones([1], gradient)]);
  copy_(narrow(into, 0, 0, numel), gradient);
  copy_(narrow(into, 0, numel, rest.numel), rest);
}

/** Allocating the sum would take far longer than adding. */
function addTo(left: Tensor, right: Tensor): void {
  const one = constant(1, left.dtype), same = constant(1, left.dtype, left.device);
  scope(() => foreachAddcmul_([left], [right], [reshape(same, [1])], reshape(one, [1])));
}

const sizeOf = ({ arena, statistics }: VirtualShards): number =>
  arena.gradient.numel + statistics.reduce((sum, t) => sum + t.numel, 0) + 2;

/** It uses up the sums. */
function combineSums(v: VirtualShards, before: State, sums: readonly ShardSum<Tensor>[]): Tensor {
  return scope(() => {
    const known = (from: number, to: number) => sums.find((s) => s.from === from && s.to === to)?.value;
    const total = treeSum({ from: 0, to: v.count }, known, (left, right) => {
      addTo(left, right);
      return left;
    });
    let at = 0;
    const next = (count: number) => narrow(total, 0, (at += count) - count, count);
    copy_(v.arena.gradient, next(v.arena.gradient.numel));
    const changes = v.statistics.map((t) => next(t.numel));
    const loss = reshape(next(1), []), one = constant(1, total.dtype, total.device);
    const shards = clamp(next(1), one); // in a step where nothing counts, no shard had samples
    v.statistics.forEach((t, i) =>
      copy_(t, add(before.statistics[i], reshape(div(changes[i], shards), t.shape)))
    );
    v.counters.forEach((t, i) => copy_(t, add(before.counters[i], constant(1, t.dtype, t.device))));
    return clone(loss);
  });
}

export function combineOver(collectives: Collectives, shards: number): CombineSums {
  const { world } = collectives;
  const nodes = Array.from(
    { length: world },
    (_, rank) => nodesWithin(shardsOfRank(shards, rank, world), shards),
  );
  const most = Math.max(...nodes.map((of) => of.length));
  return (own) => {
    const { numel, dtype, device } = own[0].value;
    const mine = zeros([most, numel], { dtype, device });
    own.forEach(({ value }, i) => copy_(select(mine, 0, i), value));
    const all = zeros([world, most, numel], { dtype, device });
    collectives.wait(collectives.allGather(all, mine, "gradients of virtual shards"));
    return nodes.flatMap((of, rank) => {
      const theirs = select(all, 0, rank);
      return of.map((node, i): ShardSum<Tensor> => ({ ...node, value: select(theirs, 0, i) }));
    });
  };
}
