// NumPy arrays come as .npy files, folders of them, or .npz archives.
import { isFolder } from "../../../base/files.ts";
import { type DType, dtypeBytes } from "../../../../ffi/dtype.ts";
import { findLibtorch, noLibtorchSentence } from "../../../../ffi/libraries/find.ts";
import { libtorchIsOpen, openLibtorch } from "../../../../ffi/library.ts";
import { readBytes, uninitialised, writeBytes } from "../../../../ffi/make.ts";
import { permute } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { UserError } from "../../../base/errors.ts";
import { checkNpySize, HEADER_BYTES, type NpyHeader, readNpyHeader } from "../../arrays/npy.ts";
import type { FileRows } from "../../arrays/rows.ts";
import { product } from "../../arrays/numbers.ts";
import { swapBytes } from "../../codecs/bytes.ts";
import { basename, join } from "../../../../deps/path.ts";
import type { FileBytes } from "../../../base/file_bytes.ts";
import { isZip, openZip, STORED } from "../../../base/zip.ts";
import type { Column, Variable } from "../../arrays/table.ts";
import { fromColumns } from "../../tables/columns.ts";
import type { DataReader, DataRequest, Sources, TableFile } from "../../format.ts";
import { toColumn, withFile } from "../../arrays/variables.ts";
import { joinFiles } from "../../arrays/joined.ts";
import { markOf, namesIn, withFiles } from "../../arrays/files.ts";
import { filesBelow, filesNamed, filesText } from "../../arrays/paths.ts";
import { ENDING, hasArrays, isArray } from "./format.ts";

/** Numbers come in this machine's byte order, row-major. It may change `bytes`. */
function npyNumbers({ shape, dtype, fortran, bigEndian }: NpyHeader, bytes: Uint8Array): Uint8Array {
  const width = dtypeBytes(dtype);
  const aligned = bytes.byteOffset % width === 0 ? bytes : bytes.slice();
  if (bigEndian) swapBytes(aligned, width);
  return fortran && shape.length > 1 ? rowMajor(aligned, shape, dtype) : aligned;
}

function rowMajor(bytes: Uint8Array, shape: readonly number[], dtype: DType): Uint8Array {
  if (!libtorchIsOpen()) openFoundLibtorch(); // training has opened it, and inspect has not
  return scope(() => {
    const reversed = uninitialised(shape.toReversed(), { dtype });
    writeBytes(reversed, bytes);
    return readBytes(permute(reversed, shape.map((_, i) => shape.length - 1 - i)));
  });
}

function openFoundLibtorch(): void {
  const { chosen, rejected } = findLibtorch();
  if (!chosen) throw new UserError("environment", noLibtorchSentence(rejected));
  openLibtorch(chosen);
}

/** Arrays by name: those of an archive, of a folder's files, or the columns of one two-dimensional array. */
function openArrays(request: DataRequest): Sources {
  const path = request.data.data_path, files = manyArchives(path);
  if (files) {
    return joinedTable(path, files, ({ file, ...table }) => {
      const columns = withFile(table.columns, file && toColumn(file, false));
      const found = fromColumns({ ...table, columns }, request);
      return { ...found, notes: [...table.notes, ...found.notes] };
    }, request.data.sample_dim);
  }
  return withFiles((open) => {
    if (isFolder(path) || isZip(open(path))) return fromColumns(tableOf(path, open), request);
    return fromColumns({ path, noun: "column", columns: columnsOf(open(path)) }, request);
  });
}

function withArrays<R>(path: string, use: (table: TableFile) => R): R {
  const files = manyArchives(path);
  return files ? joinedTable(path, files, use) : withFiles((open) => use(tableOf(path, open)));
}

const ARCHIVE = [".npz"];

/** Null means one archive, one array, or a folder of arrays. */
const manyArchives = (path: string): readonly string[] | null =>
  filesNamed(path, ARCHIVE) ?? (isFolder(path) && !hasArrays(path) ? filesBelow(path, ARCHIVE) : null);

/** Archives are joined along the first axis of their arrays. */
function joinedTable<R>(
  path: string,
  files: readonly string[],
  use: (table: TableFile & { notes: readonly string[]; file: Variable | null }) => R,
  along = "",
): R {
  if (files.length === 0) throw new UserError("data", `The folder ${path} has no .npy or .npz files in it.`);
  const found = files.map((file) => ({ path: file, variables: detached(file) }));
  const inOrder = path.includes(",");
  const { variables, file, notes } = joinFiles(found, { named: false, inOrder, noun: "array", along });
  const columns = variables.map((variable) => toColumn(variable, false));
  const note = `${path}: ${filesText(files)} joined`;
  return use({ path, kind: "npz archives", noun: "array", columns, file, notes: [note, ...notes] });
}

/** Arrays open their file when they are read: hundreds of files must not be open at once. */
function detached(path: string): Variable[] {
  const columnsIn = <R>(use: (columns: readonly Column[]) => R): R =>
    withFiles((open) => use(tableOf(path, open).columns));
  return columnsIn((columns) =>
    columns.map(({ name, shape, dtype, unusable, text }, i) => ({
      ...{ name, shape, dtype, unusable: text ? TEXT_OF_MANY : unusable },
      dimensions: shape.map((size) => `size ${size}`),
      attributes: new Map(),
      auxiliary: false,
      read: () => columnsIn((columns) => columns[i].read() as Uint8Array),
      rows: (lead: number) =>
        columnsIn((columns) => {
          const rows = columns[i].stream!.rows();
          if (lead > 0 || typeof rows === "string" || rows.layout !== "file") return rows;
          const bytes = product(shape) * dtypeBytes(dtype);
          return { ...rows, bytes, step: bytes };
        }),
    }))
  );
}

const TEXT_OF_MANY =
  "holds text, which is read from a single archive: join them to one, or save numbers in its place";

function tableOf(path: string, open: (path: string) => FileBytes): TableFile {
  const table = (kind: string, columns: readonly Column[]) => ({ path, kind, noun: "array", columns });
  if (isFolder(path)) return table("folder of npy files", folder(path, open));
  const file = open(path);
  return isZip(file) ? table("npz archive", archive(file)) : table("npy file", [arrayFile(file)]);
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

/** Texts are classes, in sorted order; an empty one is missing. */
function textColumn(name: string, { shape, text, bigEndian }: NpyHeader, read: () => Uint8Array): Column {
  const { letters, width } = text!, decoder = new TextDecoder();
  let found: { readonly classes: readonly string[]; readonly texts: readonly string[] } | undefined;
  const all = () => {
    if (found) return found;
    const bytes = read(), view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const textAt = (row: number): string => {
      const from = row * letters * width;
      if (width === 1) return decoder.decode(bytes.subarray(from, from + letters)).replace(/\0+$/, "");
      const codes = Array.from({ length: letters }, (_, i) => view.getUint32(from + 4 * i, !bigEndian));
      return codes.map((code) => code <= LAST_CODE ? String.fromCodePoint(code) : "\ufffd").join("").replace(
        /\0+$/,
        "",
      );
    };
    const texts = Array.from({ length: shape[0] }, (_, row) => textAt(row));
    return found = { texts, classes: [...new Set(texts)].filter((text) => text !== "").sort() };
  };
  return {
    ...{ name, shape, dtype: "f32" },
    read() {
      const { texts, classes } = all(), codes = new Map(classes.map((text, i) => [text, i]));
      return Float32Array.from(texts, (text) => codes.get(text) ?? NaN);
    },
    text: {
      get example() {
        return JSON.stringify(all().texts.find((text) => text !== "") ?? "");
      },
      classes: () => all().classes,
    },
  };
}

const LAST_CODE = 0x10ffff;

interface Bytes {
  readonly size: number;
  peek(length: number): Uint8Array;
  read(): Uint8Array;
  readonly file: string;
  /** Null means that the array is packed. */
  at(): number | null;
}

function array(name: string, where: string, bytes: Bytes): Column {
  const header = readNpyHeader(where, bytes.peek(Math.min(bytes.size, HEADER_BYTES)), bytes.size);
  checkNpySize(where, header, bytes.size);
  const { shape, dtype, unusable, start } = header;
  if (header.text) return textColumn(name, header, () => bytes.read().subarray(start));
  return {
    name,
    shape,
    dtype,
    unusable,
    read: () => npyNumbers(header, bytes.read().subarray(start)),
    stream: { rows: () => rowsOf(header, bytes), raw: dtype, rule: null },
  };
}

const FORTRAN =
  "is in Fortran order, where the numbers of a row lie far apart: write it as numpy.ascontiguousarray(x)";

/** A string says why the rows have no place of their own. */
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

function everyNth(table: Uint8Array, first: number, step: number, width: number): Uint8Array {
  const column = new Uint8Array(table.length / step);
  for (let at = 0, from = first * width; at < column.length; at += width, from += step * width) {
    for (let byte = 0; byte < width; byte++) column[at + byte] = table[from + byte];
  }
  return column;
}

export const reader: DataReader = { open: openArrays, table: withArrays };
