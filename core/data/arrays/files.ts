// Data files are opened for one look, or kept open and read by rows during training, when they have to stay
// as they were. Every fault is of the kind "data".
import { statOf } from "../../base/files.ts";
import { FileBytes } from "../../base/file_bytes.ts";
import { UserError } from "../../base/errors.ts";
import { BadSample, type FileMark, type FileRows, type PlacedRows, type ReadsRows } from "./rows.ts";
import { closeFile, openForReading, pread } from "../../../ffi/libc.ts";
import { swapBytes } from "../codecs/bytes.ts";

export function withFiles<R>(use: (open: (path: string) => FileBytes) => R): R {
  const files = new Map<string, FileBytes>();
  try {
    return use((path) => {
      const file = files.get(path) ?? dataFile(path);
      files.set(path, file);
      return file;
    });
  } catch (error) {
    if (!(error instanceof UserError && error.kind === "checkpoint")) throw error;
    throw new UserError("data", error.message, { cause: error });
  } finally {
    for (const file of files.values()) file.close();
  }
}

/** `FileBytes` speaks of checkpoints where a path is no file, so data has a sentence of its own. */
function dataFile(path: string): FileBytes {
  const info = statOf(path);
  if (info && !info.isFile) {
    throw new UserError(
      "data",
      info.isDirectory
        ? `${path} is a folder, and data of this kind is one file: name the file in it (--data-path).`
        : `${path} is not a regular file, so it can't be read as data: copy it into one, and name that (--data-path).`,
    );
  }
  return new FileBytes(path);
}

export function namesIn(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  } catch (cause) {
    throw new UserError("data", `${folder} can't be listed: this user may not read the folder.`, { cause });
  }
}

// The mark shows whether a file changed since the data was opened.

export function markOf(path: string): FileMark {
  const { size, mtime } = Deno.statSync(path);
  return { path, size, changed: mtime?.getTime() ?? 0 };
}

export interface OpenFile {
  read(into: Uint8Array, offset: number): void;
  close(): void;
}

export function openFile(mark: FileMark): OpenFile {
  const { path } = mark;
  const descriptor = openForReading(path);
  if (descriptor < 0) throw unreadable(path, -descriptor);
  try {
    const now = markOf(path);
    if (now.size !== mark.size || now.changed !== mark.changed) {
      throw new UserError(
        "data",
        `${path} was changed after training began (${mark.size} bytes then, ${now.size} now): is something else ` +
          "writing it? Go on with the last checkpoint when it is whole.",
      );
    }
  } catch (error) {
    closeFile(descriptor);
    throw error;
  }
  return {
    read(into, offset) {
      const count = pread(descriptor, into, offset);
      if (count === into.length) return;
      if (count < 0) throw unreadable(path, -count);
      throw new UserError(
        "data",
        `${path} became shorter while it was being read: bytes ${offset + count} to ${
          offset + into.length
        } are gone. ` +
          "Is something else writing it?",
      );
    },
    close: () => closeFile(descriptor),
  };
}

export interface FilePool {
  /** The file stays open. */
  lasting(mark: FileMark): OpenFile;
  /** Others may take the file's place; it is opened again when it is read. */
  passing(mark: FileMark): OpenFile;
  close(): void;
}

/** Each of the loader's threads may have so many passing files open: a process may have about a thousand. */
const MOST_OPEN = 48;

export function openPool(most = MOST_OPEN): FilePool {
  const lasting = new Map<string, OpenFile>(), passing = new Map<string, OpenFile>();
  const reopened = (mark: FileMark): OpenFile => {
    if (passing.size >= most) {
      const [[oldest, file]] = passing;
      file.close();
      passing.delete(oldest);
    }
    const file = openFile(mark);
    passing.set(mark.path, file);
    return file;
  };
  return {
    lasting(mark) {
      const file = lasting.get(mark.path) ?? openFile(mark);
      lasting.set(mark.path, file);
      return file;
    },
    passing: (mark) => ({
      read: (into, offset) => (passing.get(mark.path) ?? reopened(mark)).read(into, offset),
      close: () => {}, // the pool does
    }),
    close() {
      for (const file of [...lasting.values(), ...passing.values()]) file.close();
    },
  };
}

const NO_FILE = 2, DENIED = 13;
const REASONS: Readonly<Record<number, string>> = {
  [NO_FILE]: "it is not there any more",
  [DENIED]: "this user may not read it",
  5: "the disk or the network failed (input/output error)",
  21: "it is a folder",
  24: "this process has too many files open (see: ulimit -n)",
  29: "it is no file but a pipe or a device",
  116: "the file server has it no more (stale handle)",
};

export const unreadable = (path: string, error: number) =>
  new UserError("data", `${path} can't be read: ${REASONS[error] ?? `error ${error} of the system`}.`);

/** `width` is the bytes of an element; the opener closes the file. */
export function openFileRows(rows: FileRows, width: number, file: OpenFile): ReadsRows {
  const placeOf = placer(rows);
  return {
    read(row, into) {
      file.read(into, placeOf(row));
      if (rows.swapped) swapBytes(into, width);
    },
  };
}

export function openPlacedRows(
  { at, head, bytes, swapped, file: { path } }: PlacedRows,
  width: number,
  file: OpenFile,
): ReadsRows {
  const whole = new Uint8Array(head.length + bytes);
  return {
    read(row, into) {
      file.read(whole, at[row]);
      if (head.some((byte, i) => byte !== whole[i])) {
        throw new BadSample(path, "has an array of another type or shape than the first sample");
      }
      into.set(whole.subarray(head.length));
      if (swapped) swapBytes(into, width);
    },
  };
}

const placer = ({ begin, step, blocks }: FileRows) =>
  blocks
    ? (row: number) => begin + Math.floor(row / blocks.rows) * blocks.step + row % blocks.rows * step
    : (row: number) => begin + row * step;

const BLOCK = 8 * 2 ** 20;

/** Gaps are skipped in memory, as a read for each row would take longer. */
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
