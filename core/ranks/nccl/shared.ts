// Memory that the training thread shares with the thread that watches NCCL: events by slot, how far both have come,
// and why NCCL failed.

/** Words: collectives queued; waits of the computing stream that were begun, and that were measured; why to stop. */
export const QUEUED = 0, WAITS = 1, MEASURED = 2, REQUEST = 3, FAILED = 4;
const WORDS = 16;

/** What the training thread tells the watching one. */
export const GO_ON = 0, STOP = 1, ABORT = 2;

/** Collectives under way at a time; the training thread waits when all are taken. And waits that can be measured. */
export const SLOTS = 256, PAIRS = 64;

/** Events of a slot: the tensor is ready; the collective begins, and is done. */
export const READY = 0, BEGUN = 1, DONE = 2;
const EVENTS = 3;

const LAST_WORDS = 4096;
const SECONDS_AT = 4 * WORDS, EVENTS_AT = SECONDS_AT + 8, PAIRS_AT = EVENTS_AT + 8 * EVENTS * SLOTS;
const LAST_WORDS_AT = PAIRS_AT + 16 * PAIRS;

export interface NcclShared {
  readonly shared: SharedArrayBuffer;
  readonly words: Int32Array<SharedArrayBuffer>;
  /** Seconds that the computing stream waited. */
  readonly waited: Float64Array;
  readonly events: BigUint64Array;
  /** Before and behind a wait. */
  readonly pairs: BigUint64Array;
  readonly lastWords: Uint8Array;
}

export function openNcclShared(shared = new SharedArrayBuffer(LAST_WORDS_AT + LAST_WORDS)): NcclShared {
  return {
    shared,
    words: new Int32Array(shared, 0, WORDS),
    waited: new Float64Array(shared, SECONDS_AT, 1),
    events: new BigUint64Array(shared, EVENTS_AT, EVENTS * SLOTS),
    pairs: new BigUint64Array(shared, PAIRS_AT, 2 * PAIRS),
    lastWords: new Uint8Array(shared, LAST_WORDS_AT),
  };
}

export const eventOf = ({ events }: NcclShared, ticket: number, which: number): bigint =>
  events[EVENTS * (ticket % SLOTS) + which];

export const pairOf = ({ pairs }: NcclShared, wait: number, behind: 0 | 1): bigint =>
  pairs[2 * (wait % PAIRS) + behind];

/** Whether the training thread has come to `wait` or `ticket`: counted modulo 2^32, and nobody is 2^31 behind. */
export const reached = ({ words }: NcclShared, word: number, number: number): boolean =>
  ((Atomics.load(words, word) - number) | 0) >= 0;

export function fail({ words, lastWords }: NcclShared, sentence: string): void {
  if (Atomics.load(words, FAILED) !== 0) return; // the first reason is the one to tell
  lastWords.fill(0).set(new TextEncoder().encode(sentence).subarray(0, LAST_WORDS - 1));
  Atomics.store(words, FAILED, 1);
}

/** Why NCCL failed, or nothing. */
export function failure({ words, lastWords }: NcclShared): string | null {
  if (Atomics.load(words, FAILED) === 0) return null;
  return new TextDecoder().decode(lastWords.slice(0, lastWords.indexOf(0)));
}
