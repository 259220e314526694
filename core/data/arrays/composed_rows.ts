// Rows that are made of other rows: files one after the other, a part of each map, or the same for all.
import { KEPT_BYTES } from "./chunks.ts";
import {
  groupsOf,
  type HeldRows,
  type PartedRows,
  type PickedRows,
  type ReadsRows,
  type Rows,
  storedRows,
} from "./rows.ts";

type Open = (rows: Rows) => ReadsRows;

/** A thread keeps the readers that it used last of hundreds of files: some, and more of those that keep few chunks. */
const SOME_OPEN = 8, MOST_OPEN = 64;

/** `open` is called when a part's first row is read. */
export function openParts({ starts, parts }: PartedRows, open: Open): ReadsRows {
  const opened = new Map<number, ReadsRows>();
  let kept = 0;
  const partOf = finder(starts);
  const bytesOf = ({ keeps = KEPT_BYTES / SOME_OPEN }: ReadsRows) => keeps;
  const isFull = () => opened.size >= MOST_OPEN || (opened.size >= SOME_OPEN && kept >= KEPT_BYTES);
  const closeOldest = () => {
    const [[oldest, reader]] = opened;
    reader.close?.();
    opened.delete(oldest);
    kept -= bytesOf(reader);
  };
  const readerOf = (part: number): ReadsRows => {
    const known = opened.get(part);
    if (known) {
      if (parts.length <= SOME_OPEN) return known;
      opened.delete(part); // and in again, as the newest
      opened.set(part, known);
      return known;
    }
    while (isFull()) closeOldest();
    const reader = open(parts[part]);
    opened.set(part, reader);
    kept += bytesOf(reader);
    return reader;
  };
  return {
    read(row, into) {
      const part = partOf(row);
      readerOf(part).read(row - starts[part], into);
    },
    groupOf: groups(starts, parts, partOf),
    partOf,
    close() {
      for (const { close } of opened.values()) close?.();
    },
  };
}

function finder(starts: readonly number[]): (row: number) => number {
  let last = 0;
  return (row) => {
    if (starts[last] <= row && row < starts[last + 1]) return last;
    let low = 0, high = starts.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle] <= row) low = middle;
      else high = middle - 1;
    }
    return last = low;
  };
}

/** The numbers of a part's groups begin where those of the part before end. */
function groups(
  starts: readonly number[],
  parts: readonly Rows[],
  partOf: (row: number) => number,
): ReadsRows["groupOf"] {
  const own = parts.map((rows) => {
    const stored = storedRows(rows);
    return rows.layout !== "parts" && rows.layout !== "picked" && stored.length === 1
      ? groupsOf(stored[0])
      : undefined;
  });
  if (own.every((group) => group === undefined)) return undefined;
  let next = 0;
  const firsts = own.map((group, i) => {
    const first = next;
    next += group?.count ?? starts[i + 1] - starts[i];
    return first;
  });
  return (row) => {
    const part = partOf(row), inside = row - starts[part];
    return firsts[part] + (own[part]?.groupOf(inside) ?? inside);
  };
}

export function openPicked({ rows, outer, inner, bytes, runs }: PickedRows, open: Open): ReadsRows {
  const reader = open(rows);
  const { groupOf, partOf, close } = reader;
  const whole = runs.length === 2 && runs[0] === 0 && runs[1] === bytes;
  const scratch = new Uint8Array(whole ? 0 : bytes);
  const firstOf = (row: number): number => {
    let first = 0, rest = row;
    for (let d = outer.length - 1; d >= 0; d--) {
      const { places, step } = outer[d];
      first += places[rest % places.length] * step;
      rest = Math.floor(rest / places.length);
    }
    return first;
  };
  return {
    read(row, into) {
      const first = firstOf(row);
      let at = 0;
      for (const place of inner) {
        if (whole) {
          reader.read(first + place, inner.length === 1 ? into : into.subarray(at, at += bytes));
          continue;
        }
        reader.read(first + place, scratch);
        for (let i = 0; i < runs.length; i += 2) {
          copy(scratch, runs[i], into, at, runs[i + 1]);
          at += runs[i + 1];
        }
      }
    },
    groupOf: groupOf && ((row) => groupOf(firstOf(row) + inner[0])),
    partOf: partOf && ((row) => partOf(firstOf(row) + inner[0])),
    close,
  };
}

/** Below this many bytes a loop is faster than a view. */
const SHORT = 32;

function copy(from: Uint8Array, at: number, into: Uint8Array, to: number, bytes: number): void {
  if (bytes > SHORT) into.set(from.subarray(at, at + bytes), to);
  else for (let i = 0; i < bytes; i++) into[to + i] = from[at + i];
}

export const openHeld = ({ values, bytes }: HeldRows): ReadsRows => ({
  read(row, into) {
    const at = row * bytes % values.length;
    into.set(values.subarray(at, at + bytes));
  },
});
