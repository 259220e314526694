// npz archives, npy files and folders of npy files -> columns. May import errors, checkpoint's readers, columns.
import { basename, join } from "@std/path";
import { dtypeBytes } from "../../ffi/dtype.ts";
import type { FileBytes } from "../checkpoint/file_bytes.ts";
import { isZip, openZip } from "../checkpoint/zip_reader.ts";
import { UserError } from "../errors.ts";
import { type Column, type ColumnSettings, type FromColumns, fromColumns } from "./columns.ts";
import { isFolder, namesIn, withFiles } from "./files.ts";
import { checkNpySize, HEADER_BYTES, npyNumbers, readNpyHeader } from "./npy.ts";

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

function archive(file: FileBytes): Column[] {
  const zip = openZip(file);
  return [...zip.entries.values()].filter(({ name }) => isArray(name)).map((entry) => {
    const name = entry.name.slice(0, -ENDING.length);
    return array(name, `${file.path}: the array "${name}"`, {
      size: entry.size,
      peek: (length) => zip.peek(entry, length),
      read: () => zip.read(entry),
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
  });

interface Bytes {
  readonly size: number;
  /** The first of them. */
  peek(length: number): Uint8Array;
  read(): Uint8Array;
}

function array(name: string, where: string, bytes: Bytes): Column {
  const header = readNpyHeader(where, bytes.peek(Math.min(bytes.size, HEADER_BYTES)), bytes.size);
  checkNpySize(where, header, bytes.size);
  const { shape, dtype, unusable, start } = header;
  return { name, shape, dtype, unusable, read: () => npyNumbers(header, bytes.read().subarray(start)) };
}

/** The columns of a table, numbered from 0 as numpy does. */
function columnsOf(file: FileBytes): Column[] {
  const { shape, dtype, unusable, read } = arrayFile(file);
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
  let table: Uint8Array | undefined;
  return Array.from({ length: columns }, (_, i) => ({
    name: String(i),
    shape: [rows],
    dtype,
    read: () => everyNth(table ??= read() as Uint8Array, i, columns, dtypeBytes(dtype)),
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
