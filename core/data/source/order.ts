// Each rank computes which samples it takes and when from the seed, epoch and position.
import { key, permutation } from "../../base/random.ts";
import type { Part } from "./source.ts";
import { formatPlural } from "../../base/format.ts";
import type { Config } from "../../settings/settings.ts";
import { ALL_SAMPLES } from "../../settings/sections/data.ts";

/** The order of one epoch. */
export interface Order {
  /** Samples of an epoch. */
  readonly length: number;
  /** Positions go from 0 to length - 1. */
  at(position: number): number;
}

/** The seed and the epoch alone decide the permutation; without `shuffle` it is 0, 1, 2, .... */
export function order(length: number, seed: number, epoch: number, shuffle: boolean): Order {
  return { length, at: shuffle ? permutation(length, key(seed, "order", epoch)) : (position) => position };
}

/** `first` is the batch's place in the epoch; the others are within the batch. */
interface GlobalRange {
  readonly first: number;
  /** The last batch of an epoch may have fewer. */
  readonly count: number;
  readonly from: number;
  readonly to: number;
}

/**
 * All ranks' slices make up the same samples in the same order for any number of ranks; their sizes differ by
 * at most one.
 */
function globalRange(
  { length }: Order,
  index: number,
  globalBatchSize: number,
  rank: number,
  world: number,
): GlobalRange {
  const first = index * globalBatchSize;
  const count = Math.max(0, Math.min(globalBatchSize, length - first));
  const share = (rank: number) => Math.floor(rank * count / world);
  return { first, count, from: share(rank), to: share(rank + 1) };
}

/** The samples of that slice. */
export function globalBatch(
  order: Order,
  index: number,
  globalBatchSize: number,
  rank: number,
  world: number,
): Int32Array {
  const { first, from, to } = globalRange(order, index, globalBatchSize, rank, world);
  const ids = new Int32Array(to - from);
  for (let i = 0; i < ids.length; i++) ids[i] = order.at(first + from + i);
  return ids;
}

interface Split {
  readonly train: Int32Array;
  readonly val: Int32Array;
}

/**
 * The two sets are disjoint and ascending, a function of the seed alone. `part` is validation's share, or the
 * most samples of each set.
 */
export function splitIndices(
  total: number,
  part: number | { readonly train: number; readonly val: number },
  seed: number,
): Split {
  const val = typeof part === "number" ? heldOut(total, part) : Math.min(part.val, total);
  const train = typeof part === "number" ? total - val : Math.min(part.train, total - val);
  const at = permutation(total, key(seed, "split"));
  // Marks are in order, so nothing has to be sorted; who is left when validation has its own is not asked for.
  const marks = new Uint8Array(total);
  if (train + val === total) marks.fill(TRAIN);
  for (let i = 0; i < val; i++) marks[at(i)] = VAL;
  if (train + val < total) { for (let i = val; i < val + train; i++) marks[at(i)] = TRAIN; }
  const take = (mark: number, count: number) => {
    const found = new Int32Array(count);
    for (let i = 0, next = 0; next < count; i++) if (marks[i] === mark) found[next++] = i;
    return found;
  };
  return { train: take(TRAIN, train), val: take(VAL, val) };
}

/** As many samples as settings want; a share of them validates, unless `validated` has samples of its own. */
export function divide(
  total: number,
  data: Pick<Config["data"], "train_samples" | "val_samples" | "validation_split">,
  seed: number,
  validated = false,
): Split {
  const held = validated || data.val_samples === 0 ? 0 : heldOut(total, data.validation_split);
  const part = { train: Math.min(data.train_samples, total - held), val: Math.min(data.val_samples, held) };
  return splitIndices(total, part, seed);
}

/** Some of all samples, at random and in order. */
export const someOf = (total: number, most: number, seed: number): Int32Array =>
  splitIndices(total, { train: most, val: 0 }, seed).train;

const TRAIN = 1, VAL = 2;

/** Either side has at least one sample, where there are two. */
export function heldOut(total: number, share: number): number {
  return share === 0 || total < 2 ? 0 : Math.min(Math.max(Math.round(total * share), 1), total - 1);
}

const POSITIONS_HASHED = 1024;

/**
 * Eight hex digits tell two orders apart, by their length and a spread of positions. `indices` maps the order
 * to the data's samples.
 */
export function orderHash(order: Order, indices: Int32Array | null = null): string {
  const count = Math.min(order.length, POSITIONS_HASHED);
  const seen = Array.from({ length: count }, (_, i) => {
    const id = order.at(Math.floor(i * order.length / count));
    return indices ? indices[id] : id;
  });
  return (key(order.length, ...seen) & 0xffffffffn).toString(16).padStart(8, "0");
}

// Where samples are mixed in pairs, a part also reads the one or two mates across its ends.

interface Cut {
  /** The samples of a step over all ranks, and of one part. */
  readonly global: number;
  readonly micro: number;
}

/** The parts belong to this rank's slice of global batch `step`. */
export function partsOf(
  order: Order,
  step: number,
  { global, micro }: Cut,
  epoch: number,
  mixing: boolean,
  rank = 0,
  world = 1,
): Part[] {
  const { first, count, from, to } = globalRange(order, step, global, rank, world);
  const parts: Part[] = [];
  for (let at = from; at < to; at += micro) {
    const until = Math.min(at + micro, to);
    parts.push(
      mixing ? paired(order, first, count, at, until, epoch) : plain(order, first, at, until, epoch),
    );
  }
  return parts;
}

/** The parts belong to these virtual shards of a global batch. */
export function partsOfShards(
  order: Order,
  step: number,
  cut: Cut,
  epoch: number,
  mixing: boolean,
  { from, to }: { from: number; to: number },
  shards: number,
): Part[] {
  return Array.from({ length: to - from }, (_, i) => from + i).flatMap((shard) =>
    partsOf(order, step, cut, epoch, mixing, shard, shards).map((part) => ({ ...part, shard }))
  );
}

/** Small parts lie side by side, since memory of its own costs each more than the numbers do. */
const POOL = 1024;
let pool = new Int32Array(POOL), used = 0;

function roomFor(count: number): Int32Array {
  if (2 * count > POOL) return new Int32Array(count);
  if (used + count > POOL) {
    pool = new Int32Array(POOL);
    used = 0;
  }
  return pool.subarray(used, used += count);
}

function plain(order: Order, first: number, from: number, to: number, epoch: number): Part {
  const ids = roomFor(to - from);
  for (let i = 0; i < ids.length; i++) ids[i] = order.at(first + from + i);
  return { epoch, ids, count: ids.length, mates: null };
}

/** Positions 0 and 1 of a global batch are a pair, 2 and 3, and so on; a last one alone has none. */
function paired(
  order: Order,
  first: number,
  globalCount: number,
  from: number,
  to: number,
  epoch: number,
): Part {
  const positions = Array.from({ length: to - from }, (_, i) => from + i);
  const mates = Int32Array.from(positions, (position, i) => {
    const other = position ^ 1;
    if (other >= globalCount) return i;
    if (other >= from && other < to) return other - from;
    return positions.push(other) - 1;
  });
  return { epoch, ids: Int32Array.from(positions, (at) => order.at(first + at)), count: to - from, mates };
}

/** Notes name the setting that leaves samples out. */
export function unusedNote(unused: number, data: Config["data"], noun = "sample"): string[] {
  if (unused === 0) return [];
  const limits = (["train_samples", "val_samples"] as const).filter((name) => data[name] < ALL_SAMPLES)
    .map((name, i) => `${name} ${i === 0 ? "is " : ""}${data[name]}`);
  return [`Not used: ${formatPlural(unused, noun)}, because ${limits.join(" and ")}`];
}
