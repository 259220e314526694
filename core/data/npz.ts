// npz archives, npy files and folders of npy files -> columns. May import errors, checkpoint's readers, columns.
import { basename, join } from "../../deps/path.ts";
import { dtypeBytes } from "../../ffi/dtype.ts";
import type { FileBytes } from "../checkpoint/file_bytes.ts";
import { STORED } from "../checkpoint/zip_format.ts";
import { isZip, openZip } from "../checkpoint/zip_reader.ts";
import { UserError } from "../errors.ts";
import { type Column, type ColumnSettings, type FromColumns, fromColumns } from "./columns.ts";
import { isFolder, namesIn, withFiles } from "./files.ts";
import { markOf } from "./arrays/file.ts";
import type { FileRows } from "./arrays/rows.ts";
import { checkNpySize, HEADER_BYTES, type NpyHeader, npyNumbers, readNpyHeader } from "./npy.ts";

/** Arrays by name: those of an archive, the files of a folder, or the columns of one two-dimensional array. */
export function npz(settings: ColumnSettings): FromColumns {
  const path = settings.data.data_path;
  return withFiles((open) => {
    if (isFolder(path)) return fromColumns({ path, noun: "array", columns: folder(path, open) }, settings);
    const file = open(path);
    return isZip(file)
      ? fromColumns({ path, noun: "array", columns: archive(file) }, settings)
      : fromColumns({ path, noun: "column", columns: columnsOf(file) }, settings);
  });
}

/** The arrays of an archive, a folder or a file, which are open while `use` runs; `kind` says which. */
export function withArrays<R>(path: string, use: (kind: string, columns: readonly Column[]) => R): R {
  return withFiles((open) => {
    if (isFolder(path)) return use("folder of npy files", folder(path, open));
    const file = open(path);
    return isZip(file) ? use("npz archive", archive(file)) : use("npy file", [arrayFile(file)]);
  });
}

function archive(file: FileBytes): Column[] {
  const zip = openZip(file);
  return [...zip.entries.values()].filter(({ name }) => isArray(name)).map((entry) => {
    const name = entry.name.slice(0, -ENDING.length);
    return array(name, `${file.path}: the array "${name}"`, {
      size: entry.size,
      peek: (length) => zip.peek(entry, length),
      read: () => zip.read(entry),
      file: file.path,
      at: () => entry.method === STORED ? zip.startOf(entry) : null,
    });
  });
}

const ENDING = ".npy";
const isArray = (name: string) => name.endsWith(ENDING);

/** Whether `auto` should take this folder for arrays. */
export const looksLikeArrays = (path: string): boolean => isFolder(path) && namesIn(path).some(isArray);

function folder(path: string, open: (path: string) => FileBytes): Column[] {
  return namesIn(path).filter(isArray).map((name) => arrayFile(open(join(path, name))));
}

const arrayFile = (file: FileBytes): Column =>
  array(basename(file.path, ENDING), file.path, {
    size: file.size,
    peek: (length) => file.read(0, length),
    read: () => file.read(0, file.size),
    file: file.path,
    at: () => 0,
  });

interface Bytes {
  readonly size: number;
  /** The first of them. */
  peek(length: number): Uint8Array;
  read(): Uint8Array;
  /** The file they are in, and where they begin there; null where they are packed. */
  readonly file: string;
  at(): number | null;
}

function array(name: string, where: string, bytes: Bytes): Column {
  const header = readNpyHeader(where, bytes.peek(Math.min(bytes.size, HEADER_BYTES)), bytes.size);
  checkNpySize(where, header, bytes.size);
  const { shape, dtype, unusable, start } = header;
  return {
    name,
    shape,
    dtype,
    unusable,
    read: () => npyNumbers(header, bytes.read().subarray(start)),
    stream: { rows: () => rowsOf(header, bytes), raw: dtype, rule: null },
  };
}

/** Reading all of such an array takes libtorch. */
export const FORTRAN =
  "is in Fortran order, where the numbers of a row lie far apart: write it as numpy.ascontiguousarray(x)";

/** Where the rows are, or why they have no place of their own. */
function rowsOf({ shape, dtype, fortran, bigEndian, start }: NpyHeader, bytes: Bytes): FileRows | string {
  const at = bytes.at();
  if (at === null) return "is compressed, and only all of it can be unpacked: write it with numpy.savez";
  if (fortran && shape.length > 1) {
    return FORTRAN;
  }
  const row = shape.slice(1).reduce((total, size) => total * size, dtypeBytes(dtype));
  const begin = at + start, swapped = bigEndian && dtypeBytes(dtype) > 1;
  return { layout: "file", file: markOf(bytes.file), begin, bytes: row, step: row, swapped };
}

/** The columns of a table, numbered from 0 as numpy does. */
function columnsOf(file: FileBytes): Column[] {
  const { shape, dtype, unusable, read, stream } = arrayFile(file);
  if (unusable) throw new UserError("data", `${file.path} ${unusable}.`);
  const [rows, columns] = shape;
  if (shape.length !== 2 || columns < 2) {
    throw new UserError(
      "data",
      `${file.path} is one array of the shape [${
        shape.join(", ")
      }]: a single array has to be a table, with the ` +
        "target in its last column. Put features and targets into one file: " +
        "numpy.savez('data.npz', x=x, y=y), or two files into one folder: x.npy, y.npy.",
    );
  }
  const width = dtypeBytes(dtype);
  let table: Uint8Array | undefined;
  return Array.from({ length: columns }, (_, i) => ({
    name: String(i),
    shape: [rows],
    dtype,
    read: () => everyNth(table ??= read() as Uint8Array, i, columns, width),
    stream: {
      rows() {
        const rows = stream!.rows() as FileRows | string;
        return typeof rows === "string" ? rows : { ...rows, begin: rows.begin + i * width, bytes: width };
      },
      raw: dtype,
      rule: null,
    },
  }));
}

/** One column of a row-major table, as bytes. */
function everyNth(table: Uint8Array, first: number, step: number, width: number): Uint8Array {
  const column = new Uint8Array(table.length / step);
  for (let at = 0, from = first * width; at < column.length; at += width, from += step * width) {
    for (let byte = 0; byte < width; byte++) column[at + byte] = table[from + byte];
  }
  return column;
}
