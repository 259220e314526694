// A data file that is read a piece at a time while training goes on: it has to stay as it was when the data was opened.
// May import errors, ffi's files.
import { closeFile, openForReading, pread } from "../../../ffi/files.ts";
import { UserError } from "../../errors.ts";
import type { FileMark } from "./rows.ts";

export function markOf(path: string): FileMark {
  const { size, mtime } = Deno.statSync(path);
  return { path, size, changed: mtime?.getTime() ?? 0 };
}

export interface OpenFile {
  /** All of `into` from `offset` on. */
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

const NOT_THERE = 2, DENIED = 13;
const REASONS: Readonly<Record<number, string>> = {
  [NOT_THERE]: "it is not there any more",
  [DENIED]: "this user may not read it",
  5: "the disk or the network failed (input/output error)",
  24: "this process has too many files open (see: ulimit -n)",
  116: "the file server has it no more (stale handle)",
};

const unreadable = (path: string, error: number) =>
  new UserError("data", `${path} can't be read: ${REASONS[error] ?? `error ${error} of the system`}.`);
