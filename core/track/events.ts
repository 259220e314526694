// The one writer of a run's events.jsonl, and its reader. May import core/errors.ts, checkpoint/atomic.ts, the event types
// and @std/path.
import { dirname } from "@std/path";
import { writeAll, writeAtomically } from "../checkpoint/atomic.ts";
import { UserError } from "../errors.ts";
import { decodeEvent, type Emitted, encodeEvent, type Event } from "./event_types.ts";

export type * from "./event_types.ts";

export interface EventLog {
  /** Appends one line, at once. Never throws: a line that can't be written is counted, and `warn` hears of it now and then. */
  emit(event: Emitted): void;
  /**
   * On resume: forgets the records of what will be done again: steps beyond this one, and evaluations and ends of epochs
   * beyond these epochs. A run that was saved before the evaluation of its last step evaluates again.
   */
  rewind(to: { step: number; epoch: number }): void;
  /** Lines lost so far. */
  readonly lost: number;
  close(): void;
}

export interface EventLogOptions {
  /** Told about lost lines: at the first, the tenth, the hundredth, ... */
  warn: (message: string) => void;
  /** Also gets each line, without its end (what --json prints). */
  mirror?: (line: string) => void;
  /** Hears of each event, and of its time. */
  observe?: (event: Emitted, t: number) => void;
  /** Unix time in seconds. */
  now?: () => number;
}

const NEWLINE = 10;
const CHUNK = 64 * 1024;

/** Opens the log for appending; a last line that a kill has cut is removed. The folder is made where it is missing. */
export function openEvents(path: string, options: EventLogOptions): EventLog {
  const now = options.now ?? (() => Date.now() / 1000);
  const encoder = new TextEncoder();
  const buffer = new Uint8Array(4096);
  let file = open(path);
  let lost = 0;
  let torn = false; // the file ends within a line that could not be written whole

  function lose(cause: unknown): void {
    lost++;
    if (Number.isInteger(Math.log10(lost))) {
      const lines = lost === 1 ? "A line" : `${lost} lines`;
      options.warn(`${lines} of ${path} could not be written (${reason(cause)}); training goes on without.`);
    }
  }

  function emit(event: Emitted): void {
    const t = now();
    options.observe?.(event, t);
    let line: string;
    try {
      line = encodeEvent(event, t);
    } catch (cause) {
      return lose(cause);
    }
    options.mirror?.(line);
    try {
      const text = torn ? `\n${line}\n` : `${line}\n`;
      // UTF-8 takes at most three bytes a UTF-16 unit, so a short line always fits the buffer.
      const bytes = text.length * 3 <= buffer.length
        ? buffer.subarray(0, encoder.encodeInto(text, buffer).written)
        : encoder.encode(text);
      let done = file.writeSync(bytes);
      torn = done < bytes.length;
      while (done < bytes.length) done += file.writeSync(bytes.subarray(done));
      torn = false;
    } catch (cause) {
      lose(cause);
    }
  }

  function rewind(to: { step: number; epoch: number }): void {
    const again = (line: string) => {
      const event = decodeEvent(line);
      if (event === null) return true; // a line that was cut, and says nothing
      const { kind } = event;
      if (kind === "eval" || kind === "epoch") return event.step > to.step || event.epoch > to.epoch;
      return (kind === "step" || kind === "system" || kind === "ranks") && event.step > to.step;
    };
    try {
      if (!readLines(path).some(again)) return;
      rewrite(path, (line) => !again(line));
      file.close();
      file = open(path);
      torn = false;
    } catch (cause) {
      options.warn(
        `${path} could not be rewound to step ${to.step} (${reason(cause)}); it keeps the later records too.`,
      );
    }
  }

  return {
    emit,
    rewind,
    get lost() {
      return lost;
    },
    close: () => file.close(),
  };
}

/** Every whole record of the file, in order. A cut last line, and a line that is not a record, is passed over. */
export function readEvents(path: string): Event[] {
  const events: Event[] = [];
  for (const line of readLines(path)) {
    const event = decodeEvent(line);
    if (event !== null) events.push(event);
  }
  return events;
}

/** The last records, some hundreds of them, however long the file is. */
export function readLastEvents(path: string): Event[] {
  using file = Deno.openSync(path);
  const end = file.seekSync(0, Deno.SeekMode.End);
  const bytes = new Uint8Array(Math.min(end, CHUNK));
  file.seekSync(end - bytes.length, Deno.SeekMode.Start);
  for (let done = 0, got: number | null; done < bytes.length; done += got) {
    got = file.readSync(bytes.subarray(done));
    if (got === null) break;
  }
  return new TextDecoder().decode(bytes).split("\n").slice(0, -1).map(decodeEvent).filter((e) => e !== null);
}

function open(path: string): Deno.FsFile {
  try {
    Deno.mkdirSync(dirname(path), { recursive: true });
    const file = Deno.openSync(path, { read: true, append: true, create: true });
    cutTornTail(file);
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
function* readLines(path: string): Generator<string, undefined> {
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

const reason = (cause: unknown) =>
  (cause instanceof Error ? cause.message : String(cause)).replace(/\.$/, "");
