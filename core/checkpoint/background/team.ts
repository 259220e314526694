// What two threads do together of one checkpoint: copies, and the SHA-256 of what is written. Whoever is free takes the
// next piece; it takes as long as all the rest. May import ffi's shared memory.
import { createHash } from "node:crypto";
import { bytesAt, type Place } from "../../../ffi/shared_memory.ts";
import type { Copy } from "./snapshot.ts";

/** Plain data, so that the other thread can be sent it. */
export interface Work {
  readonly copies: readonly Copy[];
  /** Whose sums are made, when all copies are. */
  readonly sum: readonly Place[];
  /** Counters, flags and room for the sums: see `boardOf`. */
  readonly board: SharedArrayBuffer;
}

const SUM_BYTES = 32;
/** A thread that costs some megabytes is not worth it for less. */
const LEAST_BYTES = 32 << 20;
/** Copies are shared out in pieces of this, so that both threads end at the same time. */
const PIECE_BYTES = 8 << 20;
/** Without a sum for this long the other thread is taken to be gone, and the sum made here. */
const PATIENCE_MS = 10_000;

// The counters: the next copy, copies made, the next sum.
const NEXT_COPY = 0, COPIED = 1, NEXT_SUM = 2, COUNTERS = 3;

/** `ready` has a flag for each sum. */
function boardOf({ board, sum }: Work) {
  const words = COUNTERS + sum.length;
  return {
    counters: new Int32Array(board, 0, COUNTERS),
    ready: new Int32Array(board, 4 * COUNTERS, sum.length),
    sums: new Uint8Array(board, 4 * words, SUM_BYTES * sum.length),
  };
}

/** Whether a second thread is worth it. */
export const isLarge = (places: readonly Place[]): boolean =>
  places.reduce((all, { bytes }) => all + bytes, 0) >= LEAST_BYTES;

/** Null where one thread does it as well. */
export function workOf(copies: readonly Copy[], storages: readonly (Place | Uint8Array)[]): Work | null {
  const sum = storages.filter((one): one is Place => !(one instanceof Uint8Array));
  if (!isLarge(sum)) return null;
  const board = new SharedArrayBuffer(4 * (COUNTERS + sum.length) + SUM_BYTES * sum.length);
  return { copies: copies.flatMap(piecesOf), sum, board };
}

function piecesOf({ from, to }: Copy): Copy[] {
  const count = Math.max(1, Math.ceil(from.bytes / PIECE_BYTES));
  return Array.from({ length: count }, (_, i) => {
    const at = i * PIECE_BYTES, bytes = Math.min(PIECE_BYTES, from.bytes - at);
    const piece = ({ address }: Place) => ({ address: address + BigInt(at), bytes });
    return { from: piece(from), to: piece(to) };
  });
}

/** What the second thread does. */
export function help(work: Work): void {
  if (makeCopies(work, PATIENCE_MS)) makeSums(work);
}

/**
 * Comes to its end when all are made, the other thread's too: until then what they are made of must not change, so
 * whoever has it to change waits without end. False is for one who has not.
 */
export function makeCopies(work: Work, patience = Infinity): boolean {
  const { copies } = work, { counters } = boardOf(work);
  for (let i = Atomics.add(counters, NEXT_COPY, 1); i < copies.length;) {
    bytesAt(copies[i].to).set(bytesAt(copies[i].from));
    Atomics.add(counters, COPIED, 1);
    Atomics.notify(counters, COPIED);
    i = Atomics.add(counters, NEXT_COPY, 1);
  }
  for (let made = 0; (made = Atomics.load(counters, COPIED)) < copies.length;) {
    if (Atomics.wait(counters, COPIED, made, patience) === "timed-out") return false;
  }
  return true;
}

/** Nobody needs the sums that are not begun with. */
export function leaveSums(work: Work): void {
  Atomics.store(boardOf(work).counters, NEXT_SUM, work.sum.length);
}

/** Makes those that nobody has begun with. */
export function makeSums(work: Work): void {
  const { sum } = work, { counters, ready, sums } = boardOf(work);
  for (let i = Atomics.add(counters, NEXT_SUM, 1); i < sum.length; i = Atomics.add(counters, NEXT_SUM, 1)) {
    sums.set(digestOf(sum[i]), SUM_BYTES * i);
    Atomics.store(ready, i, 1);
    Atomics.notify(ready, i);
  }
}

/** The SHA-256 of one of the places in `sum`; helps to make them until none is left. */
export function sumOf(work: Work, number: number, patience = PATIENCE_MS): string {
  makeSums(work);
  const { ready, sums } = boardOf(work);
  const there = Atomics.wait(ready, number, 0, patience) !== "timed-out";
  return hex(
    there ? sums.subarray(SUM_BYTES * number, SUM_BYTES * (number + 1)) : digestOf(work.sum[number]),
  );
}

const digestOf = (place: Place): Uint8Array => createHash("sha256").update(bytesAt(place)).digest();
const hex = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
