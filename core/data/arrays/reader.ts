// The reader of arrays: a sample's input is a row of each of some columns, joined; its target is in memory.
// May import its siblings, reading, hdf5.
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { loadHdf5 } from "../hdf5_library.ts";
import type { Kind, ReaderSpec } from "../reading/kinds.ts";
import type { Numbers, Reader } from "../reading/reader.ts";
import { view } from "../variables.ts";
import { openChunkRows } from "./chunk_rows.ts";
import { openConvert } from "./convert.ts";
import { type OpenFile, openFile } from "./file.ts";
import { openFileRows } from "./file_rows.ts";
import { openLibraryRows } from "./library_rows.ts";
import type { FileMark, Part, ReadsRows, RowReader } from "./rows.ts";

export interface ArraysSpec extends ReaderSpec {
  /** "hdf5" where a part is read by its library, which has to be loaded. */
  readonly kind: "arrays" | "hdf5";
  readonly path: string;
  readonly parts: readonly Part[];
  /** Of a sample's input, as it is in a batch. */
  readonly stored: DType;
  readonly shape: readonly number[];
  /** Those of all rows, in shared memory; bytes of one. */
  readonly targets: Uint8Array;
  readonly targetBytes: number;
}

function open({ path, parts, stored, shape, targets, targetBytes }: ArraysSpec): Reader {
  const rows = openAll(parts);
  let at = 0;
  const joined = parts.map((part, i) => {
    const convert = openConvert(part, stored);
    const from = at, to = at += part.count * dtypeBytes(stored);
    let row = 0;
    const read = (into: Uint8Array) => rows.readers[i].read(row, into);
    return (index: number, input: Uint8Array) => {
      row = index;
      convert(read, parts.length === 1 ? input : input.subarray(from, to));
    };
  });
  const readInto = (index: number, input: Uint8Array, target: Uint8Array) => {
    for (const part of joined) part(index, input);
    target.set(targets.subarray(index * targetBytes, (index + 1) * targetBytes));
  };
  const scratch = new Uint8Array(at);
  const whole = { data: view(scratch, stored) as Numbers, shape };
  return {
    readInto,
    read(index, target) {
      readInto(index, scratch, target);
      return whole;
    },
    groupOf: rows.readers.find(({ groupOf }) => groupOf)?.groupOf,
    close: rows.close,
    path,
  };
}

type Where = Pick<Part, "name" | "rows" | "raw">;

/** The rows of one column. */
export function openRows(part: Where): RowReader {
  const { readers: [{ read }], close } = openAll([part]);
  return { read, close };
}

/** A file is opened once for all parts in it: a process may have about a thousand open. */
function openAll(parts: readonly Where[]) {
  const files = new Map<string, OpenFile>(), readers: ReadsRows[] = [];
  const fileOf = (mark: FileMark) => {
    const file = files.get(mark.path) ?? openFile(mark);
    files.set(mark.path, file);
    return file;
  };
  const close = () => {
    for (const { close } of [...readers, ...files.values()]) close?.();
  };
  try {
    for (const part of parts) readers.push(readerOf(part, fileOf));
  } catch (error) {
    close();
    throw error;
  }
  return { readers, close };
}

function readerOf({ name, rows, raw }: Where, fileOf: (mark: FileMark) => OpenFile): ReadsRows {
  switch (rows.layout) {
    case "file":
      return openFileRows(rows, dtypeBytes(raw), fileOf(rows.file));
    case "chunks":
      return openChunkRows(rows, name, fileOf(rows.file));
    case "library":
      return openLibraryRows(rows);
  }
}

export const arrays: Kind<ArraysSpec> = { kind: "arrays", open };
export const hdf5: Kind<ArraysSpec> = { kind: "hdf5", load: loadHdf5, open };
