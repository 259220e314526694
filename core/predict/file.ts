import { dirname } from "../../deps/path.ts";
import { checkDisk, writing } from "../base/new_file.ts";
import { writeArrays } from "../data/formats/npz/write.ts";
import { UserError } from "../base/errors.ts";
import { pathExists } from "../base/files.ts";
import { VERSION } from "../base/version.ts";
import { columnBytesOf, elementsOf, piecesOf, type PredictionColumn } from "./columns.ts";
import { writeAll, writeAtomically } from "../base/atomic.ts";
import { swapBytes } from "../data/columns/rows.ts";

interface Writer {
  check(columns: readonly PredictionColumn[]): void;
  write(path: string, columns: readonly PredictionColumn[], command: string): void;
}

const WRITERS: Readonly<Record<string, Writer>> = {
  ".npz": { check: () => {}, write: (path, columns) => void writeArrays(path, columns.map(asArray)) },
  ".csv": { check: checkCsv, write: writeCsv },
  ".nc": {
    check: checkNetcdf,
    write: (path, columns, command) => writeNetcdf(path, columns, `hpctrain ${VERSION}: ${command}`),
  },
};

function writerOf(path: string): Writer {
  const ending = Object.keys(WRITERS).find((ending) => path.endsWith(ending));
  if (ending !== undefined) return WRITERS[ending];
  throw new UserError(
    "usage",
    `--out ${path}: the file's name should end in ${Object.keys(WRITERS).join(", ")}.`,
  );
}

/** Runs before anything is computed. */
export function checkOut(path: string): void {
  writerOf(path);
  if (pathExists(path)) {
    throw new UserError("usage", `${path} exists already: name another file, or delete it first.`);
  }
  writing(path, () => Deno.mkdirSync(dirname(path), { recursive: true }));
}

/** The first predictions show how much all of them will take. */
export function checkRoomFor(path: string, columns: readonly PredictionColumn[]): void {
  writerOf(path).check(columns);
  const bytes = columns.reduce((sum, column) => sum + columnBytesOf(column), 0);
  // The spool and the file both take space.
  checkDisk(
    `Predicting to ${path}`,
    dirname(path),
    2 * bytes,
    "Free some space, or name a file on another disk.",
  );
}

export function writePredictions(path: string, columns: readonly PredictionColumn[], command: string): void {
  writerOf(path).write(path, columns, command);
}

const asArray = (column: PredictionColumn) => ({
  ...column,
  *pieces() {
    for (const { buffer, byteOffset, byteLength } of piecesOf(column)) {
      yield new Uint8Array(buffer, byteOffset, byteLength);
    }
  },
});

/** Neither spreadsheets nor people read more columns. */
const MOST_COLUMNS = 16_384;
/** Memory holds this many cells as text. */
const CELLS = 1 << 16;

export function checkCsv(columns: readonly PredictionColumn[]): void {
  const cells = columns.reduce((sum, column) => sum + elementsOf(column), 0);
  if (cells <= MOST_COLUMNS) return;
  throw new UserError(
    "usage",
    `A csv of these predictions would have ${cells} columns: give --out FILE.npz or FILE.nc, which hold maps as they are.`,
  );
}

export function writeCsv(path: string, columns: readonly PredictionColumn[]): void {
  const heads = columns.flatMap(headsOf);
  const lines = Math.max(1, Math.floor(CELLS / heads.length));
  const encoder = new TextEncoder(), samples = columns[0].shape[0];
  writeAtomically(path, (file) => {
    writeAll(file, encoder.encode(heads.map(escaped).join(",") + "\n"));
    for (let from = 0; from < samples; from += lines) {
      const count = Math.min(lines, samples - from);
      const cells = columns.map((column) => cellsOf(column, from, count));
      let text = "";
      for (let i = 0; i < count; i++) text += cells.flatMap((at) => at(i)).join(",") + "\n";
      writeAll(file, encoder.encode(text));
    }
  });
}

function headsOf(column: PredictionColumn): string[] {
  const { name, names, dtype } = column, each = elementsOf(column);
  return Array.from(
    { length: each },
    (_, k) => each === 1 ? name : `${name}_${dtype === "f32" && names?.[k] || k}`,
  );
}

function cellsOf(column: PredictionColumn, from: number, count: number): (i: number) => string[] {
  const values = column.read(from, count), each = elementsOf(column);
  const word = (value: number) => column.dtype === "i32" ? column.names?.[value] : undefined;
  return (i) =>
    Array.from(
      { length: each },
      (_, k) => escaped(word(values[i * each + k]) ?? shortest(values[i * each + k])),
    );
}

/** Returns the shortest text that is this f32 again; Python and spreadsheets read nan. */
function shortest(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  for (let digits = 6; digits < 9; digits++) {
    const text = Number(value.toPrecision(digits));
    if (Math.fround(text) === value) return String(text);
  }
  return String(value);
}

const escaped = (text: string): string => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

// Classic NetCDF with 64-bit offsets (CDF-2) suits every NetCDF library.

const DIMENSION = 10, VARIABLE = 11, ATTRIBUTE = 12;
const CHAR = 2, INT = 4, FLOAT = 5;
/** A variable's size is a number of 32 bits. */
const MOST_BYTES = 2 ** 32 - 4;

interface Dimension {
  readonly name: string;
  readonly size: number;
}

export function checkNetcdf(columns: readonly PredictionColumn[]): void {
  const large = columns.find((column) => columnBytesOf(column) > MOST_BYTES);
  if (!large) return;
  throw new UserError(
    "usage",
    `${large.name} is larger than a variable of a NetCDF file can be (4 GiB): give --out FILE.npz.`,
  );
}

function writeNetcdf(path: string, columns: readonly PredictionColumn[], made: string): void {
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

/** "sample" comes first, then outputs of a sample, rows and columns of a map. */
function dimensionsOf(columns: readonly PredictionColumn[]): Dimension[] {
  const made: Dimension[] = [{ name: "sample", size: columns[0].shape[0] }];
  for (const { name, shape } of columns) {
    shape.slice(1).forEach((size, i) => made.push({ name: `${name}_${i}`, size }));
  }
  return made;
}

function headerOf(
  columns: readonly PredictionColumn[],
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
    out.word(dtype === "i32" ? INT : FLOAT).word(columnBytesOf(column)).word(0).word(at);
    out.high(at);
    at += columnBytesOf(column);
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
    /** The upper half of a 64-bit number precedes the word written last but one. */
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

/** Swaps in place, because nobody else reads the numbers. */
function bigEndian({ buffer, byteOffset, byteLength }: Int32Array | Float32Array): Uint8Array {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  swapBytes(bytes, 4);
  return bytes;
}
