// SHA-256 of a checkpoint's storages, made by a second thread while the first writes them: it takes as long as all
// the rest. May import ffi's shared memory.
import { createHash } from "node:crypto";
import { bytesAt, type Place } from "../../../ffi/shared_memory.ts";

/** Begins with the sums of these; gives what waits for each one. Null for those that are made where they are written. */
export type Summing = (
  storages: readonly (Place | Uint8Array)[],
) => (storage: number) => (() => string) | null;

/** What the second thread is asked: the sums of these places, one after the other, into shared memory. */
export interface SumOrder {
  readonly sum: readonly Place[];
  /** How many are done, then room for them. */
  readonly done: SharedArrayBuffer;
}

const SUM_BYTES = 32, COUNT_BYTES = 4;
/** A thread that costs some megabytes is not worth it for less. */
const LEAST_BYTES = 32 << 20;
/** Without a sum for this long the thread is taken to be gone, and the sum made here. */
const PATIENCE_MS = 10_000;

/** `send` gives an order to the second thread; called once a checkpoint, if at all. */
export function summing(send: (order: SumOrder) => void): Summing {
  return (storages) => {
    const places = storages.filter((one): one is Place => !(one instanceof Uint8Array));
    if (places.reduce((sum, { bytes }) => sum + bytes, 0) < LEAST_BYTES) return () => null;
    const done = new SharedArrayBuffer(COUNT_BYTES + SUM_BYTES * places.length);
    send({ sum: places, done });
    const count = new Int32Array(done, 0, 1);
    const numbers = new Map(places.map((place, i) => [place, i]));
    return (storage) => {
      const place = storages[storage];
      if (place instanceof Uint8Array) return null;
      return () => waitFor(count, numbers.get(place)!) ? sumAt(done, numbers.get(place)!) : sumOf(place);
    };
  };
}

/** Answers an order: what the second thread does. */
export function makeSums({ sum, done }: SumOrder): void {
  const count = new Int32Array(done, 0, 1), sums = new Uint8Array(done, COUNT_BYTES);
  sum.forEach((place, i) => {
    sums.set(createHash("sha256").update(bytesAt(place)).digest(), SUM_BYTES * i);
    Atomics.store(count, 0, i + 1);
    Atomics.notify(count, 0);
  });
}

function waitFor(count: Int32Array<SharedArrayBuffer>, number: number): boolean {
  for (let ready = Atomics.load(count, 0); ready <= number; ready = Atomics.load(count, 0)) {
    if (Atomics.wait(count, 0, ready, PATIENCE_MS) === "timed-out") return false;
  }
  return true;
}

function sumAt(done: SharedArrayBuffer, number: number): string {
  return [...new Uint8Array(done, COUNT_BYTES + SUM_BYTES * number, SUM_BYTES)]
    .map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const sumOf = (place: Place): string => createHash("sha256").update(bytesAt(place)).digest("hex");
