// A loader thread claims rows, reads them to their place, and sleeps when there are none.
import * as ring from "./ring.ts";
import { bytesAt, type MemoryBlock } from "../../../ffi/libc.ts";
import { refused, UserError } from "../../base/errors.ts";
import { loadReader, type Threaded } from "../source/reader.ts";
import { openPipeline, type Pipeline } from "../source/pipeline.ts";
import { chunkOf, type LaneWords, slotAt } from "./ring.ts";
import type { ThreadScope } from "../../base/threads.ts";

declare const self: ThreadScope;

export interface LoaderThreadOptions {
  readonly thread: number;
  readonly threads: number;
  readonly words: SharedArrayBuffer;
  readonly lastWords: SharedArrayBuffer;
  readonly lanes: readonly LaneOptions[];
}

interface LaneOptions extends LaneWords {
  readonly threaded: Threaded;
  readonly places: readonly { readonly input: MemoryBlock; readonly target: MemoryBlock }[];
  /** With grouped rows a thread looks at so many slots, to see more rows of a group. */
  readonly reach: number;
}

interface Lane extends LaneOptions {
  readonly buffers: readonly { readonly input: Uint8Array; readonly target: Uint8Array }[];
  pipeline: Pipeline | null;
}

self.onmessage = async ({ data: orders }: MessageEvent<LoaderThreadOptions>) => {
  const words = new Int32Array(orders.words);
  const lanes = orders.lanes.map((lane): Lane => ({
    ...lane,
    buffers: lane.places.map(({ input, target }) => ({ input: bytesAt(input), target: bytesAt(target) })),
    pipeline: null,
  }));
  const readers = Promise.all(lanes.map(({ threaded: { reader } }) => loadReader(reader)));
  const failed = await readers.then(() => null, (error) => error);
  while (Atomics.load(words, ring.QUIT) === 0) {
    const before = Atomics.load(words, ring.SIGNAL);
    let busy = false;
    for (const lane of lanes) busy = work(orders, words, lane, failed) || busy;
    if (!busy) Atomics.wait(words, ring.SIGNAL, before);
  }
  for (const lane of lanes) lane.pipeline?.close();
  self.close();
};

function work(orders: LoaderThreadOptions, words: Int32Array, lane: Lane, failed: unknown): boolean {
  const groupOf = lane.pipeline?.groupOf, { whole } = lane.threaded.reader;
  const head = Atomics.load(words, lane.base + ring.HEAD);
  for (let i = 0; i < (groupOf ? lane.reach : lane.slots); i++) {
    const slot = (head + i) % lane.slots;
    const at = slotAt(lane, slot);
    const count = Atomics.load(words, at + ring.COUNT);
    if (Atomics.load(words, at + ring.NEXT) >= count) continue;
    const chunk = whole ? lane.rows : groupOf ? 1 : chunkOf(count, orders.threads);
    const from = Atomics.add(words, at + ring.NEXT, chunk);
    // The slot may have been closed or filled anew: then these rows are as good as any.
    const to = Math.min(from + chunk, Atomics.load(words, at + ring.COUNT));
    if (from >= to) continue;
    if (whole) {
      counted(words, at, fillPart(orders, words, lane, slot, to, failed));
      return true;
    }
    let done = 0;
    for (let row = from; row < to; row++) {
      const id = Atomics.exchange(words, at + ring.IDS + row, ring.CLAIMED);
      if (id === ring.CLAIMED) continue;
      const others = groupOf ? claimGroup(words, lane, head, groupOf, groupOf(id)) : [];
      fill(orders, words, lane, { slot, row, id }, failed);
      done++;
      for (const other of others) {
        fill(orders, words, lane, other, failed);
        counted(words, slotAt(lane, other.slot), 1);
      }
    }
    if (done > 0) counted(words, at, done);
    return true;
  }
  return false;
}

interface Row {
  readonly slot: number;
  readonly row: number;
  readonly id: number;
}

/** Rows in the same chunk of the file are claimed at once: the chunk is unpacked once for all. */
function claimGroup(
  words: Int32Array,
  lane: Lane,
  head: number,
  groupOf: (id: number) => number,
  group: number,
): Row[] {
  const claimed: Row[] = [];
  for (let i = 0; i < lane.slots; i++) {
    const slot = (head + i) % lane.slots;
    const at = slotAt(lane, slot);
    const count = Atomics.load(words, at + ring.COUNT);
    for (let row = Atomics.load(words, at + ring.NEXT); row < count; row++) {
      const id = Atomics.load(words, at + ring.IDS + row);
      if (id === ring.CLAIMED || groupOf(id) !== group) continue;
      if (Atomics.compareExchange(words, at + ring.IDS + row, id, ring.CLAIMED) === id) {
        claimed.push({ slot, row, id });
      }
    }
  }
  return claimed;
}

/** The slot stays as it is until all claimed rows are done. */
function counted(words: Int32Array, at: number, rows: number): void {
  const done = Atomics.add(words, at + ring.DONE, rows) + rows;
  if (done === Atomics.load(words, at + ring.COUNT) || Atomics.load(words, at + ring.FAILED) !== 0) {
    Atomics.notify(words, at + ring.DONE);
  }
}

function fill(
  orders: LoaderThreadOptions,
  words: Int32Array,
  lane: Lane,
  { slot, row, id }: Row,
  failed: unknown,
): void {
  const at = slotAt(lane, slot);
  try {
    if (failed) throw failed;
    const { input, target } = lane.buffers[slot];
    const inputBytes = input.length / lane.rows, targetBytes = target.length / lane.rows;
    lane.pipeline ??= openPipeline(lane.threaded);
    const passed = lane.pipeline.row(
      id,
      words[at + ring.EPOCH],
      input.subarray(row * inputBytes, (row + 1) * inputBytes),
      target.subarray(row * targetBytes, (row + 1) * targetBytes),
    );
    if (passed > 0) Atomics.add(words, ring.SKIPPED, passed);
  } catch (error) {
    say(orders, words, at, error);
  }
}

function fillPart(
  orders: LoaderThreadOptions,
  words: Int32Array,
  lane: Lane,
  slot: number,
  count: number,
  failed: unknown,
): number {
  const at = slotAt(lane, slot);
  const ids: number[] = [];
  for (let row = 0; row < count; row++) {
    const id = Atomics.exchange(words, at + ring.IDS + row, ring.CLAIMED);
    if (id !== ring.CLAIMED) ids.push(id);
  }
  if (ids.length < count) return ids.length;
  try {
    if (failed) throw failed;
    const { input, target } = lane.buffers[slot];
    lane.pipeline ??= openPipeline(lane.threaded);
    const rows = (bytes: Uint8Array) => bytes.subarray(0, bytes.length / lane.rows * count);
    const passed = lane.pipeline.part!(ids, words[at + ring.EPOCH], rows(input), rows(target));
    if (passed > 0) Atomics.add(words, ring.SKIPPED, passed);
  } catch (error) {
    say(orders, words, at, error);
  }
  return count;
}

/** Only the first failure in a slot is kept. */
function say(
  { thread, lastWords }: LoaderThreadOptions,
  words: Int32Array,
  at: number,
  cause: unknown,
): void {
  if (Atomics.compareExchange(words, at + ring.FAILED, 0, -thread) !== 0) return;
  const mine = new Uint8Array(lastWords, (thread - 1) * ring.LAST_MESSAGE_BYTES, ring.LAST_MESSAGE_BYTES);
  const error = refused(cause, "data");
  const [kind, text] = error instanceof UserError
    ? [error.kind, error.message]
    : ["", error instanceof Error ? error.stack ?? error.message : String(error)];
  const bytes = new TextEncoder().encode(
    JSON.stringify({ kind, text: text.slice(0, ring.LAST_MESSAGE_BYTES / 4) }),
  );
  const length = Math.min(bytes.length, ring.LAST_MESSAGE_BYTES - 4);
  mine.set(bytes.subarray(0, length), 4);
  new DataView(lastWords).setUint32((thread - 1) * ring.LAST_MESSAGE_BYTES, length, true);
  Atomics.store(words, at + ring.FAILED, thread);
}
