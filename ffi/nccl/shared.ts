// The training thread shares this memory with the thread that watches NCCL.
import type { CudaEvent } from "./nccl.ts";
import { type FailureNote, NOTE_BYTES, openFailureNote } from "../../core/base/threads.ts";

/**
 * Words: collectives queued; waits of the computing stream that were begun, and that were measured; the
 * request to stop; why it failed; whether a thread calls NCCL.
 */
export const QUEUED = 0, WAITS = 1, MEASURED = 2, REQUEST = 3, FAILED = 4, HELD = 5;
const WORDS = 16;

export const GO_ON = 0, STOP = 1, ABORT = 2;

/**
 * Collectives under way at a time, and waits that can be measured; the training thread waits when all slots
 * are taken.
 */
export const SLOTS = 256, PAIRS = 64;

/** Events of a slot: the tensor is ready; the collective begins, and is done. */
export const READY = 0, BEGUN = 1, DONE = 2;
const EVENTS = 3;

const SECONDS_AT = 4 * WORDS, EVENTS_AT = SECONDS_AT + 8, PAIRS_AT = EVENTS_AT + 8 * EVENTS * SLOTS;
const FAILURE_AT = PAIRS_AT + 16 * PAIRS;

export interface NcclShared {
  readonly shared: SharedArrayBuffer;
  readonly words: Int32Array<SharedArrayBuffer>;
  readonly waited: Float64Array;
  readonly events: BigUint64Array;
  readonly pairs: BigUint64Array;
  readonly failure: FailureNote;
}

export function openNcclShared(shared = new SharedArrayBuffer(FAILURE_AT + NOTE_BYTES)): NcclShared {
  const words = new Int32Array(shared, 0, WORDS);
  return {
    shared,
    words,
    waited: new Float64Array(shared, SECONDS_AT, 1),
    events: new BigUint64Array(shared, EVENTS_AT, EVENTS * SLOTS),
    pairs: new BigUint64Array(shared, PAIRS_AT, 2 * PAIRS),
    failure: openFailureNote(words, FAILED, FAILURE_AT),
  };
}

/**
 * Takes the communicator for one call; false while the other thread has it. Whoever asks for its state ends the job of
 * the call before: two at once would end it twice, and NCCL then reads what it has freed.
 */
export const hold = ({ words }: NcclShared): boolean => Atomics.compareExchange(words, HELD, 0, 1) === 0;
export const release = ({ words }: NcclShared): void => void Atomics.store(words, HELD, 0);

export const eventOf = ({ events }: NcclShared, ticket: number, which: number): CudaEvent =>
  events[EVENTS * (ticket % SLOTS) + which];

export const pairOf = ({ pairs }: NcclShared, wait: number, behind: 0 | 1): CudaEvent =>
  pairs[2 * (wait % PAIRS) + behind];
