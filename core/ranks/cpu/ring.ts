// The ring of commands in shared memory between the training thread and the communication thread: what to do in
// order, how much is done, and why it stopped.

/**
 * Words: how many commands were queued and how many are done, both counted modulo 2^32; whether the engine failed; whether
 * the training thread waits.
 */
export const QUEUED = 0, DONE = 1, FAILED = 2, AWAITED = 3;

/** Slots; the training thread waits when all are taken. */
export const SLOTS = 256;

/** Of a slot's words: what to do (a number of COLLECTIVES); the type, the rank a broadcast comes from, or a part's number; the operation. */
export const VERB = 0, WHAT = 1, OP = 2;
const SLOT_WORDS = 4;
const HEADER = 16;

/** MPI knows the first five of them: not every library has numbers of 16 bits. */
export const TYPES = ["f32", "f64", "i32", "i64", "u8", "bf16", "f16"] as const;
export const MPI_TYPES = 5;
export const OPS = ["sum", "max", "min"] as const;

export interface Ring {
  readonly shared: SharedArrayBuffer;
  readonly words: Int32Array<SharedArrayBuffer>;
  /** Elements or bytes, as the verb counts. */
  readonly counts: Float64Array;
  /** Two a slot: the memory that changes, and the memory that is only read. */
  readonly addresses: BigUint64Array;
  /** Why the engine failed, as UTF-8 that ends with a zero. */
  readonly lastWords: Uint8Array;
}

const LAST_WORDS = 4096;
const COUNTS_AT = 4 * (HEADER + SLOT_WORDS * SLOTS);
const ADDRESSES_AT = COUNTS_AT + 8 * SLOTS;
const LAST_WORDS_AT = ADDRESSES_AT + 16 * SLOTS;

export function openRing(shared = new SharedArrayBuffer(LAST_WORDS_AT + LAST_WORDS)): Ring {
  return {
    shared,
    words: new Int32Array(shared, 0, COUNTS_AT / 4),
    counts: new Float64Array(shared, COUNTS_AT, SLOTS),
    addresses: new BigUint64Array(shared, ADDRESSES_AT, 2 * SLOTS),
    lastWords: new Uint8Array(shared, LAST_WORDS_AT),
  };
}

/** The slot of a command, and where its words begin. */
export const slotOf = (sequence: number): number => sequence % SLOTS;
export const slotOffset = (slot: number): number => HEADER + SLOT_WORDS * slot;

/** Whether as many are counted at `word`, which may have gone round since: nobody is 2^31 behind. */
export const reached = ({ words }: Ring, word: number, sequence: number): boolean =>
  ((Atomics.load(words, word) - sequence) | 0) >= 0;

export function fail(ring: Ring, sentence: string): void {
  const bytes = new TextEncoder().encode(sentence).subarray(0, LAST_WORDS - 1);
  ring.lastWords.fill(0).set(bytes);
  Atomics.store(ring.words, FAILED, 1);
  Atomics.notify(ring.words, DONE);
}

/** Why the engine failed, or nothing. */
export function failure({ words, lastWords }: Ring): string | null {
  if (Atomics.load(words, FAILED) === 0) return null;
  return new TextDecoder().decode(lastWords.slice(0, lastWords.indexOf(0)));
}
