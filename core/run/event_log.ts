// A run's events.jsonl: it is written line by line, read back, cut on resume, and followed while it grows.
import {
  decodeEvent,
  type Emitted,
  encodeEvent,
  type Event,
  type Note,
  type WarningEvent,
} from "./events.ts";
import { dirname } from "../../deps/path.ts";
import { writeAll, writeAtomically } from "../base/atomic.ts";
import { UserError } from "../base/errors.ts";

export type * from "./events.ts";

export interface EventLog {
  /** It never throws: it counts a line that can't be written, and warns now and then. */
  emit(event: Emitted): void;
  /** Notes reach the outputs in order with the events. */
  note(note: Note): void;
  /** A save waits first, since a resumed run must find every step before the checkpoint. */
  flush(): void;
  /**
   * A resumed run repeats later steps, and evaluations and ends of later epochs. A run that was saved before
   * the evaluation of its last step evaluates again.
   */
  rewind(to: RunPosition): void;
  readonly lost: number;
  close(): void | Promise<void>;
}

export interface RunPosition {
  readonly step: number;
  readonly epoch: number;
}

export interface EventLogOptions {
  /** Called at the first, the tenth, the hundredth, ... lost line. */
  warn: (message: string) => void;
  /** Gets each line without its end, for --json. */
  mirror?: (line: string) => void;
  /** It gets steps only where the training thread makes their lines. */
  observe?: (event: Emitted, t: number) => void;
  now?: () => number;
}

const READ_BYTES = 64 * 1024;

interface Losses {
  readonly count: number;
  lose(lines: number, cause: unknown): void;
}

/** It warns when the number gets another digit. */
export function openLosses(path: string, warn: (message: string) => void): Losses {
  let count = 0;
  return {
    get count() {
      return count;
    },
    lose(lines, cause) {
      const digits = String(count).length;
      const first = count === 0;
      count += lines;
      if (!first && String(count).length === digits) return;
      const what = count === 1 ? "A line" : `${count} lines`;
      warn(`${what} of ${path} could not be written (${reason(cause)}); training goes on without.`);
    },
  };
}

/** Null where JSON can't hold the event. */
export function eventLine(
  event: Emitted,
  t: number,
  options: EventLogOptions,
  losses: Losses,
): string | null {
  options.observe?.(event, t);
  try {
    const line = encodeEvent(event, t);
    options.mirror?.(line);
    return line;
  } catch (cause) {
    losses.lose(1, cause);
    return null;
  }
}

/** These come all the time, and are dropped first. */
export const SAMPLES: ReadonlySet<string> = new Set(["step", "system", "times", "ranks"]);

/** It skips lines that are cut or no records. */
export function readEvents(path: string): Event[] {
  const events: Event[] = [];
  for (const line of readEventLines(path)) {
    const event = decodeEvent(line);
    if (event !== null) events.push(event);
  }
  return events;
}

/** It reads one chunk, however long the file is. */
export function readLastEvents(path: string): Event[] {
  using file = Deno.openSync(path);
  const end = file.seekSync(0, Deno.SeekMode.End);
  const bytes = new Uint8Array(Math.min(end, READ_BYTES));
  file.seekSync(end - bytes.length, Deno.SeekMode.Start);
  for (let done = 0, got: number | null; done < bytes.length; done += got) {
    got = file.readSync(bytes.subarray(done));
    if (got === null) break;
  }
  return new TextDecoder().decode(bytes).split("\n").slice(0, -1).map(decodeEvent).filter((e) => e !== null);
}

const NEWLINE = 10;

const FILE_CHUNK = 64 * 1024;

interface EventFile {
  /** It never throws, and returns the number of lines that could not be written. */
  append(bytes: Uint8Array): number;
  /** Returns true where somebody has removed the file, which starts again. */
  renew(): boolean;
  /** Keeps the lines for which `again` is false. */
  forget(again: (line: string) => boolean): void;
  close(): void;
}

/** A last line that a kill has cut is removed. */
export function openEventFile(path: string, lost: (lines: number, cause: unknown) => void): EventFile {
  let file = open(path);
  let torn = false; // the file ends within a line
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
      if (!readEventLines(path).some(again)) return;
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

/** A line and its end are one write, so a kill leaves the bytes after the last end. */
function cutTornTail(file: Deno.FsFile): void {
  const size = file.seekSync(0, Deno.SeekMode.End);
  const chunk = new Uint8Array(FILE_CHUNK);
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

/** A kill leaves either the old file or the new one. */
function rewrite(path: string, keep: (line: string) => boolean): void {
  const encoder = new TextEncoder();
  writeAtomically(path, (out) => {
    let pending = "";
    for (const line of readEventLines(path)) {
      if (keep(line)) pending += line + "\n";
      if (pending.length <= FILE_CHUNK) continue;
      writeAll(out, encoder.encode(pending));
      pending = "";
    }
    writeAll(out, encoder.encode(pending));
  });
}

/** It reads in chunks, because a long log outgrows the longest string. */
export function* readEventLines(path: string): Generator<string, undefined> {
  const file = Deno.openSync(path);
  try {
    const decoder = new TextDecoder();
    const chunk = new Uint8Array(256 * 1024);
    let rest = "";
    for (let got = file.readSync(chunk); got !== null; got = file.readSync(chunk)) {
      const lines = (rest + decoder.decode(chunk.subarray(0, got), { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
  } finally {
    file.close();
  }
}

export const reason = (cause: unknown): string =>
  (cause instanceof Error ? cause.message : String(cause)).replace(/\.$/, "");

const FOLLOW_CHUNK = 1 << 20;

const LINE_END = 10;

/** A longer line is not ours. */
const LONGEST = 16 << 20;

/** A larger file may be sampled: its start, some stretches, and its end. */
const LARGE = 32 << 20;

const HEAD = 256 << 10, STRETCH = 32 << 10, STRETCHES = 96, TAIL = 2 << 20;

/** Calls `onEvent` with the events of a file that may not be there yet, while it grows. */
export class EventFollower {
  readonly #path: string;
  readonly #onEvent: (event: Event) => void;
  readonly #again: () => void;
  readonly #gap: (() => void) | null;
  readonly #chunk = new Uint8Array(FOLLOW_CHUNK);
  readonly #decoder = new TextDecoder();
  #file: Deno.FsFile | null = null;
  #inode: number | null = null;
  #at = 0;
  /** A line without its end so far. */
  #rest = new Uint8Array(0);

  /**
   * `again` is called when a resume has rewritten the file: all its events follow once more. With `gap` a
   * large file is sampled, and `gap` is called where events are left out.
   */
  constructor(
    path: string,
    onEvent: (event: Event) => void,
    again: () => void,
    gap: (() => void) | null = null,
  ) {
    this.#path = path;
    this.#onEvent = onEvent;
    this.#again = again;
    this.#gap = gap;
  }

  /** Reads what has come; true where there was an event. */
  poll(): boolean {
    const file = this.#ready();
    if (file === null) return false;
    let found = false;
    const { size } = file.statSync();
    if (this.#gap !== null && this.#at === 0 && size > LARGE) {
      this.#sample(file, size, this.#gap);
      found = true;
    }
    for (;;) {
      const got = file.readSync(this.#chunk);
      if (got === null) return found;
      this.#at += got;
      found = this.#take(this.#chunk.subarray(0, got)) || found;
    }
  }

  close(): void {
    this.#file?.close();
    this.#file = null;
    this.#at = 0;
    this.#rest = new Uint8Array(0);
  }

  /** Null where nothing has come. Another file in its place, or a shorter one, starts over. */
  #ready(): Deno.FsFile | null {
    let found: Deno.FileInfo;
    try {
      found = Deno.statSync(this.#path);
    } catch {
      return null; // not there yet, or the file system is away
    }
    if (this.#file !== null && (found.ino !== this.#inode || found.size < this.#at)) {
      this.close();
      this.#again();
    }
    try {
      this.#file ??= Deno.openSync(this.#path);
    } catch {
      return null;
    }
    this.#inode = found.ino;
    return found.size > this.#at ? this.#file : null;
  }

  /** `poll` continues behind the last stretch. */
  #sample(file: Deno.FsFile, size: number, gap: () => void): void {
    this.#stretch(file, 0, HEAD);
    const step = (size - HEAD - TAIL) / STRETCHES;
    for (let i = 0; i < STRETCHES; i++) {
      gap();
      this.#stretch(file, HEAD + Math.round(i * step), STRETCH);
    }
    gap();
    this.#stretch(file, size - TAIL, TAIL);
    this.#at = size;
  }

  /** It begins with the first line that starts in this range. */
  #stretch(file: Deno.FsFile, from: number, bytes: number): void {
    this.#rest = new Uint8Array(0);
    file.seekSync(from, Deno.SeekMode.Start);
    let begun = from === 0;
    for (let left = bytes, got: number | null; left > 0; left -= got) {
      got = file.readSync(this.#chunk.subarray(0, left));
      if (got === null) break;
      const start = begun ? 0 : this.#chunk.subarray(0, got).indexOf(LINE_END) + 1;
      if (!begun && start === 0) continue; // within one long line
      begun = true;
      this.#take(this.#chunk.subarray(start, got));
    }
  }

  /** Hands on the events of these bytes' lines; true where there was one. */
  #take(bytes: Uint8Array): boolean {
    let found = false;
    for (let from = 0;;) {
      const end = bytes.indexOf(LINE_END, from);
      if (end < 0) {
        this.#rest = joined(this.#rest, bytes.subarray(from));
        if (this.#rest.length > LONGEST) this.#rest = new Uint8Array(0);
        return found;
      }
      const own = bytes.subarray(from, end);
      const line = this.#decoder.decode(this.#rest.length > 0 ? joined(this.#rest, own) : own);
      this.#rest = new Uint8Array(0);
      from = end + 1;
      const event = decodeEvent(line);
      if (event === null || typeof event.t !== "number") continue;
      this.#onEvent(event);
      found = true;
    }
  }
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

/** Told on the console, and an event. */
export type Warn = (message: string, step?: number, about?: WarningEvent["about"]) => void;
