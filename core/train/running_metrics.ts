// An epoch's metrics while it runs. Small batches of numbers on the host are summed at once. Of others steps only copy on the
// device; a pass over many steps makes sums, which the host reads when the next pass begins, so that nothing in a step waits.
// Each batch's sums have the same bits however many are measured at once.
import { noGrad } from "../../ffi/autograd.ts";
import { type Readback, startReadback } from "../../ffi/readback.ts";
import {
  borrowBytes,
  copiesMemory,
  numberIn,
  tensor,
  toDevice,
  toNumbers,
  zero_,
  zeros,
} from "../../ffi/make.ts";
import {
  cat,
  contiguous,
  copy_,
  foreachCopy_,
  indexCopy_,
  indexSelect,
  narrow,
  reshape,
  toDtype,
  unsqueeze,
} from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Measure, Measured } from "./measure.ts";
import { treeSum } from "./micro_batch.ts";

interface Observed {
  readonly output: Tensor;
  readonly target: Tensor;
  /** The mean over the batch's `items` valid items. */
  readonly loss: Tensor;
  readonly items: number;
  /** A virtual shard, or a batch. */
  readonly part?: number;
  /** 0 where nothing counts; by default all counts. */
  readonly mask?: Tensor | null;
}

const MOST_BATCHES = 32, BUFFER_BYTES = 8 * 2 ** 20;

/** A buffer on the host holds more of small batches, up to so many bytes, since a pass takes about as long for all of them. */
const MOST_SMALL = 128, SMALL_BYTES = 64 * 2 ** 10;

/** A step's last micro-batch is shorter. */
const MOST_BUFFERS = 4;

/** The sums of losses and of items. */
const OWN = 2;

/** Views of one batch's place. */
interface Place {
  readonly output: Tensor | null;
  readonly target: Tensor | null;
  readonly mask: Tensor | null;
  readonly loss: Tensor;
}

/** Batches of one shape, one after the other. */
interface MetricBuffer {
  readonly output: Tensor | null;
  readonly target: Tensor | null;
  readonly mask: Tensor | null;
  readonly losses: Tensor;
  /** The same, where the host reads a loss without waiting. */
  readonly lossesHere: Float64Array | null;
  /** A batch that fits has these shapes. */
  readonly like: Readonly<Record<keyof Place, readonly number[] | null>>;
  /** There are so many; their views are made where ops fill them. */
  readonly places: (Place | undefined)[];
  readonly batches: Entry[];
  /** One kernel of a GPU copies outputs and targets, which are of one type. */
  readonly together: boolean;
}

/** A CUDA graph fills its places, one after the other and round and round. It lives as long as the graph. */
export interface GraphMetricBuffer extends MetricBuffer {
  /** The number of the place to fill, on the device. */
  readonly next: Tensor;
  /** The number that follows each. */
  readonly after: Tensor;
}

/** A batch that is measured, or was. */
interface Entry {
  /** Its number in their order. */
  readonly serial: number;
  readonly part: number;
  readonly items: number;
  /** From `at` on its sums, and behind them the loss; those of a pass lie together. */
  values: Float64Array;
  at: number;
}

const NOT_YET = new Float64Array(0);

interface Passing {
  readonly values: Readback;
  readonly batches: readonly Entry[];
}

export class RunningMetrics {
  #serial = 0;
  #buffers: MetricBuffer[] = [];
  #passing: Passing[] = [];
  readonly #sums: Sums;

  /** A part is a virtual shard, which has sums of its own. At most so many batches are ever observed. */
  constructor(readonly measure: Measure, parts = 1, readonly most = Infinity) {
    this.#sums = new Sums(measure, parts);
  }

  /** Hot. */
  observe(batch: Observed): void {
    const sums = sumsWithLoss(this.measure, batch);
    const entry = this.#entry(batch.part ?? 0, batch.items, sums ?? NOT_YET);
    if (sums !== null) return this.#takeBehindEarlier(entry);
    const buffer = this.#bufferFor(batch);
    if (buffer === null) return noGrad(() => this.#atOnce(batch, entry));
    if (!putMemory(buffer, batch)) noGrad(() => put(buffer, batch));
    buffer.batches.push(entry);
  }

  #entry(part: number, items: number, values: Float64Array = NOT_YET): Entry {
    return { serial: this.#serial++, part, items, values, at: 0 };
  }

  #takeBehindEarlier(entry: Entry): void {
    if (this.#buffers.length > 0 || this.#passing.length > 0) {
      this.#pass();
      this.#settle();
    }
    this.#sums.take([entry]);
  }

  /** Comes before the replay of a graph that fills so many places of its buffer. */
  reserve(buffer: GraphMetricBuffer, places: number): void {
    if (!this.#buffers.includes(buffer)) {
      if (this.#buffers.length === MOST_BUFFERS) this.close();
      this.#buffers.push(buffer);
    }
    if (buffer.batches.length + places > buffer.places.length) this.#pass();
  }

  /** A replay has filled the next place with a batch of so many valid items. */
  filled(buffer: GraphMetricBuffer, items: number): void {
    buffer.batches.push(this.#entry(0, items));
  }

  /** Later observations can be undone, at any time before the next mark. */
  mark(): void {
    this.#sums.mark(this.#serial);
  }

  undo(): void {
    this.close();
    this.#sums.undo();
  }

  result(): { readonly loss: number; readonly items: number } & Measured {
    this.close();
    const [lossSum, items, ...rest] = this.#sums.whole();
    const loss = items === 0 ? NaN : lossSum / items;
    return { loss, items, ...this.measure.finish(Float64Array.from(rest), loss) };
  }

  /** One part after the other. */
  sums(): number[] {
    this.close();
    return [...this.#sums.now()];
  }

  restore(sums: readonly number[]): void {
    this.close();
    this.#sums.restore(sums);
  }

  /** Measures and frees everything, so that nothing is left to come. */
  close(): void {
    if (this.#buffers.length > 0) this.#pass();
    this.#settle();
    this.#buffers.forEach(freeMetricBuffer);
    this.#buffers = [];
  }

  /** Null where the batch is measured at once. */
  #bufferFor(batch: Observed): MetricBuffer | null {
    for (const known of this.#buffers) {
      if (isGraphs(known) || !fits(known, batch)) continue;
      // It may fail, so it comes before this batch is noted.
      if (known.batches.length === known.places.length) this.#pass();
      return known;
    }
    const batches = Math.min(this.most, batchesOf(this.measure, batch));
    if (batches < 2) return null;
    if (this.#buffers.length === MOST_BUFFERS) this.close();
    const buffer = noGrad(() => newMetricBuffer(this.measure, batch, batches));
    this.#buffers.push(buffer);
    return buffer;
  }

  #atOnce({ output, target, loss, mask }: Observed, entry: Entry): void {
    this.#pass(); // earlier batches come first
    const { measure } = this;
    const sums = scope(() => {
      // The order of a sum is that of memory, which a compiled step chooses by itself.
      const own = measure.seesOutputs ? [measure.rows(contiguous(output), contiguous(target), 1, mask)] : [];
      return keep(cat([...own, reshape(toDtype(loss, "f64"), [1, 1])], 1));
    });
    this.#passing.push({ values: startReadback(sums), batches: [entry] });
  }

  /** Begins a pass over what the buffers hold, and takes in what the pass before it has come to. */
  #pass(): void {
    const begun = this.#buffers.filter(({ batches }) => batches.length > 0)
      .map((buffer) => passOver(this.measure, buffer));
    this.#settle();
    this.#passing = begun;
  }

  #settle(): void {
    const passing = this.#passing, size = this.measure.size + 1;
    if (passing.length === 0) return;
    this.#passing = [];
    for (const { values, batches } of passing) {
      const numbers = values.take(toNumbers);
      for (let i = 0; i < batches.length; i++) {
        batches[i].values = numbers;
        batches[i].at = i * size;
      }
    }
    const [{ batches }] = passing;
    this.#sums.take(
      passing.length === 1
        ? batches
        : passing.flatMap(({ batches }) => batches).sort((a, b) => a.serial - b.serial),
    );
  }
}

/** Sums on the host, of rows that come in their order; those since a mark may be taken back. */
class Sums {
  readonly #measured: number;
  readonly #width: number;
  readonly #parts: number;
  readonly #totals: Float64Array<ArrayBuffer>;
  /** Rows since the mark. */
  #held: Entry[] = [];
  #marked = Infinity;

  constructor({ size }: Measure, parts: number) {
    this.#measured = size;
    this.#width = OWN + size;
    this.#parts = parts;
    this.#totals = new Float64Array(parts * this.#width);
  }

  take(rows: readonly Entry[]): void {
    for (const row of rows) this.#held.push(row);
    this.#addHeld(this.#marked);
  }

  /** Rows of batches before this one stay, even those that are still to come. */
  mark(serial: number): void {
    this.#marked = serial;
    this.#addHeld(Infinity);
  }

  undo(): void {
    this.#addHeld(this.#marked);
    this.#held = [];
    this.#marked = Infinity;
  }

  /** One part after the other. */
  now(): Float64Array<ArrayBuffer> {
    const sums = this.#totals.slice();
    for (const row of this.#held) this.#addTo(sums, row);
    return sums;
  }

  /** The sums over all parts. */
  whole(): Float64Array {
    const sums = this.now(), width = this.#width;
    const leaf = (from: number, to: number) =>
      to - from === 1 ? sums.subarray(from * width, to * width) : undefined;
    const both = (a: Float64Array, b: Float64Array) => a.map((value, i) => value + b[i]);
    return treeSum({ from: 0, to: this.#parts }, leaf, both);
  }

  restore(sums: readonly number[]): void {
    const totals = this.#totals, width = this.#width;
    totals.fill(0);
    this.#held = [];
    if (sums.length % width !== 0) return; // another version kept other sums
    // The first part gets the sums of other parts.
    const same = sums.length === totals.length;
    sums.forEach((value, i) => totals[same ? i : i % width] += value);
  }

  #addHeld(before: number): void {
    const held = this.#held;
    let count = 0;
    while (count < held.length && held[count].serial < before) this.#addTo(this.#totals, held[count++]);
    if (count > 0) held.splice(0, count);
  }

  #addTo(sums: Float64Array, { part, items, values, at: from }: Entry): void {
    const at = part * this.#width, size = this.#measured;
    if (items > 0) sums[at] += values[from + size] * items; // the mean over nothing is NaN
    sums[at + 1] += items;
    for (let i = 0; i < size; i++) sums[at + OWN + i] += values[from + i];
  }
}

/** The sums of a batch, and behind them its loss; null where ops have to take them. */
function sumsWithLoss(measure: Measure, { output, target, mask, loss }: Observed): Float64Array | null {
  const mean = mask ? null : numberIn(loss);
  if (mean === null) return null;
  const sums = measure.seesOutputs ? measure.sumsOnHost?.(output, target) ?? null : new Float64Array(1);
  if (sums !== null) sums[sums.length - 1] = mean;
  return sums;
}

const bytesOf = (t: Tensor | null | undefined): number => t?.byteLength ?? 0;

function batchesOf(measure: Measure, { output, target, mask, loss }: Observed): number {
  if (!measure.many) return 1;
  const onHost = loss.device === "cpu";
  if (!measure.seesOutputs) return onHost ? MOST_SMALL : MOST_BATCHES;
  const bytes = Math.max(1, bytesOf(output) + bytesOf(target) + bytesOf(mask));
  const small = onHost ? Math.min(MOST_SMALL, Math.floor(SMALL_BYTES / bytes)) : 0;
  return Math.max(small, Math.min(MOST_BATCHES, Math.floor(BUFFER_BYTES / bytes)));
}

function newMetricBuffer(
  measure: Measure,
  { output, target, mask = null, loss }: Observed,
  count: number,
): MetricBuffer {
  const { device } = loss;
  return scope(() => {
    const room = (t: Tensor | null) =>
      t && measure.seesOutputs
        ? zeros([count * t.shape[0], ...t.shape.slice(1)], { dtype: t.dtype, device })
        : null;
    const all = { output: room(output), target: room(target), mask: room(mask) };
    const losses = zeros([count, 1], { dtype: "f64", device });
    const lossesHere = device === "cpu" ? new Float64Array(borrowBytes(losses).buffer, 0, count) : null;
    const shape = (t: Tensor | null) => t && [...t.shape];
    const like = { output: shape(output), target: shape(target), mask: shape(mask), loss: shape(loss) };
    const places = new Array<Place | undefined>(count);
    const together = device !== "cpu" && all.output?.dtype === all.target?.dtype;
    const buffer = { ...all, losses, lossesHere, like, places, batches: [], together };
    for (const t of tensorsOf(buffer)) keep(t);
    return buffer;
  });
}

const tensorsOf = ({ output, target, mask, losses, places }: MetricBuffer): Tensor[] =>
  [output, target, mask, losses, ...places.flatMap((place) => place ? Object.values(place) : [])]
    .filter((t) => t !== null);

/** The place for the next batch. All views are made with the first, so that no later step makes more. */
function nextPlace({ output, target, mask, losses, like, places, batches }: MetricBuffer): Place {
  for (let i = 0, count = places.length; i < count && places[count - 1] === undefined; i++) {
    const part = (all: Tensor | null) =>
      all && keep(narrow(all, 0, i * all.shape[0] / count, all.shape[0] / count));
    const loss = keep(scope(() => reshape(narrow(losses, 0, i, 1), like.loss!)));
    places[i] = { output: part(output), target: part(target), mask: part(mask), loss };
  }
  return places[batches.length]!;
}

const sameShape = (a: readonly number[] | null, t: Tensor | null): boolean => {
  if (a === null || t === null) return a === t;
  const b = t.shape;
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
};

function fits(
  { like, output: all }: MetricBuffer,
  { output, target, mask = null, loss }: Observed,
): boolean {
  if (!sameShape(like.loss, loss)) return false;
  if (all === null) return true; // losses alone
  return sameShape(like.output, output) && sameShape(like.target, target) && sameShape(like.mask, mask);
}

/** Hot: false where ops have to do it. */
function putMemory(
  { output: outputs, target: targets, mask: masks, lossesHere, batches }: MetricBuffer,
  { output, target, mask = null, loss }: Observed,
): boolean {
  const mean = lossesHere === null ? null : numberIn(loss), i = batches.length;
  if (mean === null) return false;
  if (outputs !== null && targets !== null) {
    if (!copiesMemory(outputs, output, i) || !copiesMemory(targets, target, i)) return false;
    if (mask !== null && masks !== null && !copiesMemory(masks, mask, i)) return false;
  }
  lossesHere![i] = mean;
  return true;
}

/** Hot: three copies, two of them in one kernel of a GPU. */
function put(buffer: MetricBuffer, { output, target, mask = null, loss }: Observed): void {
  const place = nextPlace(buffer);
  if (place.output !== null && place.target !== null) {
    if (buffer.together) {
      foreachCopy_([place.output, place.target], [output, target]);
    } else {
      copy_(place.output, output);
      copy_(place.target, target);
    }
    if (mask !== null && place.mask !== null) copy_(place.mask, mask);
  }
  copy_(place.loss, loss);
}

/** A buffer that fits, or a new one; null where each batch is measured at once. `count` batches of a step fill it. */
export function graphMetricBuffer(
  known: GraphMetricBuffer[],
  measure: Measure,
  batch: Observed,
  count: number,
): GraphMetricBuffer | null {
  const fitting = known.find((buffer) => buffer.places.length >= count && fits(buffer, batch));
  if (fitting !== undefined) return fitting;
  const places = batchesOf(measure, batch);
  if (places < Math.max(2, count)) return null;
  const { device } = batch.loss;
  return noGrad(() => {
    const after = BigInt64Array.from({ length: places }, (_, i) => BigInt((i + 1) % places));
    const buffer = {
      ...newMetricBuffer(measure, batch, places),
      next: keep(zeros([1], { dtype: "i64", device })),
      after: keep(scope(() => toDevice(tensor(after), device))),
    };
    known.push(buffer);
    return buffer;
  });
}

/** Work that fills the next place of the buffer, and can be queued again and again. */
export function fillNext(
  { next, after, ...buffer }: GraphMetricBuffer,
  { output, target, loss }: Observed,
): void {
  const count = buffer.places.length;
  const fill = (all: Tensor | null, one: Tensor) => {
    if (all === null) return;
    indexCopy_(reshape(all, [count, ...one.shape]), 0, next, unsqueeze(one, 0));
  };
  noGrad(() =>
    scope(() => {
      fill(buffer.output, output);
      fill(buffer.target, target);
      fill(buffer.losses, toDtype(loss, "f64"));
      copy_(next, indexSelect(after, 0, next));
    })
  );
}

const isGraphs = (buffer: MetricBuffer): buffer is GraphMetricBuffer => "next" in buffer;

/** A row's additions must not depend on the number of rows. */
function passOver(measure: Measure, buffer: MetricBuffer): Passing {
  const { output, target, mask, losses, batches, places } = buffer, count = batches.length;
  const filled = (all: Tensor) =>
    count === places.length || isGraphs(buffer)
      ? all
      : narrow(all, 0, 0, count * all.shape[0] / places.length);
  const values = noGrad(() =>
    scope(() => {
      const rows = isGraphs(buffer) ? places.length : count, seen = output && target;
      const own = seen ? [measure.rows(filled(output), filled(target), rows, mask && filled(mask))] : [];
      return keep(cat([...own, filled(losses)], 1));
    })
  );
  if (isGraphs(buffer) && batches.length < places.length) zero_(buffer.next);
  return { values: startReadback(values), batches: batches.splice(0) };
}

function freeMetricBuffer(buffer: MetricBuffer): void {
  if (!isGraphs(buffer)) tensorsOf(buffer).forEach((t) => t.free());
}
