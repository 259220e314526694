// What a rank's training thread and its control thread share: integers (step, phase, agreement, failure) and space
// for texts; and the phases that a rank can be in.

// What a rank's training thread and its control thread share: words, and room for texts.

/** Written by the training thread: step, phase, and how often either was said. */
export const STEP = 0, PHASE = 1, CHANGES = 2;
/** Places of agreement that the training thread has come to; the one at which something is due, 0 for none. */
export const COUNT = 3, AT = 4;
/** 1 while an agreement is made: the training thread stays where it is. */
export const HOLD = 5;
/** 1 when some rank has failed; its text says which. */
export const FAILED = 6;
/** The last question of the training thread that was answered. */
export const ANSWERED = 7;
/** 1 when the training thread ends this process by itself. */
export const LEAVING = 8;

const WORDS = 16;
/** Bytes for: an answer; the first error; what was agreed on. */
export const ANSWER = { at: 0, size: 1 << 20 };
export const ERROR = { at: ANSWER.size, size: 1 << 16 };
export const AGREED = { at: ANSWER.size + ERROR.size, size: 1 << 12 };
const TEXTS = AGREED.at + AGREED.size;

export interface Shared {
  readonly words: SharedArrayBuffer;
  readonly texts: SharedArrayBuffer;
}

export const newShared = (): Shared => ({
  words: new SharedArrayBuffer(4 * WORDS),
  texts: new SharedArrayBuffer(TEXTS),
});

type Room = { readonly at: number; readonly size: number };

/** Behind its length, as JSON. False where the room is too small. */
export function put({ texts }: Shared, { at, size }: Room, value: unknown): boolean {
  const bytes = new TextEncoder().encode(JSON.stringify(value ?? null));
  if (bytes.length > size - 4) return false;
  new Uint8Array(texts, at + 4, bytes.length).set(bytes);
  new DataView(texts).setUint32(at, bytes.length, true);
  return true;
}

export function take<T>({ texts }: Shared, { at }: Room): T {
  const length = new DataView(texts).getUint32(at, true);
  // A decoder refuses shared memory.
  return JSON.parse(new TextDecoder().decode(new Uint8Array(texts, at + 4, length).slice()));
}

// What a rank can be doing, in the words of reports.

export const PHASES = [
  "starting",
  "data.next",
  "forward",
  "backward",
  "gradients",
  "optimizer",
  "evaluation",
  "save",
  "waiting for ranks",
  "ending",
] as const;

export type Phase = typeof PHASES[number];

/** No stall is called while a rank is in it: a full disk quota is slow, and the others wait for good reason. */
export const PATIENT: Phase = "save";

export const NUMBER_OF = Object.fromEntries(PHASES.map((phase, i) => [phase, i])) as Record<Phase, number>;
