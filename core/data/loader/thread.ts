// A loader thread: claims rows, reads them, writes them where they belong. It sleeps when there is nothing to do.
// May import reading, ffi's shared memory; never libtorch.
/// <reference lib="deno.worker" />
import { bytesAt, type Place } from "../../../ffi/shared_memory.ts";
import { UserError } from "../../errors.ts";
import { loadKind } from "../reading/kinds.ts";
import { openPipeline, type Pipeline } from "../reading/pipeline.ts";
import type { Threaded } from "../reading/threaded.ts";
import {
  chunkOf,
  COUNT,
  DONE,
  EPOCH,
  FAILED,
  HEAD,
  IDS,
  type LaneWords,
  LAST_WORDS,
  NEXT,
  QUIT,
  SIGNAL,
  SKIPPED,
  slotAt,
} from "./ring.ts";

/** What a thread is sent when it is started. */
export interface Orders {
  /** From 1 on. */
  readonly thread: number;
  readonly threads: number;
  readonly words: SharedArrayBuffer;
  readonly lastWords: SharedArrayBuffer;
  readonly lanes: readonly LaneOrders[];
}

export interface LaneOrders extends LaneWords {
  readonly threaded: Threaded;
  /** Of each slot: its rows' inputs and targets. */
  readonly places: readonly { readonly input: Place; readonly target: Place }[];
}

interface Lane extends LaneOrders {
  readonly buffers: readonly { readonly input: Uint8Array; readonly target: Uint8Array }[];
  pipeline: Pipeline | null;
}

self.onmessage = async ({ data: orders }: MessageEvent<Orders>) => {
  const words = new Int32Array(orders.words);
  const lanes = orders.lanes.map((lane): Lane => ({
    ...lane,
    buffers: lane.places.map(({ input, target }) => ({ input: bytesAt(input), target: bytesAt(target) })),
    pipeline: null,
  }));
  const kinds = Promise.all(lanes.map(({ threaded }) => loadKind(threaded.reader.kind)));
  const failed = await kinds.then(() => null, (error) => error);
  while (Atomics.load(words, QUIT) === 0) {
    const before = Atomics.load(words, SIGNAL);
    let busy = false;
    for (const lane of lanes) busy = work(orders, words, lane, failed) || busy;
    if (!busy) Atomics.wait(words, SIGNAL, before);
  }
  for (const lane of lanes) lane.pipeline?.close();
  self.close();
};

/** Does a few rows of the lane's oldest open slot; false when there are none. */
function work(orders: Orders, words: Int32Array, lane: Lane, failed: unknown): boolean {
  const head = Atomics.load(words, lane.base + HEAD);
  for (let i = 0; i < lane.slots; i++) {
    const slot = (head + i) % lane.slots;
    const at = slotAt(lane, slot);
    const count = Atomics.load(words, at + COUNT);
    if (Atomics.load(words, at + NEXT) >= count) continue;
    const chunk = chunkOf(count, orders.threads);
    const from = Atomics.add(words, at + NEXT, chunk);
    // Claimed, the slot stays as it is until these rows are done; before, it may have been closed or filled anew.
    const rows = Atomics.load(words, at + COUNT);
    if (from >= rows) continue;
    const to = Math.min(from + chunk, rows);
    try {
      if (failed) throw failed;
      fill(words, lane, slot, from, to);
    } catch (error) {
      say(orders, words, at, error);
    }
    const done = Atomics.add(words, at + DONE, to - from) + to - from;
    if (done === rows || Atomics.load(words, at + FAILED) !== 0) Atomics.notify(words, at + DONE);
    return true;
  }
  return false;
}

function fill(words: Int32Array, lane: Lane, slot: number, from: number, to: number): void {
  const { pipeline = null, threaded, buffers, rows } = lane;
  const now = pipeline ?? (lane.pipeline = openPipeline(threaded));
  const at = slotAt(lane, slot);
  const { input, target } = buffers[slot];
  const inputBytes = input.length / rows, targetBytes = target.length / rows;
  const epoch = words[at + EPOCH];
  for (let i = from; i < to; i++) {
    const passed = now.row(
      words[at + IDS + i],
      epoch,
      input.subarray(i * inputBytes, (i + 1) * inputBytes),
      target.subarray(i * targetBytes, (i + 1) * targetBytes),
    );
    if (passed > 0) Atomics.add(words, SKIPPED, passed);
  }
}

/** The first thread that fails in a slot says why, for the training thread to say to the user. */
function say({ thread, lastWords }: Orders, words: Int32Array, at: number, error: unknown): void {
  if (Atomics.compareExchange(words, at + FAILED, 0, -thread) !== 0) return;
  const mine = new Uint8Array(lastWords, (thread - 1) * LAST_WORDS, LAST_WORDS);
  const [kind, text] = error instanceof UserError
    ? [error.kind, error.message]
    : ["", error instanceof Error ? error.stack ?? error.message : String(error)];
  const bytes = new TextEncoder().encode(JSON.stringify({ kind, text: text.slice(0, LAST_WORDS / 4) }));
  const length = Math.min(bytes.length, LAST_WORDS - 4);
  mine.set(bytes.subarray(0, length), 4);
  new DataView(lastWords).setUint32((thread - 1) * LAST_WORDS, length, true);
  Atomics.store(words, at + FAILED, thread);
}
