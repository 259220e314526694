// Shared memory from the training thread to the writing thread: a ring of records, a step's event as numbers, and the
// messages that start and end the thread. The writer never waits; a reader that hangs costs records, never time.
import { EVENT_FIELDS, type StepEvent } from "../events.ts";
import type { Output } from "../output.ts";
import type { SystemSetup } from "../system.ts";

/** A NOTE is for outputs, and STEP_NUMBERS are a step's event without text. */
export const EVENT = 1, REWIND = 2, NOTE = 3, STEP_NUMBERS = 4;
/** The next record is at the start of the memory. */
const SKIP = 255;

/** The reader looks at least so often, so a kill may lose this much. */
export const POLL_MS = 50;

export interface SharedRing {
  /** The size is a power of two. */
  readonly records: SharedArrayBuffer;
  readonly words: SharedArrayBuffer;
}

/** Four MiB hold ten seconds of a step event each 0.5 ms. */
const SIZE = 4 * 2 ** 20;

// The first three words count bytes and wakings, and may wrap around.
const HEAD = 0, TAIL = 1, BELL = 2, CLOSING = 3, LOST = 4, STEP = 5, WRITTEN = 6, WORDS = 16;

export const newSharedRing = (size = SIZE): SharedRing => ({
  records: new SharedArrayBuffer(size),
  words: new SharedArrayBuffer(4 * WORDS),
});

export interface Pusher {
  /**
   * Returns false without room. An `urgent` record wakes the reader, at most once in POLL_MS; others wait for
   * its next look, and leave a quarter of the room to urgent ones.
   */
  push(kind: number, text: string, urgent: boolean): boolean;
  /** It is never urgent, and allocates nothing. */
  pushWords(kind: number, from: Int32Array): boolean;
  at(step: number): void;
  /** Waits until all records are written, and returns false after this time. */
  written(milliseconds: number): boolean;
  /** The reader ends once it has read everything. */
  end(): void;
  /** The reader could not write these records. */
  readonly lost: number;
}

export function openPusher({ records, words: memory }: SharedRing): Pusher {
  const bytes = new Uint8Array(records), headers = new Int32Array(records), words = new Int32Array(memory);
  const size = bytes.length, mask = size - 1, encoder = new TextEncoder();
  let head = Atomics.load(words, HEAD);
  const wake = () => {
    Atomics.add(words, BELL, 1);
    Atomics.notify(words, BELL);
  };
  let wokenAt = -Infinity;
  /** A reader that was woken a moment ago looks by itself soon: epochs of milliseconds do not wake it one by one. */
  const wakeNowAndThen = () => {
    const now = performance.now();
    if (now - wokenAt < POLL_MS) return;
    wokenAt = now;
    wake();
  };
  /** -1 without room. */
  const place = (most: number, urgent: boolean) => {
    const free = size - ((head - Atomics.load(words, TAIL)) | 0) - (urgent ? 0 : size >> 2);
    const at = head & mask, toEnd = size - at;
    if (most <= toEnd) return most > free ? -1 : at;
    if (toEnd + most > free) return -1;
    headers[at >> 2] = SKIP << 24;
    head = (head + toEnd) | 0;
    return 0;
  };
  const placed = (at: number, kind: number, length: number) => {
    headers[at >> 2] = kind << 24 | length;
    head = (head + 4 + ((length + 3) & ~3)) | 0;
    Atomics.store(words, HEAD, head);
  };
  return {
    push(kind, text, urgent) {
      const most = 4 + 3 * text.length + 3; // UTF-8 takes at most three bytes a UTF-16 unit
      const at = place(most, urgent);
      if (at < 0) return false;
      placed(at, kind, encoder.encodeInto(text, bytes.subarray(at + 4, at + most)).written);
      if (urgent) wakeNowAndThen();
      return true;
    },
    pushWords(kind, from) {
      const at = place(4 + from.byteLength, false);
      if (at < 0) return false;
      headers.set(from, (at >> 2) + 1);
      placed(at, kind, from.byteLength);
      return true;
    },
    at(step) {
      words[STEP] = step;
    },
    written(milliseconds) {
      const until = performance.now() + milliseconds;
      for (let first = true;; first = false) {
        const written = Atomics.load(words, WRITTEN);
        if (written === head) return true;
        if (first) wake();
        const left = until - performance.now();
        if (left <= 0) return false;
        Atomics.wait(words, WRITTEN, written, left);
      }
    },
    end() {
      Atomics.store(words, CLOSING, 1);
      wake();
    },
    get lost() {
      return Atomics.load(words, LOST);
    },
  };
}

interface Puller {
  /** `bytes` are valid during the call only. */
  drain(take: (kind: number, bytes: Uint8Array) => void): void;
  /** An urgent record ends the sleep. */
  wait(milliseconds: number): void;
  /** Marks everything that was read as written. */
  wrote(): void;
  lose(records: number): void;
  /** True when the writer has ended and everything is read. */
  ended(): boolean;
}

export function openPuller({ records, words: memory }: SharedRing): Puller {
  const bytes = new Uint8Array(records), headers = new Int32Array(records), words = new Int32Array(memory);
  const mask = bytes.length - 1;
  let rung = Atomics.load(words, BELL);
  const empty = () => Atomics.load(words, HEAD) === Atomics.load(words, TAIL);
  return {
    drain(take) {
      rung = Atomics.load(words, BELL);
      const head = Atomics.load(words, HEAD);
      for (let tail = Atomics.load(words, TAIL); tail !== head;) {
        const at = tail & mask;
        const header = headers[at >> 2], kind = header >>> 24, length = header & 0xffffff;
        if (kind === SKIP) tail = (tail + bytes.length - at) | 0;
        else {
          take(kind, bytes.subarray(at + 4, at + 4 + length));
          tail = (tail + 4 + ((length + 3) & ~3)) | 0;
        }
        Atomics.store(words, TAIL, tail);
      }
    },
    wait(milliseconds) {
      Atomics.wait(words, BELL, rung, milliseconds);
    },
    wrote() {
      const tail = Atomics.load(words, TAIL);
      if (Atomics.exchange(words, WRITTEN, tail) !== tail) Atomics.notify(words, WRITTEN);
    },
    lose(records) {
      Atomics.add(words, LOST, records);
    },
    ended: () => Atomics.load(words, CLOSING) === 1 && empty(),
  };
}

export const stepIn = ({ words }: SharedRing): number => new Int32Array(words)[STEP];

// A step's event crosses as numbers, and the other thread makes the line of JSON: after 4 MiB of caches were
// overwritten, an event costs the training thread 1.8 us as numbers and 9 us by JSON.stringify.

/** `words` are the same memory, as the ring takes it. */
interface StepNumbers {
  readonly numbers: Float64Array<ArrayBuffer>;
  readonly words: Int32Array<ArrayBuffer>;
}

const STEP_FIELDS = ["step", "epoch", ...Object.keys(EVENT_FIELDS.step)] as ("step" | "loss")[];
const MISSING = -Infinity;
/** Every step has the first four fields. */
const LEAST = 4;

export function newStepNumbers(): StepNumbers {
  const numbers = new Float64Array(1 + STEP_FIELDS.length);
  return { numbers, words: new Int32Array(numbers.buffer) };
}

export function putStep({ numbers }: StepNumbers, event: StepEvent, t: number): void {
  numbers[0] = t;
  for (let i = 0; i < STEP_FIELDS.length; i++) numbers[1 + i] = event[STEP_FIELDS[i]] ?? MISSING;
}

export function takeStepEvent({ numbers }: StepNumbers): StepEvent & { t: number } {
  const event = { t: numbers[0], kind: "step" } as StepEvent & { t: number };
  STEP_FIELDS.forEach((field, i) => {
    if (numbers[1 + i] !== MISSING || i < LEAST) event[field] = numbers[1 + i];
  });
  return event;
}

export interface ThreadSetup {
  readonly shared: SharedRing;
  /** Null on ranks other than the first. */
  readonly events: string | null;
  /** Null where the launcher keeps what this rank prints. */
  readonly log: string | null;
  /** Null where machine metrics are off. */
  readonly system: SystemSetup | null;
  readonly outputs: readonly Pick<Output, "name" | "module" | "setup" | "wants">[];
  /** The thread returns the lines that it adds. */
  readonly mirror: boolean;
}

export type ThreadMessage =
  | { readonly warning: string }
  /** The thread has added this line to events.jsonl. */
  | { readonly line: string }
  | { readonly ended: true };
