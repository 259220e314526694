// The ring of commands between the training thread and the communication thread. Only ffi reads and writes
// its addresses.
import { type FailureNote, NOTE_BYTES, openFailureNote } from "../../core/base/threads.ts";
import type { Transport } from "./transport.ts";

/** The last one is the engine's end, which ranks come to as well. */
export const COLLECTIVES = [
  "all-reduce",
  "broadcast",
  "all-gather",
  "reduce-scatter",
  "barrier",
  "split",
  "share",
  "close",
] as const;
export type CollectiveName = typeof COLLECTIVES[number];

export const QUEUED = 0, DONE = 1, AWAITED = 3;
const FAILED = 2;

export const SLOTS = 256;

/**
 * The words of a slot: a number of COLLECTIVES; the type, the rank a broadcast comes from, or a part's
 * number; the operation.
 */
export const VERB = 0, WHAT = 1, OP = 2;
const SLOT_WORDS = 4;
const HEADER = 16;

/** MPI knows the first five of them: not every library has numbers of 16 bits. */
export const RING_TYPES = ["f32", "f64", "i32", "i64", "u8", "bf16", "f16"] as const;
export const MPI_TYPES = 5;
export const OPS = ["sum", "max", "min"] as const;

export interface Ring {
  readonly shared: SharedArrayBuffer;
  readonly words: Int32Array<SharedArrayBuffer>;
  /** Elements or bytes, as the verb counts. */
  readonly counts: Float64Array;
  /** Two a slot: the memory that changes, and the memory that is only read. */
  readonly addresses: BigUint64Array;
  readonly failure: FailureNote;
}

const COUNTS_AT = 4 * (HEADER + SLOT_WORDS * SLOTS);
const ADDRESSES_AT = COUNTS_AT + 8 * SLOTS;
const FAILURE_AT = ADDRESSES_AT + 16 * SLOTS;

export function openRing(shared = new SharedArrayBuffer(FAILURE_AT + NOTE_BYTES)): Ring {
  const words = new Int32Array(shared, 0, COUNTS_AT / 4);
  return {
    shared,
    words,
    counts: new Float64Array(shared, COUNTS_AT, SLOTS),
    addresses: new BigUint64Array(shared, ADDRESSES_AT, 2 * SLOTS),
    failure: openFailureNote(words, FAILED, FAILURE_AT),
  };
}

export const slotOf = (sequence: number): number => sequence % SLOTS;
export const slotOffset = (slot: number): number => HEADER + SLOT_WORDS * slot;

export const verbAt = ({ words }: Ring, sequence: number): CollectiveName =>
  COLLECTIVES[words[slotOffset(slotOf(sequence)) + VERB]];

export function perform(transport: Transport, ring: Ring, sequence: number): void {
  const { words, counts, addresses } = ring;
  const slot = slotOf(sequence), at = slotOffset(slot);
  const count = counts[slot], what = words[at + WHAT];
  const into = addresses[2 * slot], from = addresses[2 * slot + 1];
  switch (COLLECTIVES[words[at + VERB]]) {
    case "all-reduce":
      return transport.allReduce(into, count, RING_TYPES[what], OPS[words[at + OP]]);
    case "broadcast":
      return transport.broadcast(into, count, what);
    case "all-gather":
      return transport.allGather(into, from, count);
    case "reduce-scatter":
      return transport.reduceScatter(into, from, count, RING_TYPES[what]);
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
