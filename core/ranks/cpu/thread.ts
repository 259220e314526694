// The communication thread (entry of a Worker): it alone calls MPI, or moves data by shared memory or TCP, one
// command after the other. It never loads libtorch.
import { LostRank } from "../../../ffi/ranks/tcp.ts";
import type { Transport } from "../../../ffi/ranks/transport.ts";
import {
  begin,
  COLLECTIVES,
  end,
  type FlightRecorder,
  openFlightRecorder,
  recorded,
} from "../flight_recorder.ts";
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
  slotOffset,
  TYPES,
  VERB,
  WHAT,
} from "./ring.ts";
import { openTransport, type TransportOptions } from "../../../ffi/ranks/open_transport.ts";
import type { ThreadScope } from "../../base/threads.ts";

declare const self: ThreadScope;

export interface CpuThreadOptions {
  readonly transport: TransportOptions;
  readonly ring: SharedArrayBuffer;
  readonly flight: SharedArrayBuffer;
  /** The rank and the world that the launcher told: the thread goes on only if MPI says the same. */
  readonly rank: number;
  readonly world: number;
}

/** What came of opening it; the second one comes when it was closed. */
export type CpuThreadAnswer =
  | { readonly version: string; readonly rank: number; readonly size: number }
  | { readonly failed: string }
  | { readonly closed: true };

self.onmessage = ({ data: orders }: MessageEvent<CpuThreadOptions>) => {
  const answer = (a: CpuThreadAnswer) => self.postMessage(a);
  const ring = openRing(orders.ring);
  let transport: Transport;
  try {
    transport = openTransport(orders.transport, restOf(ring));
  } catch (error) {
    return answer({ failed: textOf(error) });
  }
  const { version, rank, size } = transport;
  answer({ version, rank, size });
  if (rank !== orders.rank || size !== orders.world) return;
  work(transport, ring, openFlightRecorder(orders.flight));
  const failed = failure(ring);
  answer(failed === null ? { closed: true } : { failed });
};

const never = new Int32Array(new SharedArrayBuffer(4));
const LOST_MS = 2000;

/** Until it is told to close, or something fails. */
function work(transport: Transport, ring: Ring, flight: FlightRecorder): void {
  for (let sequence = 1, verb = ""; verb !== "close"; sequence++) {
    while (!reached(ring, QUEUED, sequence)) Atomics.wait(ring.words, QUEUED, (sequence - 1) | 0);
    const slot = slotOf(sequence);
    verb = COLLECTIVES[ring.words[slotOffset(slot) + VERB]];
    begin(flight, sequence);
    try {
      run(transport, ring, slot);
    } catch (error) {
      // Who watches the ranks knows by then why one is gone, and its word is the better one.
      if (error instanceof LostRank) Atomics.wait(never, 0, 0, LOST_MS);
      const phase = recorded(flight, sequence)?.phase;
      return fail(
        ring,
        `Communication between ranks failed in ${verb} ${sequence} (${phase}): ${
          textOf(error)
        } (${transport.version}).`,
      );
    }
    end(flight, sequence);
    Atomics.store(ring.words, DONE, sequence | 0);
    Atomics.notify(ring.words, DONE);
  }
}

/**
 * Between two looks at a collective. While training computes it is a sleep, at first only as long as it takes to let somebody
 * else have the core: MPI itself would spin, and backward would share its cores with what hides behind it. While training
 * waits there is a core to spin on.
 */
const restOf = ({ words }: Ring) => (looks: number, crowded: boolean): void => {
  if (!crowded && Atomics.load(words, AWAITED) === 1) return;
  Atomics.wait(never, 0, 0, looks < 50 ? 0.01 : 0.2);
};

function run(transport: Transport, { words, counts, addresses }: Ring, slot: number): void {
  const at = slotOffset(slot), count = counts[slot], what = words[at + WHAT];
  const into = addresses[2 * slot], from = addresses[2 * slot + 1];
  switch (COLLECTIVES[words[at + VERB]]) {
    case "all-reduce":
      return transport.allReduce(into, count, TYPES[what], OPS[words[at + OP]]);
    case "broadcast":
      return transport.broadcast(into, count, what);
    case "all-gather":
      return transport.allGather(into, from, count);
    case "reduce-scatter":
      return transport.reduceScatter(into, from, count, TYPES[what]);
    case "barrier":
      return transport.barrier();
    case "split":
      return transport.split(what);
    case "share":
      addresses[2 * slot] = transport.share(count);
      return;
    case "close":
      return transport.finalize();
  }
}

const textOf = (error: unknown): string => error instanceof Error ? error.message : String(error);
