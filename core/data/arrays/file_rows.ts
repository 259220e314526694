// Rows that lie in a file as they are. May import its siblings.
import { swapBytes } from "../swap_bytes.ts";
import { type OpenFile, openFile } from "./file.ts";
import type { FileRows, ReadsRows } from "./rows.ts";

/** `width` is the bytes of an element; the file stays its opener's to close. */
export function openFileRows(rows: FileRows, width: number, file: OpenFile): ReadsRows {
  const placeOf = placer(rows);
  return {
    read(row, into) {
      file.read(into, placeOf(row));
      if (rows.swapped) swapBytes(into, width);
    },
  };
}

const placer = ({ begin, step, blocks }: FileRows) =>
  blocks
    ? (row: number) => begin + Math.floor(row / blocks.rows) * blocks.step + row % blocks.rows * step
    : (row: number) => begin + row * step;

const BLOCK = 8 * 2 ** 20;

/** All rows: what lies between them is skipped in memory, as a read for each would take longer. */
export function readAllRows(rows: FileRows, count: number, width: number): Uint8Array {
  const { bytes, step, blocks } = rows;
  const values = new Uint8Array(count * bytes);
  const file = openFile(rows.file);
  const placeOf = placer(rows);
  const most = Math.max(1, Math.floor(BLOCK / step));
  const block = new Uint8Array(bytes === step ? 0 : Math.min(most, count) * step);
  try {
    for (let first = 0; first < count;) {
      const left = blocks ? blocks.rows - first % blocks.rows : count;
      const many = Math.min(most, count - first, left);
      const into = values.subarray(first * bytes, (first + many) * bytes);
      if (bytes === step) file.read(into, placeOf(first));
      else {
        const found = block.subarray(0, (many - 1) * step + bytes);
        file.read(found, placeOf(first));
        for (let i = 0; i < many; i++) copy(found, i * step, into, i * bytes, bytes);
      }
      first += many;
    }
  } finally {
    file.close();
  }
  if (rows.swapped) swapBytes(values, width);
  return values;
}

function copy(from: Uint8Array, at: number, to: Uint8Array, place: number, bytes: number): void {
  for (let i = 0; i < bytes; i++) to[place + i] = from[at + i];
}
