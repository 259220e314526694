// One optimizer step's samples, cut into parts. Where samples are mixed in pairs, a part also reads the one or two that
// its own are paired with across its ends. May import order, source.
import { globalRange, type Order } from "./order.ts";
import type { Part } from "./source.ts";

export interface Cut {
  /** Samples of a step over all ranks, and of one part. */
  readonly global: number;
  readonly micro: number;
}

/** The parts of this rank's slice of global batch `step` of an epoch. */
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

/** The parts of these virtual shards, of all that a global batch is cut into. */
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

function plain(order: Order, first: number, from: number, to: number, epoch: number): Part {
  const ids = new Int32Array(to - from);
  for (let i = 0; i < ids.length; i++) ids[i] = order.at(first + from + i);
  return { epoch, ids, count: ids.length, mates: null };
}

/** Positions 0 and 1 of a global batch are a pair, 2 and 3, and so on, wherever it is cut; a last one alone has none. */
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
