// --deterministic=world: the global batch is cut into a fixed number of virtual shards. The gradient of each is computed
// alone, and they are added up in one fixed tree, so the bits don't depend on how many ranks share the work.
// May import ffi, its siblings.
import { isFloating } from "../../ffi/dtype.ts";
import { add, constant, ones, sub, zero_, zeros } from "../../ffi/make.ts";
import { cat, clone, copy_, div, foreachAddcmul_, narrow, reshape } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Arena } from "./arena.ts";
import { nodesWithin, type Range, shardsOfRank, type Sum, treeSum } from "./sum_tree.ts";

/**
 * The one place where ranks meet: from this rank's sums to those of all ranks, or to any nodes of the tree that cover
 * it. A rank that holds a whole node, as each does when all numbers are powers of two, has one sum to give.
 */
export type Combine = (own: readonly Sum<Tensor>[]) => readonly Sum<Tensor>[];

/** @internal */
export interface VirtualShards {
  /** Of the whole global batch. */
  readonly count: number;
  /** Those that this rank computes. */
  readonly own: Range;
  readonly combine: Combine;
  readonly arena: Arena;
  /** What the model's forward pass changes: running statistics, which are averaged, and counters of batches. */
  readonly statistics: readonly Tensor[];
  readonly counters: readonly Tensor[];
  /** Vectors for the sums. */
  readonly buffers: Tensor[];
}

export interface ShardsWanted {
  readonly count: number;
  readonly rank: number;
  readonly world: number;
  readonly combine: Combine;
}

/** What a process that is alone combines with. */
export const alone: Combine = (own) => own;

export function openVirtualShards(
  { count, rank, world, combine }: ShardsWanted,
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

/**
 * One step's gradient, in the arena; its loss is returned. `compute` adds up the gradient of a shard there and returns
 * its loss, null for a shard without anything that counts. `meeting` is called when ranks are about to meet.
 */
export function summedOverShards(
  v: VirtualShards,
  compute: (shard: number) => Tensor | null,
  meeting: () => void = () => {},
): Tensor {
  return scope(() => {
    const before = stateOf(v);
    const own = ownSums(v, before, compute);
    meeting();
    return putTogether(v, before, v.combine(own));
  });
}

/** The model's buffers as the step finds them. */
export interface State {
  readonly statistics: readonly Tensor[];
  readonly counters: readonly Tensor[];
}

export const stateOf = (v: VirtualShards): State => ({
  statistics: v.statistics.map((t) => clone(t)),
  counters: v.counters.map((t) => clone(t)),
});

/**
 * This rank's part: gradient, change of the statistics and loss of its shards, as far as they can be added up here. The
 * sums lie in buffers that the next step uses again.
 */
export function ownSums(
  v: VirtualShards,
  before: State,
  compute: (shard: number) => Tensor | null,
): Sum<Tensor>[] {
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
  const buffer = keep(zeros([sizeOf(v)], { device: v.arena.gradient.device }));
  v.buffers.push(buffer);
  return buffer;
}

/** All that a shard gives, in one vector: gradient, changes of the statistics, loss, and 1 for having had samples. */
function fill(into: Tensor, v: VirtualShards, before: State, compute: () => Tensor | null): void {
  const { gradient } = v.arena, { device, numel } = gradient;
  zero_(gradient);
  v.statistics.forEach((t, i) => copy_(t, before.statistics[i]));
  const loss = compute();
  if (loss === null) return void zero_(into);
  const changes = v.statistics.map((t, i) => reshape(sub(t, before.statistics[i]), [-1]));
  const rest = cat([...changes, reshape(loss, [1]), ones([1], { device })]);
  copy_(narrow(into, 0, 0, numel), gradient);
  copy_(narrow(into, 0, numel, rest.numel), rest);
}

/** left += right, without memory for the sum: at the size of a model, asking for that takes far longer than adding. */
function addTo(left: Tensor, right: Tensor): void {
  const one = constant(1, "f32"), same = constant(1, "f32", left.device);
  scope(() => foreachAddcmul_([left], [right], [reshape(same, [1])], reshape(one, [1])));
}

const sizeOf = ({ arena, statistics }: VirtualShards): number =>
  arena.gradient.numel + statistics.reduce((sum, t) => sum + t.numel, 0) + 2;

/**
 * The sums of all ranks, which are used up, as one: the gradient goes to the arena, and the model's buffers move once, by
 * the mean over shards.
 */
export function putTogether(v: VirtualShards, before: State, sums: readonly Sum<Tensor>[]): Tensor {
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
    const loss = reshape(next(1), []), shards = next(1);
    v.statistics.forEach((t, i) =>
      copy_(t, add(before.statistics[i], reshape(div(changes[i], shards), t.shape)))
    );
    v.counters.forEach((t, i) => copy_(t, add(before.counters[i], constant(1, t.dtype, t.device))));
    return clone(loss);
  });
}
