// What a rank owns under --zero 1: one n-th of each bucket, where it lies in the arena. Sums come to it and weights go
// from it through a little memory beside the arena. May import ffi, dist (types), its siblings.
import { uninitialised } from "../../../ffi/make.ts";
import { copy_, narrow } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Collectives, Ticket } from "../../dist/collectives.ts";
import type { Arena } from "../arena.ts";
import type { Bucket } from "./buckets.ts";

export interface Owned {
  readonly buckets: readonly Bucket[];
  /** Its "parameters" are the parts of the buckets: updates are element by element, whatever parameter that is of. */
  readonly arena: Arena;
  /** Queues the sum of a bucket's gradients over ranks. Buckets come in order. */
  reduce(bucket: number): Ticket;
  /** What was reduced is in its place. */
  settle(): void;
  /** Gives every rank the weights that are owned here, and gets theirs. */
  share(): void;
}

/** Buckets that may be on their way before the first of them is waited for. */
const AHEAD = 4;

export function openOwned(arena: Arena, buckets: readonly Bucket[], collectives: Collectives): Owned {
  const { rank, world } = collectives;
  const counts = buckets.map(({ from, to }) => (to - from) / world);
  const slices = (buffer: Tensor) =>
    buckets.map(({ from, to }) => keep(scope(() => narrow(buffer, 0, from, to - from))));
  const parts = (buffer: Tensor) =>
    buckets.map(({ from }, i) => keep(scope(() => narrow(buffer, 0, from + rank * counts[i], counts[i]))));
  const own = ownArena(arena, counts, parts(arena.flat), parts(arena.gradient));
  const weights = slices(arena.flat), gradients = slices(arena.gradient);

  const ahead = Math.min(AHEAD, buckets.length), most = Math.max(...counts);
  const room = keep(uninitialised([ahead * most], { device: arena.flat.device }));
  const rooms = counts.map((count, i) => keep(scope(() => narrow(room, 0, (i % ahead) * most, count))));
  const tickets = counts.map((): Ticket => 0);
  const free = (bucket: number, then: (bucket: number) => void) => {
    if (bucket < 0 || tickets[bucket] === 0) return;
    collectives.wait(tickets[bucket]);
    tickets[bucket] = 0;
    then(bucket);
  };
  const settle = (then: (bucket: number) => void) => {
    for (let bucket = buckets.length - ahead; bucket < buckets.length; bucket++) free(bucket, then);
  };
  const put = (bucket: number) => void copy_(own.gradients[bucket], rooms[bucket]);
  const nothing = () => {};
  return {
    buckets,
    arena: own,
    reduce(bucket) {
      free(bucket - ahead, put);
      return tickets[bucket] = collectives.reduceScatter(
        rooms[bucket],
        gradients[bucket],
        `gradients, bucket ${bucket + 1}`,
      );
    },
    settle: () => settle(put),
    share() {
      for (let bucket = 0; bucket < buckets.length; bucket++) {
        free(bucket - ahead, nothing);
        copy_(rooms[bucket], own.parameters[bucket]);
        tickets[bucket] = collectives.allGather(weights[bucket], rooms[bucket], "weights");
      }
      settle(nothing);
    },
  };
}

function ownArena(
  { flat, gradient }: Arena,
  counts: readonly number[],
  parameters: readonly Tensor[],
  gradients: readonly Tensor[],
): Arena {
  const starts = counts.map((_, i) => counts.slice(0, i).reduce((sum, count) => sum + count, 0));
  const total = counts.reduce((sum, count) => sum + count, 0);
  return {
    names: counts.map((_, i) => `bucket ${i + 1}`),
    parameters,
    gradients,
    memory: gradients,
    flat: keep(scope(() => narrow(flat, 0, 0, total))), // what an optimizer asks of it is its length
    starts,
    gradient,
    direct: false,
    viewsOf: (buffer) => counts.map((count, i) => keep(scope(() => narrow(buffer, 0, starts[i], count)))),
  };
}
