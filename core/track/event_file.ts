// The file events.jsonl as lines of bytes: appended whole, cut lines removed, later ones forgotten. Writes to it by one
// thread only. May import core/errors.ts, checkpoint/atomic.ts and @std/path.
import { dirname } from "../../deps/path.ts";
import { writeAll, writeAtomically } from "../checkpoint/atomic.ts";
import { UserError } from "../errors.ts";

const NEWLINE = 10;
const CHUNK = 64 * 1024;

export interface EventFile {
  /** Appends whole lines with their ends. Never throws: gives the lines that could not be written. */
  append(bytes: Uint8Array): number;
  /** Begins the file anew where somebody has removed it; true if so. */
  renew(): boolean;
  /** Keeps the lines that `again` is false for. */
  forget(again: (line: string) => boolean): void;
  close(): void;
}

/** Opens it for appending; a last line that a kill has cut is removed. The folder is made where it is missing. */
export function openEventFile(path: string, lost: (lines: number, cause: unknown) => void): EventFile {
  let file = open(path);
  let torn = false; // the file ends within a line that could not be written whole
  return {
    append(bytes) {
      let done = 0;
      try {
        if (torn) file.writeSync(Uint8Array.of(NEWLINE)); // what a full disk has cut is over
        torn = false;
        while (done < bytes.length) done += file.writeSync(bytes.subarray(done));
        return 0;
      } catch (cause) {
        const ended = done > 0 ? bytes.lastIndexOf(NEWLINE, done - 1) + 1 : 0;
        torn ||= done > ended;
        const lines = count(bytes.subarray(ended));
        lost(lines, cause);
        return lines;
      }
    },
    renew() {
      if (inodeOf(path) === file.statSync().ino) return false;
      const fresh = open(path);
      file.close();
      file = fresh;
      torn = false;
      return true;
    },
    forget(again) {
      if (!readLines(path).some(again)) return;
      rewrite(path, (line) => !again(line));
      file.close();
      file = open(path);
      torn = false;
    },
    close: () => file.close(),
  };
}

function inodeOf(path: string): number | null {
  try {
    return Deno.statSync(path).ino;
  } catch {
    return null;
  }
}

function count(bytes: Uint8Array): number {
  let lines = 0;
  for (const byte of bytes) if (byte === NEWLINE) lines++;
  return lines;
}

function open(path: string): Deno.FsFile {
  try {
    Deno.mkdirSync(dirname(path), { recursive: true });
    const file = Deno.openSync(path, { read: true, append: true, create: true });
    if (file.statSync().isFile) cutTornTail(file); // a pipe has nothing to cut
    return file;
  } catch (cause) {
    throw new UserError(
      "usage",
      `The event log ${path} can't be opened for writing: ${
        reason(cause)
      }. Name a folder that you may write to with --save-dir DIR.`,
      { cause },
    );
  }
}

/** A line and its end are one write, so bytes after the last line end are a write that a kill has cut. */
function cutTornTail(file: Deno.FsFile): void {
  const size = file.seekSync(0, Deno.SeekMode.End);
  const chunk = new Uint8Array(CHUNK);
  let end = size;
  while (end > 0) {
    const start = Math.max(0, end - chunk.length);
    file.seekSync(start, Deno.SeekMode.Start);
    const got = file.readSync(chunk.subarray(0, end - start)) ?? 0;
    const at = chunk.subarray(0, got).lastIndexOf(NEWLINE);
    if (at >= 0) {
      end = start + at + 1;
      break;
    }
    end = start;
  }
  if (end < size) file.truncateSync(end);
}

/** Keeps the lines that `keep` wants; a kill leaves the file as it was, or as it should be. */
function rewrite(path: string, keep: (line: string) => boolean): void {
  const encoder = new TextEncoder();
  writeAtomically(path, (out) => {
    let pending = "";
    for (const line of readLines(path)) {
      if (keep(line)) pending += line + "\n";
      if (pending.length <= CHUNK) continue;
      writeAll(out, encoder.encode(pending));
      pending = "";
    }
    writeAll(out, encoder.encode(pending));
  });
}

/** Whole lines only; in chunks, because a long run's log outgrows the longest string. */
export function* readLines(path: string): Generator<string, undefined> {
  const file = Deno.openSync(path);
  try {
    const decoder = new TextDecoder();
    const chunk = new Uint8Array(256 * 1024);
    let rest = "";
    for (let got = file.readSync(chunk); got !== null; got = file.readSync(chunk)) {
      const lines = (rest + decoder.decode(chunk.subarray(0, got), { stream: true })).split("\n");
      rest = lines.pop()!;
      yield* lines;
    }
  } finally {
    file.close();
  }
}

/** Without the full stop at its end. */
export const reason = (cause: unknown): string =>
  (cause instanceof Error ? cause.message : String(cause)).replace(/\.$/, "");
