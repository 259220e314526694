import { dtypeBytes } from "../../ffi/dtype.ts";
import { dirname } from "../../deps/path.ts";
import { checkDisk, writing } from "../base/new_file.ts";
import { writeZarr } from "../data/writers/zarr.ts";
import { type ColumnToWrite, writeParquet } from "../data/writers/parquet.ts";
import { writeArrays } from "../data/writers/npz.ts";
import { UserError } from "../base/errors.ts";
import { pathExists } from "../base/files.ts";
import { VERSION } from "../base/version.ts";
import { isMapFolder, writeClassMaps } from "./class_maps.ts";
import { COLUMN_ARRAYS, type ColumnValues, elementsOf, type PredictionColumn } from "./columns.ts";
import { writeAll, writeAtomically } from "../base/atomic.ts";
import {
  type ClassicAttributes,
  type ClassicFile,
  MOST_BYTES,
  writeClassic,
} from "../data/writers/netcdf.ts";

interface Writer {
  check(columns: readonly PredictionColumn[]): void;
  write(path: string, columns: readonly PredictionColumn[], command: string): void;
}

const WRITERS: Readonly<Record<string, Writer>> = {
  ".npz": { check: () => {}, write: (path, columns) => void writeArrays(path, columns.map(asArray)) },
  ".csv": { check: (columns) => checkTable("csv", columns), write: writeCsv },
  ".parquet": {
    check: (columns) => checkTable("Parquet table", columns),
    write: (path, columns, command) =>
      writeAtomically(path, (file) => writeParquet(file, tableOf(columns, command))),
  },
  ".nc": {
    check: checkNetcdf,
    write: (path, columns, command) =>
      writeAtomically(path, (file) => writeClassic(file, contentOf(columns, command))),
  },
  ".zarr": {
    check: () => {},
    write: (path, columns, command) => writeZarr(path, contentOf(columns, command)),
  },
  "/": { check: () => {}, write: writeClassMaps },
};

function writerOf(path: string): Writer {
  const ending = Object.keys(WRITERS).find((ending) => path.endsWith(ending));
  if (ending !== undefined) return WRITERS[ending];
  throw new UserError(
    "usage",
    `--out ${path}: the file's name should end in ${
      Object.keys(WRITERS).join(", ")
    }, which is a folder of class maps as PNG.`,
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
export function checkFreeSpace(path: string, columns: readonly PredictionColumn[], onGrid = false): void {
  if (!onGrid) writerOf(path).check(columns);
  const bytes = columns.reduce((sum, column) => sum + columnBytesOf(column), 0);
  // The spool and the file both take space.
  checkDisk(
    `Predicting to ${path}`,
    dirname(path),
    2 * bytes,
    "Free some space, or name a file on another disk.",
  );
}

/** Returns the columns that the file has: only tables have texts. */
export function writePredictions(
  path: string,
  columns: readonly PredictionColumn[],
  command: string,
): readonly PredictionColumn[] {
  const written = /(\.csv|\.parquet|\/)$/.test(path) ? columns : columns.filter(({ texts }) => !texts);
  writerOf(path).write(path, written, command);
  return isMapFolder(path) ? written.filter(({ name }) => name === "label") : written;
}

const asArray = (column: PredictionColumn) => ({
  ...column,
  *pieces() {
    for (const { buffer, byteOffset, byteLength } of columnPieces(column)) {
      yield new Uint8Array(buffer, byteOffset, byteLength);
    }
  },
});

/** Neither spreadsheets nor people read more columns. */
const MOST_COLUMNS = 16_384;

/** Memory holds this many cells as text. */
const CELLS = 1 << 16;

export function checkTable(kind: string, columns: readonly PredictionColumn[]): void {
  const cells = columns.reduce((sum, column) => sum + elementsOf(column), 0);
  if (cells <= MOST_COLUMNS) return;
  throw new UserError(
    "usage",
    `A ${kind} of these predictions would have ${cells} columns: give --out FILE.npz, FILE.nc or FILE.zarr, which hold maps as they are.`,
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
  const prefix = name === "probabilities" ? "probability" : name;
  return Array.from(
    { length: each },
    (_, k) => each === 1 ? name : `${prefix}_${dtype !== "i32" && names?.[k] || k}`,
  );
}

function cellsOf(column: PredictionColumn, from: number, count: number): (i: number) => string[] {
  const texts = column.texts?.(from, count);
  if (texts) return (i) => [escaped(texts[i])];
  const values = column.read(from, count), each = elementsOf(column);
  const text = column.dtype === "f64" ? (value: number) => wordOf(value) ?? String(value) : shortest;
  const word = (value: number) => column.dtype === "i32" ? column.names?.[value] : undefined;
  return (i) =>
    Array.from(
      { length: each },
      (_, k) => escaped(word(values[i * each + k]) ?? text(values[i * each + k])),
    );
}

/** A table has the columns of a csv; classes that have names are texts. */
function tableOf(columns: readonly PredictionColumn[], command: string): Parameters<typeof writeParquet>[1] {
  return {
    rows: columns[0].shape[0],
    columns: columns.flatMap(parquetColumns),
    about: { history: `hpctrain ${VERSION}: ${command}` },
  };
}

function parquetColumns(column: PredictionColumn): ColumnToWrite[] {
  const { dtype, names, texts } = column, each = elementsOf(column);
  if (texts) return [{ name: column.name, type: "text", read: texts }];
  const named = dtype === "i32" && names !== undefined && names.length > 0;
  // Columns of one prediction take turns at the same rows.
  let held: { from: number; count: number; values: ColumnValues } | null = null;
  const rows = (from: number, count: number) => {
    if (held?.from !== from || held.count !== count) held = { from, count, values: column.read(from, count) };
    return held.values;
  };
  return headsOf(column).map((name, k) => ({
    name,
    type: named ? "text" : dtype,
    read(from, count) {
      const all = rows(from, count);
      const own = new COLUMN_ARRAYS[dtype](count);
      for (let i = 0; i < count; i++) own[i] = all[i * each + k];
      return named ? Array.from(own, (value) => names[value] ?? String(value)) : own;
    },
  }));
}

/** Returns the shortest text that is this f32 again; Python and spreadsheets read nan. */
function shortest(value: number): string {
  const word = wordOf(value);
  if (word !== null) return word;
  for (let digits = 6; digits < 9; digits++) {
    const text = Number(value.toPrecision(digits));
    if (Math.fround(text) === value) return String(text);
  }
  return String(value);
}

const wordOf = (value: number): string | null =>
  Number.isFinite(value) ? null : Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";

const escaped = (text: string): string => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

export function checkNetcdf(columns: readonly PredictionColumn[]): void {
  const large = columns.find((column) => columnBytesOf(column) > MOST_BYTES);
  if (!large) return;
  throw new UserError(
    "usage",
    `${large.name} is larger than a variable of a NetCDF file can be (4 GiB): give --out FILE.zarr or FILE.npz.`,
  );
}

/** "sample" comes first, then outputs of a sample, rows and columns of a map. */
function contentOf(columns: readonly PredictionColumn[], command: string): ClassicFile {
  const own = ({ name }: PredictionColumn, i: number) => `${name}_${i}`;
  return {
    dimensions: [
      { name: "sample", size: columns[0].shape[0] },
      ...columns.flatMap((column) =>
        column.shape.slice(1).map((size, i) => ({ name: own(column, i), size }))
      ),
    ],
    attributes: { history: `hpctrain ${VERSION}: ${command}` },
    variables: columns.map((column) => ({
      name: column.name,
      type: column.dtype,
      dimensions: ["sample", ...column.shape.slice(1).map((_, i) => own(column, i))],
      attributes: namesOf(column),
      pieces: () => columnPieces(column),
    })),
  };
}

/** Such files have the grid, where the data has one. */
export const mayHaveGrid = (path: string): boolean => path.endsWith(".nc") || path.endsWith(".zarr");

const namesOf = ({ names = [] }: PredictionColumn): ClassicAttributes =>
  names.length > 0 ? { names: names.join(" ") } : {};

/** A chunk has at most so many numbers, but at least one row. */
const CHUNK = 1 << 18;

const columnBytesOf = (column: Pick<PredictionColumn, "shape" | "dtype">): number =>
  dtypeBytes(column.dtype) * column.shape[0] * elementsOf(column);

export function* columnPieces(column: PredictionColumn): Generator<ColumnValues> {
  const samples = column.shape[0], rows = Math.max(1, Math.floor(CHUNK / Math.max(1, elementsOf(column))));
  for (let from = 0; from < samples; from += rows) yield column.read(from, Math.min(rows, samples - from));
}
