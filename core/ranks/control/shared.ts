// Integers and mailboxes that a rank's training thread and its control thread share.
/** The training thread writes its step, its phase, and how often either has changed. */
export const STEP = 0, PHASE = 1, CHANGES = 2;

/**
 * The number of places of agreement that the training thread has passed; the place at which something is due,
 * or 0.
 */
export const COUNT = 3, AT = 4;

/** 1 while an agreement is made: the training thread stays at its place. */
export const HOLD = 5;

/** 1 when some rank has failed; the mailbox `error` has the failure. */
export const FAILED = 6;

export const ANSWERED = 7;

/** 1 when the training thread ends this process by itself. */
export const LEAVING = 8;

const WORD_BYTES = 4 * 16, ANSWER_BYTES = 1 << 20, ERROR_BYTES = 1 << 16, AGREED_BYTES = 1 << 12;

const SIZE = WORD_BYTES + ANSWER_BYTES + ERROR_BYTES + AGREED_BYTES;

export interface ControlMemory {
  readonly shared: SharedArrayBuffer;
  readonly words: Int32Array<SharedArrayBuffer>;
  readonly answer: Mailbox;
  readonly error: Mailbox;
  readonly agreed: Mailbox;
}

export function openControlMemory(shared = new SharedArrayBuffer(SIZE)): ControlMemory {
  return {
    shared,
    words: new Int32Array(shared, 0, WORD_BYTES / 4),
    answer: openMailbox(shared, WORD_BYTES, ANSWER_BYTES),
    error: openMailbox(shared, WORD_BYTES + ANSWER_BYTES, ERROR_BYTES),
    agreed: openMailbox(shared, WORD_BYTES + ANSWER_BYTES + ERROR_BYTES, AGREED_BYTES),
  };
}

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

/** A rank in this phase is no stall: a save to a full disk is slow, and the others wait for good reason. */
export const PATIENT: Phase = "save";

export const PHASE_NUMBER = Object.fromEntries(PHASES.map((phase, i) => [phase, i])) as Record<Phase, number>;

/** Shared memory holds one value, as JSON behind its length. */
export interface Mailbox {
  put(value: unknown): boolean;
  take<T>(): T;
}

export function openMailbox(shared: SharedArrayBuffer, at: number, size: number): Mailbox {
  const length = new DataView(shared, at, 4), buffer = new Uint8Array(shared, at + 4, size - 4);
  return {
    put(value) {
      const bytes = new TextEncoder().encode(JSON.stringify(value ?? null));
      if (bytes.length > buffer.length) return false;
      buffer.set(bytes);
      length.setUint32(0, bytes.length, true);
      return true;
    },
    take() {
      // A decoder refuses shared memory.
      return JSON.parse(new TextDecoder().decode(buffer.slice(0, length.getUint32(0, true))));
    },
  };
}
