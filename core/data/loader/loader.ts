// Loader threads read the rows of coming batches into shared memory while the current step runs.
import * as ring from "./ring.ts";
import type { Batch, Part, Source } from "../source/source.ts";
import type { Field } from "../source/reader.ts";
import { memoryBlockOf, uninitialised } from "../../../ffi/make.ts";
import { narrow } from "../../../ffi/ops.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { dtypeBytes } from "../../../ffi/dtype.ts";
import { type ExitKind, UserError } from "../../base/errors.ts";
import { type LaneWords, layOut, slotAt } from "./ring.ts";
import type { LoaderThreadOptions } from "./thread.ts";

export interface BatchRows {
  /** `parts` is called as early as there is room, until it gives null. */
  begin(next: () => Part | null): void;
  /** It waits at most this long for the part `ahead` places behind the next. */
  ready(ahead: number, milliseconds: number): boolean;
  /** The host rows are valid until release, and no longer than the caller's scope. */
  take(part: Part, into?: Batch): Batch;
  /** The source's `finish` is done with them. */
  readonly finished?: boolean;
  release(count: number): void;
}

/** Without threads the training thread itself gathers or reads. */
export function batchRows(source: Source): BatchRows {
  return { begin: () => {}, ready: () => true, take: source.raw, release: () => {} };
}

// Parts enter a ring in the order of training; threads fill them, and they leave in that order.

interface LoaderOptions {
  readonly source: Source;
  readonly rows: number;
  /** So many parts are in use at one time, beside those read ahead. */
  readonly held: number;
}

interface Loader {
  readonly lanes: readonly BatchRows[];
  skipped(): number;
  close(): void;
}

/** `prefetch` is bytes in all; a GPU copies from `pinned` memory asynchronously. */
export function openLoader(
  wanted: readonly LoaderOptions[],
  threads: number,
  prefetch: number,
  pinned: boolean,
): Loader {
  let dead: string | null = null; // why a thread ended that should not have
  const shapes = wanted.map((one) => ({
    rows: one.rows,
    slots: slotsOf(one, threads, prefetch / wanted.length),
  }));
  const layout = layOut(shapes);
  const words = new Int32Array(new SharedArrayBuffer(4 * layout.words));
  const lastWords = new SharedArrayBuffer(threads * ring.LAST_MESSAGE_BYTES);
  const lanes = wanted.map((one, i) => openLane(one, layout.lanes[i], words, lastWords, pinned, () => dead));
  const workers = Array.from({ length: threads }, (_, i) => {
    const orders: LoaderThreadOptions = {
      thread: i + 1,
      threads,
      words: words.buffer,
      lastWords,
      lanes: lanes.map(({ orders }) => orders),
    };
    const worker = new Worker(new URL("./thread.ts", import.meta.url), {
      type: "module",
      name: `loader ${i + 1}`,
    });
    worker.onerror = (event) => {
      event.preventDefault();
      dead = event.message;
    };
    worker.postMessage(orders);
    return worker;
  });
  return {
    lanes: lanes.map(({ rows }) => rows),
    skipped: () => Atomics.load(words, ring.SKIPPED),
    close() {
      for (const lane of lanes) lane.close();
      Atomics.store(words, ring.QUIT, 1);
      Atomics.add(words, ring.SIGNAL, 1);
      Atomics.notify(words, ring.SIGNAL);
      for (const worker of workers) worker.terminate();
    },
  };
}

/** Reading ahead up to this much memory is no burden. */
const LITTLE = 16 * 2 ** 20, MOST_SLOTS = 32;

/**
 * Two parts a thread keep all at work; more pay only where a chunk's samples are collected from all parts to
 * come. The bytes bound it, but a whole step always fits.
 */
function slotsOf(
  { source: { threaded }, rows, held }: LoaderOptions,
  threads: number,
  prefetch: number,
): number {
  const { input, target, reader } = threaded!;
  const within = (bytes: number) => Math.floor(bytes / (rows * (bytesOf(input) + bytesOf(target))));
  const useful = reader.grouped ? MOST_SLOTS : Math.min(Math.max(2 * threads, within(LITTLE)), MOST_SLOTS);
  return held + Math.max(held, Math.min(within(prefetch), useful));
}

const bytesOf = ({ shape, dtype }: Field): number =>
  shape.reduce((product, size) => product * size, dtypeBytes(dtype));

function openLane(
  { source, rows, held }: LoaderOptions,
  lane: LaneWords,
  words: Int32Array<SharedArrayBuffer>,
  lastWords: SharedArrayBuffer,
  pinned: boolean,
  dead: () => string | null,
) {
  const threaded = source.threaded!;
  const buffer = ({ shape, dtype }: Field) => keep(uninitialised([rows, ...shape], { dtype, pinned }));
  const buffers = Array.from(
    { length: lane.slots },
    () => ({ input: buffer(threaded.input), target: buffer(threaded.target) }),
  );
  const slots = Array.from({ length: lane.slots }, (_, slot) => slotAt(lane, slot));
  for (const at of slots) {
    words.fill(ring.CLAIMED, at + ring.IDS, at + ring.IDS + lane.rows)[at + ring.NEXT] = ring.CLOSED;
  }
  // These count parts since the lane was opened. A part's slot is its number's remainder.
  let published = 0, taken = 0, released = 0;
  let next: () => Part | null = () => null;

  const publish = () => {
    while (published - released < lane.slots) {
      const part = next();
      if (part === null) break;
      const at = slots[published % lane.slots];
      words[at + ring.EPOCH] = part.epoch;
      Atomics.store(words, at + ring.FAILED, 0);
      Atomics.store(words, at + ring.DONE, 0);
      Atomics.store(words, at + ring.COUNT, part.ids.length);
      // From here on threads may claim rows.
      part.ids.forEach((id, i) => Atomics.store(words, at + ring.IDS + i, id));
      Atomics.store(words, at + ring.NEXT, 0);
      published++;
    }
    Atomics.store(words, lane.base + ring.HEAD, released % lane.slots);
    Atomics.add(words, ring.SIGNAL, 1);
    Atomics.notify(words, ring.SIGNAL);
  };
  const wait = (slot: number, milliseconds: number): boolean => {
    const at = slots[slot];
    for (const end = performance.now() + milliseconds;;) {
      const done = Atomics.load(words, at + ring.DONE);
      if (dead() !== null) throw new Error(`internal: a loader thread ended: ${dead()}`);
      if (Atomics.load(words, at + ring.FAILED) !== 0) throw failure(words, at, lastWords);
      if (done === Atomics.load(words, at + ring.COUNT)) return true;
      const left = end - performance.now();
      if (left <= 0) return false;
      Atomics.wait(words, at + ring.DONE, done, left);
    }
  };
  const release = (count: number) => {
    for (; count > 0; count--) Atomics.store(words, slots[released++ % lane.slots] + ring.NEXT, ring.CLOSED);
    publish();
  };
  /** It drops read-ahead parts; false means that a thread still writes. */
  const abandon = (): boolean => {
    next = () => null;
    let quiet = true;
    for (; taken < published; taken++) quiet = settle(words, slots[taken % lane.slots]) && quiet;
    release(taken - released);
    return quiet;
  };
  const handle: BatchRows = {
    begin(parts) {
      if (!abandon()) throw new Error("internal: a loader thread does not come to an end.");
      next = parts;
      publish();
    },
    ready: (ahead, milliseconds) =>
      taken + ahead < published && wait((taken + ahead) % lane.slots, milliseconds),
    take() {
      const slot = taken % lane.slots;
      while (!wait(slot, 1000));
      taken++;
      const count = words[slots[slot] + ring.COUNT];
      const { input, target } = buffers[slot];
      return { input: first(input, count), target: first(target, count) };
    },
    release,
  };
  const places = buffers.map(({ input, target }) => ({
    input: memoryBlockOf(input),
    target: memoryBlockOf(target),
  }));
  const close = () => {
    if (!abandon()) return; // a thread hangs in a file and may yet write: its memory stays
    for (const { input, target } of buffers) {
      input.free();
      target.free();
    }
  };
  const reach = held + Math.max(held, Math.ceil((lane.slots - held) / 2));
  return { rows: handle, orders: { ...lane, threaded, places, reach }, close };
}

/** It closes a slot, takes back its rows, and waits a bounded time for rows in work. */
function settle(words: Int32Array, at: number): boolean {
  Atomics.store(words, at + ring.NEXT, ring.CLOSED);
  let claimed = 0;
  for (let i = Atomics.load(words, at + ring.COUNT) - 1; i >= 0; i--) {
    if (Atomics.exchange(words, at + ring.IDS + i, ring.CLAIMED) === ring.CLAIMED) claimed++;
  }
  const end = performance.now() + 10_000;
  for (let done; (done = Atomics.load(words, at + ring.DONE)) < claimed;) {
    if (performance.now() > end) return false;
    Atomics.wait(words, at + ring.DONE, done, 2);
  }
  return true;
}

function failure(words: Int32Array, at: number, lastWords: SharedArrayBuffer): Error {
  let thread: number;
  while ((thread = Atomics.load(words, at + ring.FAILED)) < 0); // it is writing
  const start = (thread - 1) * ring.LAST_MESSAGE_BYTES;
  const length = new DataView(lastWords).getUint32(start, true);
  const message = new TextDecoder().decode(new Uint8Array(lastWords, start + 4, length).slice());
  const { kind, text } = JSON.parse(message) as { kind: ExitKind | ""; text: string };
  return kind === "" ? new Error(`internal: loader thread ${thread}: ${text}`) : new UserError(kind, text);
}

const first = (t: Tensor, count: number): Tensor => narrow(t, 0, 0, count);
