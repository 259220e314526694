// The communication thread (entry of a Worker): it alone calls MPI, or moves data by shared memory or TCP,
// one command after the other, since calls in flight at once could start in different orders on different ranks and
// give wrong sums without a word. It never loads libtorch.
import { messageOf } from "../../base/errors.ts";
import { LostRank } from "../../../ffi/ranks/tcp.ts";
import type { Transport } from "../../../ffi/ranks/transport.ts";
import { AWAITED, DONE, openRing, perform, QUEUED, type Ring, verbAt } from "../../../ffi/ranks/ring.ts";
import {
  beginCollective,
  end,
  type FlightRecorder,
  openFlightRecorder,
  recorded,
} from "../flight_recorder.ts";
import { reached, type ThreadScope } from "../../base/threads.ts";
import { openTransport, type TransportOptions } from "../../../ffi/ranks/open_transport.ts";

declare const self: ThreadScope;

export interface CpuThreadOptions {
  readonly transport: TransportOptions;
  readonly ring: SharedArrayBuffer;
  readonly flight: SharedArrayBuffer;
  /** The thread goes on only if MPI reports the launcher's rank and world. */
  readonly rank: number;
  readonly world: number;
}

/** The first answer comes when the transport is open or can't be opened, the second when it is closed. */
export type CpuThreadAnswer =
  | { readonly version: string; readonly rank: number; readonly size: number }
  | { readonly failed: string }
  | { readonly closed: true };

self.onmessage = async ({ data: options }: MessageEvent<CpuThreadOptions>) => {
  const answer = (a: CpuThreadAnswer) => self.postMessage(a);
  const ring = openRing(options.ring);
  let transport: Transport;
  try {
    transport = await openTransport(options.transport, restOf(ring));
  } catch (error) {
    return answer({ failed: messageOf(error) });
  }
  const { version, rank, size } = transport;
  answer({ version, rank, size });
  if (rank !== options.rank || size !== options.world) return;
  work(transport, ring, openFlightRecorder(options.flight));
  const failed = ring.failure.read();
  answer(failed === null ? { closed: true } : { failed });
};

const never = new Int32Array(new SharedArrayBuffer(4));
const LOST_MS = 2000;

function work(transport: Transport, ring: Ring, flight: FlightRecorder): void {
  for (let sequence = 1, verb = ""; verb !== "close"; sequence++) {
    while (!reached(ring.words, QUEUED, sequence)) Atomics.wait(ring.words, QUEUED, (sequence - 1) | 0);
    verb = verbAt(ring, sequence);
    beginCollective(flight, sequence);
    try {
      perform(transport, ring, sequence);
    } catch (error) {
      // By then the control plane knows why the rank is gone, and its reason is the better one.
      if (error instanceof LostRank) Atomics.wait(never, 0, 0, LOST_MS);
      const phase = recorded(flight, sequence)?.phase;
      ring.failure.write(
        `Communication between ranks failed in ${verb} ${sequence} (${phase}): ${
          messageOf(error)
        } (${transport.version}).`,
      );
      return void Atomics.notify(ring.words, DONE);
    }
    end(flight, sequence);
    Atomics.store(ring.words, DONE, sequence | 0);
    Atomics.notify(ring.words, DONE);
  }
}

/**
 * The pause between two looks at a collective. While training computes it is a sleep, at first only as long
 * as it takes to give the core away: MPI itself would spin, and backward would share its cores with what
 * hides behind it. While training waits there is a core to spin on.
 */
const restOf = ({ words }: Ring) => (polls: number, crowded: boolean): void => {
  if (!crowded && Atomics.load(words, AWAITED) === 1) return;
  Atomics.wait(never, 0, 0, polls < 50 ? 0.01 : 0.2);
};
