// Batches of a source in memory lie ready: the rows of many are gathered at once, into memory that stays, and finished where that
// can be. Each batch begins where a tensor of its own would, at a multiple of 64 bytes, so that kernels have the same bits.
import { copiesMemory, uninitialised } from "../../../ffi/make.ts";
import { clone, copy_, narrow } from "../../../ffi/ops.ts";
import { freeing, keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import {
  type Batch,
  batchOf,
  finishesNothing,
  finishesRows,
  type Part,
  type Source,
} from "../source/source.ts";
import { finishedOnce } from "../source/memory.ts";
import type { BatchRows } from "./loader.ts";

/** So many batches are gathered at once, of so many bytes: they stay in the processor's cache until they are used. */
const MOST = 32, BYTES = 256 << 10;

/** Memory is made for so many batches, and for any that come again in the data's order, as those of evaluations do. */
const LEAST = 4;

/** Batches of one size have two of them: one is filled while a step may still work with what lies in the other. */
const OF_A_SIZE = 2, BLOCKS = 4;

const ALIGN = 64;

/** Rows that only fill a gap are copied in vain: a batch may get as many as it has, or so many. */
const FEW_ROWS = 64;

/** Memory for batches of so many rows. */
interface Block {
  readonly rows: number;
  /** From the first row of a batch to the next batch's. */
  readonly stride: number;
  /** The rows of all batches as they are gathered, and as they are given: the same where nothing is finished. */
  readonly raw: Batch;
  readonly whole: Batch;
  readonly places: readonly Batch[];
  /** The number of the last part that lies in it: it is free when that is released. */
  last: number;
  /** The first of them, as many as were gathered where that was last not all. */
  some: (Pick<Block, "raw" | "whole"> & { readonly count: number }) | null;
  /** Rows in the data's order, as they were given before anybody could write to them. */
  again: { readonly ids: Int32Array; readonly batch: Batch } | null;
}

/** The time that gathering takes counts as waiting. */
export function gatheredRows(given: Source, clock: { seconds: number }): BatchRows & { close(): void } {
  const once = finishedOnce(given), source = once?.source ?? given;
  const blocks: Block[] = []; // in the order in which they were filled
  const parts: Part[] = [], batches: (Batch | null)[] = [];
  let next: () => Part | null = () => null;
  let pending: Part | null = null; // it is of another size than those before it
  let at = 0; // the first that was not taken
  let taken = 0, released = 0;

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
    const odd = pending !== null, first = pull();
    if (first === null) return false;
    const from = parts.push(first) - 1, rows = first.ids.length;
    const block = freeBlock(rows), makes = block === null && mayMake(rows);
    const most = block?.places.length ?? (makes ? MOST : 1);
    let ends = false;
    while (!ends && parts.length - from < most) {
      const part = pull();
      if (part === null) ends = true;
      else if (part.ids.length !== rows || part.epoch !== first.epoch) {
        pending = part;
        break;
      } else parts.push(part);
    }
    for (let i = from; i < parts.length; i++) batches.push(null);
    const count = parts.length - from;
    const pays = count > 1 && count >= (block === null ? LEAST : block.places.length / 2);
    // An epoch's last batch is as short in the next one.
    const again = isInOrder(first.ids), last = odd && ends && count === 1;
    if (!(block !== null || makes) || !(pays || again || last)) return true;
    timed(() => gather(from, block ?? makeBlock(first, again || last ? count : MOST)));
    return true;
  };
  const isFree = ({ last }: Block): boolean => last < released;
  const freeBlock = (rows: number): Block | null =>
    blocks.find((block) => block.rows === rows && isFree(block)) ?? null;
  const mayMake = (rows: number): boolean =>
    blocks.filter((block) => block.rows === rows).length < OF_A_SIZE &&
    (blocks.length < BLOCKS || blocks.some(isFree));
  const makeBlock = (like: Part, most: number): Block => {
    if (blocks.length === BLOCKS) blocks.splice(blocks.findIndex(isFree), 1).forEach(giveBack);
    const block = blockFor(source, like, most);
    blocks.push(block);
    return block;
  };
  /** Where they are too large to be gathered, or odd, each is taken by itself. */
  const gather = (from: number, block: Block) => {
    const count = Math.min(block.places.length, parts.length - from);
    if (count === 0) return;
    freeing(() => fillBlock(source, block, together(parts, from, count, block), count));
    for (let i = 0; i < count; i++) batches[from + i] = block.places[i];
    block.last = taken + (from - at) + count - 1;
    blocks.push(...blocks.splice(blocks.indexOf(block), 1));
  };
  return {
    begin(from) {
      parts.length = batches.length = 0;
      at = taken = released = 0;
      for (const block of blocks) block.last = -1;
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
      return batch ?? timed(() => alone(source, part));
    },
    finished: finishesRows(source),
    release(count) {
      released += count;
    },
    close() {
      blocks.forEach(giveBack);
      once?.close();
    },
  };
}

const alone = (source: Source, part: Part): Batch =>
  finishesRows(source) ? batchOf(source, part) : source.raw(part);

/** Without places where the rows of two are too many. */
function blockFor(source: Source, part: Part, most: number): Block {
  const rows = part.ids.length;
  return scope(() => {
    const one = alone(source, part);
    const bytes = Object.values(one).reduce((sum, t) => sum + t.byteLength, 0);
    const stride = Math.ceil(rows / unitOf(one, rows)) * unitOf(one, rows);
    const wasteful = stride > Math.max(2 * rows, FEW_ROWS);
    const room = wasteful ? 0 : Math.min(MOST, Math.floor(BYTES / Math.max(1, bytes / rows * stride)));
    const count = room < LEAST ? 0 : Math.min(room, most);
    const like = ({ dtype, shape }: Tensor) =>
      keep(uninitialised([count * stride, ...shape.slice(1)], { dtype }));
    const whole = eachOf(one, like);
    const raw = finishesRows(source) && !finishesNothing(source) ? eachOf(source.raw(part), like) : whole;
    const places = Array.from(
      { length: count },
      (_, i) => eachOf(whole, (t) => keep(narrow(t, 0, i * stride, rows))),
    );
    return { rows, stride, raw, whole, places, last: -1, some: null, again: null };
  });
}

function eachOf({ input, target, unscaled }: Batch, make: (t: Tensor) => Tensor): Batch {
  return { input: make(input), target: make(target), ...(unscaled && { unscaled: make(unscaled) }) };
}

function copyBatch(to: Batch, from: Batch): void {
  copyTo(to.input, from.input);
  copyTo(to.target, from.target);
  if (to.unscaled) copyTo(to.unscaled, from.unscaled!);
}

function copyTo(to: Tensor, from: Tensor): void {
  if (!copiesMemory(to, from)) copy_(to, from);
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

/** Most epochs end with as many as the one before, so their views are kept. */
function firstOf(block: Block, count: number): Pick<Block, "raw" | "whole"> {
  const { places, stride, raw, whole, some } = block;
  if (count === places.length) return block;
  if (some?.count === count) return some;
  freeSome(some);
  const of = (all: Batch) => eachOf(all, (t) => keep(narrow(t, 0, 0, count * stride)));
  const first = of(whole);
  block.some = { count, whole: first, raw: raw === whole ? first : of(raw) };
  return block.some;
}

function freeSome(some: Block["some"]): void {
  if (some === null) return;
  freeBatch(some.whole);
  if (some.raw !== some.whole) freeBatch(some.raw);
}

/** The rows of some parts, and between them any row. */
function together(parts: readonly Part[], from: number, count: number, { rows, stride }: Block): Part {
  const ids = new Int32Array(count * stride).fill(parts[from].ids[0]);
  for (let i = 0; i < count; i++) ids.set(parts[from + i].ids, i * stride);
  return { epoch: parts[from].epoch, ids, count: rows, mates: null };
}

/** Batches of the part's rows. */
function fillBlock(source: Source, block: Block, part: Part, count: number): void {
  const { again } = block, { raw, whole } = firstOf(block, count);
  if (again !== null && sameIds(again.ids, part.ids)) return copyBatch(whole, again.batch);
  const given = source.raw(part, raw);
  if (raw !== whole) copyBatch(whole, source.finish(given, part));
  if (again !== null) freeBatch(again.batch);
  const ids = part.ids.subarray(0, block.rows);
  block.again = isInOrder(ids) ? { ids: part.ids, batch: eachOf(whole, (t) => keep(clone(t))) } : null;
}

const isInOrder = (ids: Int32Array): boolean => ids.every((id, i) => id === ids[0] + i);
const sameIds = (a: Int32Array, b: Int32Array): boolean =>
  a.length === b.length && a.every((id, i) => id === b[i]);

const freeBatch = (batch: Batch): void => Object.values(batch).forEach((t) => t.free());

function giveBack({ raw, whole, places, some, again }: Block): void {
  freeSome(some);
  for (const batch of [raw, whole, ...places, ...(again ? [again.batch] : [])]) freeBatch(batch);
}
