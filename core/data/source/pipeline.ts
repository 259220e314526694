// A sample goes from its file to its row of a batch: read, geometry, check. Every thread runs the same code;
// random numbers are functions of (seed, epoch, sample).
import { key, uniform } from "../../base/random.ts";
import { BadSample } from "../arrays/rows.ts";
import { AS_IT_IS, type Beside, openGeometry, openPlaces } from "./geometry.ts";
import type { Stored } from "../augment/planes.ts";
import { type Draw, FIRST_DRAW } from "../augment/sample.ts";
import {
  type NearestFill,
  type OfBadSamples,
  openReader,
  openWholeReader,
  type Threaded,
  type WholeReader,
} from "./reader.ts";
import { finiteWords, numbersOf, type SampleNumbers } from "../arrays/numbers.ts";
import { type DType, dtypeBytes, isFloating } from "../../../ffi/dtype.ts";
import { UserError } from "../../base/errors.ts";

/** Steps of --augment have draws of their own, behind those of the geometry. */
const DRAWS = FIRST_DRAW, DRAWS_OF_STEPS = 2 ** 20;

/** Null makes no random choices; the numbers are valid until the next call. */
export function drawsOf(seed: number | null): (sample: number, epoch: number) => Draw | null {
  if (seed === null) return () => null;
  let of = -1, now = 0;
  let at = (_: number) => 0, ofSteps = at;
  const draw: Draw = (k) => k < DRAWS ? at(now * DRAWS + k) : ofSteps(now * DRAWS_OF_STEPS + k);
  return (sample, epoch) => {
    if (epoch !== of) {
      at = uniform(key(seed, "augment", of = epoch));
      ofSteps = uniform(key(seed, "transforms", epoch));
    }
    now = sample;
    return draw;
  };
}

/** Each channel has 256 floats. Floats are moved as words, twice as fast as by way of doubles. */
function openLevels(levels: Float32Array): (bytes: Uint8Array, into: Uint8Array) => void {
  const words = new Int32Array(levels.buffer, levels.byteOffset, levels.length);
  const channels = words.length / 256;
  return (bytes, into) => {
    const out = new Int32Array(into.buffer, into.byteOffset, into.byteLength / 4);
    const plane = bytes.length / channels;
    for (let c = 0; c < channels; c++) {
      const of = words.subarray(256 * c, 256 * (c + 1));
      for (let i = c * plane, end = i + plane; i < end; i++) out[i] = of[bytes[i]];
    }
  };
}

// A user's own code gets all samples of a part, so its calls do not depend on the threads.

function openWhole(t: Threaded, reader: WholeReader): Pipeline {
  const arrange = t.geometry ? openGeometry(t.geometry, t.input.shape) : null;
  const draws = drawsOf(t.seed);
  const finite = finiteCheck(t.input.dtype);
  const elements = (shape: readonly number[]) => shape.reduce((product, size) => product * size, 1);
  const indexOf = (id: number) => t.indices === null ? id : t.indices[id];
  const rowsOf = (bytes: Uint8Array, count: number) => {
    const each = bytes.length / count;
    return Array.from({ length: count }, (_, row) => bytes.subarray(row * each, (row + 1) * each));
  };
  const read = (ids: readonly number[], epoch: number, inputs: Uint8Array, targets: Uint8Array) => {
    if (!arrange) return reader.readPart(ids.map(indexOf), epoch, inputs, targets);
    const each = inputs.length / ids.length / elements(t.input.shape) * elements(reader.stored);
    const stored = new Uint8Array(ids.length * each);
    reader.readPart(ids.map(indexOf), epoch, stored, targets);
    const into = rowsOf(inputs, ids.length);
    rowsOf(stored, ids.length).forEach((row, i) => {
      const data = numbersOf(t.input.dtype, row);
      arrange({ data, shape: reader.stored }, numbersOf(t.input.dtype, into[i]), draws(ids[i], epoch));
    });
  };
  const row = (id: number, epoch: number, input: Uint8Array, target: Uint8Array, unread: boolean): number => {
    for (let passed = 0;; passed++) {
      const now = (id + passed) % t.length;
      try {
        if (unread || passed > 0) read([now], epoch, input, target);
        finite(numbersOf(t.input.dtype, input), reader.path);
        return passed;
      } catch (error) {
        if (!(error instanceof BadSample)) throw error;
        if (t.bad !== "skip") throw badSampleError(error, indexOf(now), t.bad);
        if (passed + 1 >= Math.min(PATIENCE, t.length)) throw allBad(error, passed + 1);
      }
    }
  };
  return {
    row: (id, epoch, input, target) => row(id, epoch, input, target, true),
    part(ids, epoch, inputs, targets) {
      read(ids, epoch, inputs, targets);
      const ofTarget = rowsOf(targets, ids.length);
      return rowsOf(inputs, ids.length).reduce(
        (passed, input, i) => passed + row(ids[i], epoch, input, ofTarget[i], false),
        0,
      );
    },
    close: () => reader.close(),
  };
}

export interface Pipeline {
  row(id: number, epoch: number, input: Uint8Array, target: Uint8Array): number;
  /** Readers of whole parts have it; rows follow one another. */
  part?(ids: readonly number[], epoch: number, inputs: Uint8Array, targets: Uint8Array): number;
  /** Samples with the same number are read faster one after the other. */
  readonly groupOf?: (id: number) => number;
  close(): void;
}

/** After so many bad samples in a row the data as a whole counts as bad. */
export const PATIENCE = 100;

/** `loadReader` must end first. */
export function openPipeline(t: Threaded): Pipeline {
  if (!t.nearest) return openStored(t);
  const stored = openStored({ ...t, input: { ...t.input, shape: t.nearest.shape } });
  const fill = openNearest(t.nearest);
  const bytes = 4 * t.nearest.shape.reduce((product, size) => product * size, 1);
  return {
    ...stored,
    row(id, epoch, input, target) {
      const passed = stored.row(id, epoch, input.subarray(0, bytes), target);
      fill(new Float32Array(input.buffer, input.byteOffset, input.byteLength / 4));
      return passed;
    },
  };
}

function openStored(t: Threaded): Pipeline {
  if (t.reader.whole) return openWhole(t, openWholeReader(t.reader));
  const reader = openReader(t.reader);
  const geometry = t.geometry ? openGeometry(t.geometry, t.input.shape) : null;
  const arrange = geometry ?? openGeometry(AS_IT_IS, t.input.shape);
  const draws = drawsOf(t.seed);
  const stored = t.levels ? "u8" : t.input.dtype;
  const finite = finiteCheck(stored, t.missing);
  const bytes = t.levels && new Uint8Array(t.input.shape.reduce((product, size) => product * size, 1));
  const spread = t.levels && openLevels(t.levels);
  const indexOf = (id: number) => t.indices === null ? id : t.indices[id];
  const beside = t.geometry && t.beside ? openBeside(t, t.beside) : null;
  const write = (id: number, epoch: number, input: Uint8Array, target: Uint8Array) => {
    const index = indexOf(id);
    const place = bytes ?? input;
    const row = numbersOf(stored, place);
    if (geometry === null && reader.readInto) reader.readInto(index, place, target, epoch);
    else if (beside && reader.readPair && !t.geometry?.patch) {
      const pair = reader.readPair(index, epoch), draw = draws(id, epoch);
      arrange(pair.input, row, draw);
      beside.arrange(target, draw, pair.target);
    } else {
      const found = reader.read(index, beside?.stored ?? target, epoch);
      const draw = beside ? beside.placed(draws(id, epoch)) : draws(id, epoch);
      arrange(found, row, draw);
      beside?.arrange(target, draw);
    }
    finite(row, reader.path);
    if (spread && bytes) spread(bytes, input);
  };
  return {
    row(id, epoch, input, target) {
      for (let passed = 0;; passed++) {
        const now = (id + passed) % t.length;
        try {
          write(now, epoch, input, target);
          return passed;
        } catch (error) {
          if (!(error instanceof BadSample)) throw error;
          if (t.bad !== "skip") throw badSampleError(error, indexOf(now), t.bad);
          if (passed + 1 >= Math.min(PATIENCE, t.length)) throw allBad(error, passed + 1);
        }
      }
    },
    groupOf: reader.groupOf && ((id) => reader.groupOf!(indexOf(id))),
    close: () => reader.close(),
  };
}

/** The target's map is cut and turned as its input is. */
function openBeside({ target: { shape } }: Threaded, beside: Beside) {
  const { map, plan, dtype } = beside;
  const elements = map.reduce((product, size) => product * size, 1);
  const stored = new Uint8Array(elements * dtypeBytes(dtype)), data = numbersOf(dtype, stored);
  const arrange = openGeometry(plan, [map[0], ...shape.slice(-2)]), places = openPlaces(beside);
  return {
    stored,
    placed: (draw: Draw | null) => places(data, draw),
    arrange: (into: Uint8Array, draw: Draw | null, from: Stored = { data, shape: map }) =>
      arrange(from, numbersOf(dtype, into), draw),
  };
}

/** With `missing` a NaN is a missing point, and only infinity is bad. */
function finiteCheck(dtype: DType, missing = false): (row: SampleNumbers, path?: string) => void {
  if (missing) return infinityCheck(dtype);
  const exponent = dtype === "f16" ? 0x7c00 : dtype === "bf16" ? 0x7f80 : 0;
  const isBad = exponent > 0
    ? (x: number) => (x & exponent) === exponent
    : (x: number) => !Number.isFinite(x);
  const fine = exponent > 0
    ? (row: Uint16Array) => !row.some(isBad)
    : dtype === "f32"
    ? finiteWords
    : (row: Float64Array) => {
      let sum = 0;
      for (let i = 0; i < row.length; i++) sum += row[i] * 0; // 0, or NaN from there on
      return sum === 0;
    };
  if (!isFloating(dtype)) return () => {};
  return (row, path = "") => {
    if (fine(row as never)) return;
    const at = (row as Float32Array).findIndex(isBad);
    throw new BadSample(path, `has NaN or infinity at value ${at}`);
  };
}

function infinityCheck(dtype: DType): (row: SampleNumbers, path?: string) => void {
  if (!isFloating(dtype)) return () => {};
  const bits = dtype === "f16" ? 0x7c00 : dtype === "bf16" ? 0x7f80 : 0;
  const find = bits > 0
    ? (row: SampleNumbers) => (row as Uint16Array).findIndex((x) => (x & 0x7fff) === bits)
    : dtype === "f32"
    ? (row: SampleNumbers) => infiniteWord(row as Float32Array)
    : (row: SampleNumbers) => (row as Float64Array).findIndex((x) => Math.abs(x) === Infinity);
  return (row, path = "") => {
    const at = find(row);
    if (at >= 0) throw new BadSample(path, `has infinity at value ${at}`);
  };
}

/** Taking one from the difference with infinity carries into the sign where there is none. */
function infiniteWord({ buffer, byteOffset, length }: Float32Array): number {
  const words = new Int32Array(buffer, byteOffset, length);
  let signs = 0;
  for (let i = 0; i < length; i++) signs |= ((words[i] & 0x7fffffff) ^ 0x7f800000) - 1;
  return signs >= 0 ? -1 : words.findIndex((word) => (word & 0x7fffffff) === 0x7f800000);
}

export function badSampleError({ path, reason }: BadSample, index: number, bad: OfBadSamples): UserError {
  const remedy = bad === "fail"
    ? "Repair it, or have such samples replaced by the ones after them with --bad-samples skip."
    : "Repair it, or take it out of the data: a prediction can't use the next sample in its place, as training does " +
      "with --bad-samples skip.";
  return new UserError("data", `Sample ${index}${path === "" ? "" : ` (${path})`} ${reason}. ${remedy}`);
}

function allBad({ path, reason }: BadSample, count: number): UserError {
  return new UserError(
    "data",
    `${count} samples in a row can't be used; the last one${path === "" ? "" : ` (${path})`} ${reason}. ` +
      "Check that the whole data set is there and readable.",
  );
}

/** It fills a sample in place; its mask follows the channels. Maps without any point stay as they are. */
export function openNearest({ shape, mask }: NearestFill): (sample: Float32Array) => void {
  const [width, height] = [shape.at(-1) ?? 1, shape.length > 2 ? shape.at(-2)! : 1];
  const size = width * height, all = shape.reduce((product, side) => product * side, 1);
  const channels = shape[0], points = all / channels;
  const find = openFinder(width, height);
  return (sample) => {
    if (mask) {
      const there = sample.subarray(all, all + points).fill(1);
      for (let i = 0, at = 0; i < all; i++, at = at + 1 === points ? 0 : at + 1) {
        if (Number.isNaN(sample[i])) there[at] = 0;
      }
    }
    for (let from = 0; from < all; from += size) {
      const map = sample.subarray(from, from + size);
      if (!map.some(Number.isNaN)) continue;
      const nearest = find(map);
      if (nearest) { for (let i = 0; i < size; i++) if (Number.isNaN(map[i])) map[i] = map[nearest[i]]; }
    }
  };
}

/** The result is valid until the next call: for each point the nearest one that is there. */
function openFinder(width: number, height: number): (map: Float32Array) => Int32Array | null {
  const row = new Int32Array(width * height), nearest = new Int32Array(width * height);
  const hull = new Int32Array(width), ends = new Float64Array(width + 1);
  return (map) => {
    let any = false;
    for (let x = 0; x < width; x++) any = alongColumn(map, row, x, width, height) || any;
    if (!any) return null;
    for (let y = 0; y < height; y++) alongRow(row, nearest, y, width, hull, ends);
    return nearest;
  };
}

/** Each point gets the nearest row of its column that is there, or -1. */
function alongColumn(map: Float32Array, row: Int32Array, x: number, width: number, height: number): boolean {
  let last = -1;
  for (let y = 0; y < height; y++) {
    const at = y * width + x;
    if (!Number.isNaN(map[at])) last = y;
    row[at] = last;
  }
  if (last < 0) return false;
  let next = -1;
  for (let y = height - 1; y >= 0; y--) {
    const at = y * width + x;
    if (row[at] === y) next = y;
    else if (next >= 0 && (row[at] < 0 || next - y < y - row[at])) row[at] = next;
  }
  return true;
}

/** The columns whose parabolas of squared distances are lowest somewhere in this row. */
function alongRow(
  row: Int32Array,
  nearest: Int32Array,
  y: number,
  width: number,
  hull: Int32Array,
  ends: Float64Array,
): void {
  const from = y * width, height = (x: number) => (row[from + x] - y) ** 2;
  let count = 0;
  for (let x = 0; x < width; x++) {
    if (row[from + x] < 0) continue;
    let begin = -Infinity;
    while (count > 0) {
      const before = hull[count - 1];
      begin = (height(x) + x * x - height(before) - before * before) / (2 * (x - before));
      if (begin > ends[count - 1]) break;
      count--;
      begin = -Infinity;
    }
    hull[count] = x;
    ends[count++] = begin;
  }
  for (let x = 0, k = 0; x < width; x++) {
    while (k + 1 < count && ends[k + 1] <= x) k++;
    nearest[from + x] = row[from + hull[k]] * width + hull[k];
  }
}
