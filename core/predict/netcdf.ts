// Predictions as classic NetCDF, 64-bit offsets (CDF-2), which every NetCDF library reads. May import checkpoint's atomic
// writes, data's swap_bytes, errors, columns.
import { writeAll, writeAtomically } from "../checkpoint/atomic.ts";
import { swapBytes } from "../data/swap_bytes.ts";
import { UserError } from "../errors.ts";
import { bytesOf, type Column, piecesOf } from "./columns.ts";

const DIMENSION = 10, VARIABLE = 11, ATTRIBUTE = 12;
const CHAR = 2, INT = 4, FLOAT = 5;
/** A variable's size is a number of 32 bits. */
const MOST_BYTES = 2 ** 32 - 4;

interface Dimension {
  readonly name: string;
  readonly size: number;
}

export function checkNetcdf(columns: readonly Column[]): void {
  const large = columns.find((column) => bytesOf(column) > MOST_BYTES);
  if (!large) return;
  throw new UserError(
    "usage",
    `${large.name} is larger than a variable of a NetCDF file can be (4 GiB): give --out FILE.npz.`,
  );
}

export function writeNetcdf(path: string, columns: readonly Column[], made: string): void {
  const dimensions = dimensionsOf(columns);
  const size = headerOf(columns, dimensions, made, 0).length;
  const header = headerOf(columns, dimensions, made, size);
  writeAtomically(path, (file) => {
    writeAll(file, header);
    for (const column of columns) {
      for (const piece of piecesOf(column)) writeAll(file, bigEndian(piece));
    }
  });
}

/** "sample", and one for each further size: outputs of a sample, rows and columns of a map. */
function dimensionsOf(columns: readonly Column[]): Dimension[] {
  const made: Dimension[] = [{ name: "sample", size: columns[0].shape[0] }];
  for (const { name, shape } of columns) {
    shape.slice(1).forEach((size, i) => made.push({ name: `${name}_${i}`, size }));
  }
  return made;
}

function headerOf(
  columns: readonly Column[],
  dimensions: readonly Dimension[],
  made: string,
  begin: number,
): Uint8Array {
  const out = bytes();
  out.text("CDF").byte(2).word(0);
  out.word(DIMENSION).word(dimensions.length);
  for (const { name, size } of dimensions) out.name(name).word(size);
  attributes(out, { history: made });
  out.word(VARIABLE).word(columns.length);
  let at = begin;
  for (const column of columns) {
    const { name, shape, dtype, names = [] } = column;
    out.name(name).word(shape.length).word(0);
    shape.slice(1).forEach((_, i) => out.word(dimensions.findIndex((d) => d.name === `${name}_${i}`)));
    attributes(out, names.length > 0 ? { names: names.join(" ") } : {});
    out.word(dtype === "i32" ? INT : FLOAT).word(bytesOf(column)).word(0).word(at);
    out.high(at);
    at += bytesOf(column);
  }
  return out.whole();
}

function attributes(out: ReturnType<typeof bytes>, named: Readonly<Record<string, string>>): void {
  const all = Object.entries(named);
  if (all.length === 0) return void out.word(0).word(0);
  out.word(ATTRIBUTE).word(all.length);
  for (const [name, text] of all) out.name(name).word(CHAR).name(text);
}

function bytes() {
  const list: number[] = [];
  const padded = (data: Uint8Array) => {
    list.push(...data);
    while (list.length % 4 !== 0) list.push(0);
  };
  const out = {
    byte: (value: number) => (list.push(value), out),
    text: (text: string) => (list.push(...new TextEncoder().encode(text)), out),
    word: (
      value: number,
    ) => (list.push(value >>> 24 & 255, value >>> 16 & 255, value >>> 8 & 255, value & 255), out),
    /** Puts the upper half of a 64-bit number before the word written last but one. */
    high(value: number) {
      const upper = Math.floor(value / 2 ** 32);
      list.splice(-8, 4, upper >>> 24 & 255, upper >>> 16 & 255, upper >>> 8 & 255, upper & 255);
      return out;
    },
    name(text: string) {
      const data = new TextEncoder().encode(text);
      out.word(data.length);
      padded(data);
      return out;
    },
    whole: () => Uint8Array.from(list),
  };
  return out;
}

/** Turned around where they are: nobody else looks at them. */
function bigEndian({ buffer, byteOffset, byteLength }: Int32Array | Float32Array): Uint8Array {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  swapBytes(bytes, 4);
  return bytes;
}
