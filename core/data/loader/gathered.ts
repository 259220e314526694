// Batches of a source in memory lie ready: one op gathers the rows of many, into memory that stays. Each batch begins where a
// tensor of its own would, at a multiple of 64 bytes, so that kernels have the same bits.
import { uninitialised } from "../../../ffi/make.ts";
import { narrow } from "../../../ffi/ops.ts";
import { freeing, keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Batch, Part, Source } from "../source/source.ts";
import type { BatchRows } from "./loader.ts";

/** So many batches are gathered at once, of so many bytes: they stay in the processor's cache until they are used. */
const MOST = 32, BYTES = 256 << 10;

/** Memory is made for so many batches. An evaluation may have few of them, at each epoch's end. */
const LEAST = 4;

const ALIGN = 64;

/** Rows that only fill a gap are copied in vain: a batch may get as many as it has, or so many. */
const FEW_ROWS = 64;

/** Memory for batches of so many rows. */
interface Block {
  readonly rows: number;
  /** From the first row of a batch to the next batch's. */
  readonly stride: number;
  readonly whole: Batch;
  readonly places: readonly Batch[];
  /** The number of the last part that lies in it: it is free when that is released. */
  last: number;
}

/** The time that gathering takes counts as waiting. */
export function gatheredRows(source: Source, clock: { seconds: number }): BatchRows & { close(): void } {
  /** One is filled while a step may still work with what lies in the other. */
  const blocks: (Block | null)[] = [null, null];
  const parts: Part[] = [], batches: (Batch | null)[] = [];
  let next: () => Part | null = () => null;
  let pending: Part | null = null; // it is of another size than those before it
  let at = 0; // the first that was not taken
  let taken = 0, released = 0, turn = 0;

  const timed = <R>(work: () => R): R => {
    const began = performance.now(), result = work();
    clock.seconds += (performance.now() - began) / 1000;
    return result;
  };
  const pull = (): Part | null => {
    const part = pending ?? next();
    pending = null;
    return part;
  };
  /** Parts of one size come after those that are there. */
  const fill = (): boolean => {
    if (at === parts.length) parts.length = batches.length = at = 0;
    const first = pull();
    if (first === null) return false;
    const from = parts.push(first) - 1, rows = first.ids.length;
    const block = blocks[turn], free = block === null || block.last < released;
    const known = block?.rows === rows ? block.places.length : null, most = free ? known ?? MOST : 1;
    while (parts.length - from < most) {
      const part = pull();
      if (part === null) break;
      if (part.ids.length !== rows || part.epoch !== first.epoch) {
        pending = part;
        break;
      }
      parts.push(part);
    }
    for (let i = from; i < parts.length; i++) batches.push(null);
    const count = parts.length - from;
    if (count > 1 && count >= (known === null ? LEAST : known / 2)) timed(() => gather(from));
    return true;
  };
  /** Where they are too large to be gathered, or odd, each is taken by itself. */
  const gather = (from: number) => {
    const rows = parts[from].ids.length;
    if (blocks[turn]?.rows !== rows) {
      freeBlock(blocks[turn]);
      blocks[turn] = blockFor(source, parts[from]);
    }
    const block = blocks[turn];
    if (block === null || block.places.length === 0) return;
    const count = Math.min(block.places.length, parts.length - from);
    freeing(() => source.raw(together(parts, from, count, block), firstOf(block, count)));
    for (let i = 0; i < count; i++) batches[from + i] = block.places[i];
    block.last = taken + (from - at) + count - 1;
    turn = 1 - turn;
  };
  return {
    begin(from) {
      parts.length = batches.length = 0;
      at = taken = released = 0;
      for (const block of blocks) if (block !== null) block.last = -1;
      pending = null;
      next = from;
    },
    ready(ahead) {
      while (at + ahead >= parts.length && fill());
      return true;
    },
    take(part) {
      let batch: Batch | null = null;
      if (parts[at] === part) { // else nobody has looked whether it is ready
        taken++;
        batch = batches[at++];
      }
      return batch ?? timed(() => source.raw(part));
    },
    release(count) {
      released += count;
    },
    close: () => blocks.forEach(freeBlock),
  };
}

/** Without places where the rows of two are too many. */
function blockFor(source: Source, part: Part): Block {
  const rows = part.ids.length;
  return scope(() => {
    const one = source.raw(part), bytes = one.input.byteLength + one.target.byteLength;
    const stride = Math.ceil(rows / unitOf(one, rows)) * unitOf(one, rows);
    const wasteful = stride > Math.max(2 * rows, FEW_ROWS);
    const room = wasteful ? 0 : Math.min(MOST, Math.floor(BYTES / Math.max(1, bytes / rows * stride)));
    const count = room < LEAST ? 0 : room;
    const like = ({ dtype, shape }: Tensor) =>
      keep(uninitialised([count * stride, ...shape.slice(1)], { dtype }));
    const whole = { input: like(one.input), target: like(one.target) };
    const place = (t: Tensor, i: number) => keep(narrow(t, 0, i * stride, rows));
    const places = Array.from(
      { length: count },
      (_, i) => ({ input: place(whole.input, i), target: place(whole.target, i) }),
    );
    return { rows, stride, whole, places, last: -1 };
  });
}

/** So many rows of either take whole lines of memory. */
function unitOf({ input, target }: Batch, rows: number): number {
  const of = (t: Tensor) => {
    let unit = ALIGN;
    for (const bytes = t.byteLength / rows; unit > 1 && bytes * unit / 2 % ALIGN === 0;) unit /= 2;
    return unit;
  };
  return Math.max(of(input), of(target));
}

function firstOf({ whole, places, stride }: Block, count: number): Batch {
  if (count === places.length) return whole;
  const first = (t: Tensor) => narrow(t, 0, 0, count * stride);
  return { input: first(whole.input), target: first(whole.target) };
}

/** The rows of some parts, and between them any row. */
function together(parts: readonly Part[], from: number, count: number, { rows, stride }: Block): Part {
  const ids = new Int32Array(count * stride).fill(parts[from].ids[0]);
  for (let i = 0; i < count; i++) ids.set(parts[from + i].ids, i * stride);
  return { epoch: parts[from].epoch, ids, count: rows, mates: null };
}

function freeBlock(block: Block | null): void {
  if (block === null) return;
  for (const { input, target } of [block.whole, ...block.places]) {
    input.free();
    target.free();
  }
}
