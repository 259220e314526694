// A variable of which some places along its dimensions were picked, or whose dimensions come in another order.
import { dtypeBytes } from "../../../ffi/dtype.ts";
import { openRows } from "./open_rows.ts";
import type { PickedRows, Rows } from "./rows.ts";
import { product } from "./numbers.ts";
import type { Variable } from "./table.ts";

export interface Picks {
  readonly places: Int32Array;
  /** A single place has no dimension. */
  readonly drop: boolean;
}

interface Cut {
  readonly size: number;
  readonly places: Int32Array;
  readonly drop: boolean;
}

/** A smaller variable is read whole. */
const SMALL_BYTES = 64 * 2 ** 20;

export function picked(variable: Variable, picks: ReadonlyMap<string, Picks>): Variable {
  const { shape, dimensions, dtype } = variable;
  if (!dimensions.some((name) => picks.has(name)) || shape.length === 0) return variable;
  const cuts = shape.map((size, d): Cut => {
    const own = picks.get(dimensions[d]);
    return {
      size,
      places: own?.places ?? Int32Array.from({ length: size }, (_, i) => i),
      drop: own?.drop ?? false,
    };
  });
  const kept = cuts.flatMap(({ drop }, d) => drop ? [] : [d]);
  const width = dtype === null ? 1 : dtypeBytes(dtype);
  const rows = (lead: number): Rows | string => {
    // Dropped dimensions before the last leading one have a place, and lead no rows.
    const end = lead === 0 ? 0 : (kept[lead - 1] ?? shape.length - 1) + 1;
    return pickedRows(variable, cuts, end, width);
  };
  const small = product(shape) * width <= SMALL_BYTES, sizes = kept.map((d) => cuts[d].places.length);
  return {
    ...variable,
    ...packingsOf(variable, cuts[0]),
    shape: sizes,
    dimensions: kept.map((d) => dimensions[d]),
    read() {
      const some = small || kept.length === 0 ? "all" : rows(1);
      return typeof some === "string"
        ? gathered(variable.read(), cuts, width)
        : readRows(variable, some, sizes);
    },
    rows,
  };
}

/** The dimension becomes the first one; the others keep their order. */
export function leadingAlong(variable: Variable, dimension: string): Variable {
  const { shape, dimensions, dtype } = variable, at = dimensions.indexOf(dimension);
  if (at <= 0 || dtype === null) return variable;
  const order = [at, ...shape.keys().filter((d) => d !== at)], sizes = order.map((d) => shape[d]);
  const width = dtypeBytes(dtype);
  return {
    ...variable,
    shape: sizes,
    dimensions: order.map((d) => dimensions[d]),
    read() {
      const some = reordered(variable, order, 1, width);
      return typeof some === "string"
        ? transposed(variable.read(), shape, at, width)
        : readRows(variable, some, sizes);
    },
    rows: (lead) => reordered(variable, order, lead, width),
  };
}

/** Rows of the variable's own are as long as no dimension is in another place in them. */
function reordered(
  variable: Variable,
  order: readonly number[],
  lead: number,
  width: number,
): PickedRows | string {
  const { shape } = variable, first = order.slice(0, lead), end = Math.max(-1, ...first) + 1;
  const rows = variable.rows(end);
  if (typeof rows === "string") return rows;
  const all = (d: number) => Int32Array.from({ length: shape[d] }, (_, i) => i);
  const step = (d: number) => product(shape.slice(d + 1, end));
  const outer = first.map((d) => ({ places: all(d), step: step(d) }));
  let inner = [0];
  for (const d of order.slice(lead).filter((d) => d < end)) {
    inner = inner.flatMap((from) => Array.from(all(d), (i) => from + i * step(d)));
  }
  const bytes = product(shape.slice(end)) * width;
  return {
    layout: "picked",
    rows,
    outer,
    inner: Int32Array.from(inner),
    bytes,
    runs: Int32Array.of(0, bytes),
  };
}

function transposed(from: Uint8Array, shape: readonly number[], at: number, width: number): Uint8Array {
  const before = product(shape.slice(0, at)), after = product(shape.slice(at + 1)) * width;
  const to = new Uint8Array(from.length);
  for (let i = 0; i < before; i++) {
    for (let k = 0; k < shape[at]; k++) {
      const place = (i * shape[at] + k) * after;
      to.set(from.subarray(place, place + after), (k * before + i) * after);
    }
  }
  return to;
}

/** A file that is one sample: its variables get a dimension of one place. */
export const asOneSample = (variable: Variable, dimension: string): Variable => ({
  ...variable,
  shape: [1, ...variable.shape],
  dimensions: [dimension, ...variable.dimensions],
  rows: (lead) => variable.rows(Math.max(0, lead - 1)),
});

/** Places along the first dimension are in rising order where files are packed each in its own way. */
function packingsOf({ packings, attributes }: Variable, { places, drop }: Cut): Partial<Variable> {
  if (!packings) return {};
  let first = 0;
  const counted = packings.map((packing) => {
    const end = first + packing.samples;
    const samples = places.filter((place) => place >= first && place < end).length;
    first = end;
    return { ...packing, samples };
  });
  if (!drop) return { packings: counted };
  return {
    packings: undefined,
    attributes: counted.find(({ samples }) => samples > 0)?.attributes ?? attributes,
  };
}

function pickedRows(
  variable: Variable,
  cuts: readonly Cut[],
  end: number,
  width: number,
): PickedRows | string {
  const lead = leadOf(cuts, end), rows = variable.rows(lead);
  if (typeof rows === "string") return rows;
  const sizes = cuts.map(({ size }) => size);
  return {
    layout: "picked",
    rows,
    outer: cuts.slice(0, end).map(({ places }, d) => ({ places, step: product(sizes.slice(d + 1, lead)) })),
    inner: placesIn(cuts.slice(end, lead)),
    bytes: product(sizes.slice(lead)) * width,
    runs: runsOf(cuts.slice(lead), width),
  };
}

/** Rows are read as far as they are mostly wanted: single numbers never, unless each is a sample. */
function leadOf(cuts: readonly Cut[], end: number): number {
  const last = cuts.length - 1;
  for (let d = last; d >= end; d--) {
    if (2 * cuts[d].places.length <= cuts[d].size) return Math.max(end, Math.min(d + 1, last));
  }
  return end;
}

/** The places of all combinations, row-major. */
function placesIn(cuts: readonly Cut[]): Int32Array {
  let found = Int32Array.of(0);
  for (const { size, places } of cuts) {
    const next = new Int32Array(found.length * places.length);
    found.forEach((at, i) => places.forEach((place, k) => next[i * places.length + k] = at * size + place));
    found = next;
  }
  return found;
}

/** Neighbours are one run. */
function runsOf(cuts: readonly Cut[], width: number): Int32Array {
  const places = placesIn(cuts), runs: number[] = [];
  for (let i = 0; i < places.length;) {
    let count = 1;
    while (i + count < places.length && places[i + count] === places[i] + count) count++;
    runs.push(places[i] * width, count * width);
    i += count;
  }
  return Int32Array.from(runs);
}

function gathered(all: Uint8Array, cuts: readonly Cut[], width: number): Uint8Array {
  const runs = runsOf(cuts, width);
  const found = new Uint8Array(cuts.reduce((total, { places }) => total * places.length, width));
  let at = 0;
  for (let i = 0; i < runs.length; i += 2) {
    found.set(all.subarray(runs[i], runs[i] + runs[i + 1]), at);
    at += runs[i + 1];
  }
  return found;
}

/** Memory never has what was not picked. */
function readRows({ name, dtype }: Variable, rows: Rows, [count, ...map]: readonly number[]): Uint8Array {
  const bytes = product(map) * dtypeBytes(dtype!), found = new Uint8Array(count * bytes);
  const reader = openRows({ name, rows, raw: dtype! });
  try {
    for (let row = 0; row < count; row++) reader.read(row, found.subarray(row * bytes, (row + 1) * bytes));
  } finally {
    reader.close();
  }
  return found;
}
