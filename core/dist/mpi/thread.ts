// The thread that owns MPI: it alone calls it, one command after the other, in the order in which they were queued. While
// it waits for another rank it leaves its core to training: where all are on one host it sleeps (ffi/mpi/window.ts), elsewhere
// it looks now and then. May import ffi/mpi, flight, ring; never libtorch.
import { type Mpi, openMpi } from "../../../ffi/mpi/mpi.ts";
import { begin, COLLECTIVES, end, type Flight, flown, openFlight } from "../flight.ts";
import {
  AWAITED,
  DONE,
  fail,
  failure,
  OP,
  openRing,
  OPS,
  QUEUED,
  reached,
  type Ring,
  slotOf,
  TYPES,
  VERB,
  WHAT,
  wordsOf,
} from "./ring.ts";
import type { ThreadScope } from "../../thread_scope.ts";

declare const self: ThreadScope;

export interface Orders {
  readonly path: string;
  readonly ring: SharedArrayBuffer;
  readonly flight: SharedArrayBuffer;
  /** The rank and the world that the launcher told: the thread goes on only if MPI says the same. */
  readonly rank: number;
  readonly world: number;
  /** More ranks than cores: who spins keeps a core from those that it waits for. */
  readonly crowded: boolean;
}

/** What came of opening MPI; the second one comes when it was closed. */
export type Answer =
  | { readonly version: string; readonly rank: number; readonly size: number }
  | { readonly failed: string }
  | { readonly closed: true };

self.onmessage = ({ data: orders }: MessageEvent<Orders>) => {
  const answer = (a: Answer) => self.postMessage(a);
  const ring = openRing(orders.ring);
  let mpi: Mpi;
  try {
    mpi = openMpi(orders.path, restOf(ring, orders.crowded));
  } catch (error) {
    return answer({ failed: textOf(error) });
  }
  const { version, rank, size } = mpi;
  answer({ version, rank, size });
  if (rank !== orders.rank || size !== orders.world) return;
  work(mpi, ring, openFlight(orders.flight));
  const failed = failure(ring);
  answer(failed === null ? { closed: true } : { failed });
};

/** Until it is told to close, or something fails. */
function work(mpi: Mpi, ring: Ring, flight: Flight): void {
  for (let sequence = 1, verb = ""; verb !== "close"; sequence++) {
    while (!reached(ring, QUEUED, sequence)) Atomics.wait(ring.words, QUEUED, (sequence - 1) | 0);
    const slot = slotOf(sequence);
    verb = COLLECTIVES[ring.words[wordsOf(slot) + VERB]];
    begin(flight, sequence);
    try {
      run(mpi, ring, slot);
    } catch (error) {
      const phase = flown(flight, sequence)?.phase;
      return fail(
        ring,
        `Communication between ranks failed in ${verb} ${sequence} (${phase}): ${
          textOf(error)
        } (${mpi.version}).`,
      );
    }
    end(flight, sequence);
    Atomics.store(ring.words, DONE, sequence | 0);
    Atomics.notify(ring.words, DONE);
  }
}

const never = new Int32Array(new SharedArrayBuffer(4));

/**
 * Between two looks at a collective. While training computes it is a sleep, at first only as long as it takes to let somebody
 * else have the core: MPI itself would spin, and backward would share its cores with what hides behind it. While training
 * waits there is a core to spin on.
 */
const restOf = ({ words }: Ring, crowded: boolean) => (looks: number): void => {
  if (!crowded && Atomics.load(words, AWAITED) === 1) return;
  Atomics.wait(never, 0, 0, looks < 50 ? 0.01 : 0.2);
};

function run(mpi: Mpi, { words, counts, addresses }: Ring, slot: number): void {
  const at = wordsOf(slot), count = counts[slot], what = words[at + WHAT];
  const into = addresses[2 * slot], from = addresses[2 * slot + 1];
  switch (COLLECTIVES[words[at + VERB]]) {
    case "all-reduce":
      return mpi.allReduce(into, count, TYPES[what], OPS[words[at + OP]]);
    case "broadcast":
      return mpi.broadcast(into, count, what);
    case "all-gather":
      return mpi.allGather(into, from, count);
    case "reduce-scatter":
      return mpi.reduceScatter(into, from, count, TYPES[what]);
    case "barrier":
      return mpi.barrier();
    case "split":
      return mpi.split(what);
    case "share":
      addresses[2 * slot] = mpi.share(count);
      return;
    case "close":
      return mpi.finalize();
  }
}

const textOf = (error: unknown): string => error instanceof Error ? error.message : String(error);
