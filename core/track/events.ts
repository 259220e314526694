// The one writer of a run's events.jsonl, and its reader. May import core/errors.ts, the event types and @std/path.
import { dirname } from "@std/path";
import { UserError } from "../errors.ts";
import { decodeEvent, type Emitted, encodeEvent, type Event } from "./event_types.ts";

export type * from "./event_types.ts";

export interface EventLog {
  /** Appends one line, at once. Never throws: a line that can't be written is counted, and `warn` hears of it now and then. */
  emit(event: Emitted): void;
  /** On resume: forgets the step, eval and epoch records that come after this optimizer step. */
  truncateAfter(step: number): void;
  /** Lines lost so far. */
  readonly lost: number;
  close(): void;
}

export interface EventLogOptions {
  /** Told about lost lines: at the first, the tenth, the hundredth, ... */
  warn: (message: string) => void;
  /** Also gets each line, without its end (what --json prints). */
  mirror?: (line: string) => void;
  /** Unix time in seconds. */
  now?: () => number;
}

const NEWLINE = 10;

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
    let line: string;
    try {
      line = encodeEvent(event, now());
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

  function truncateAfter(step: number): void {
    try {
      rewrite(path, (line) => {
        const event = decodeEvent(line);
        if (event === null) return false;
        const kind = event.kind;
        return !((kind === "step" || kind === "eval" || kind === "epoch") && event.step > step);
      });
      file.close();
      file = open(path);
      torn = false;
    } catch (cause) {
      options.warn(
        `${path} could not be rewound to step ${step} (${reason(cause)}); it keeps the later records too.`,
      );
    }
  }

  return {
    emit,
    truncateAfter,
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
  const chunk = new Uint8Array(64 * 1024);
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

/** Keeps the lines that `keep` wants: into a temporary file beside it, synced, then renamed over it. */
function rewrite(path: string, keep: (line: string) => boolean): void {
  const temporary = `${path}.${Deno.pid}.tmp`;
  const encoder = new TextEncoder();
  try {
    const out = Deno.openSync(temporary, { write: true, create: true, truncate: true });
    try {
      let pending = "";
      const flush = () => {
        const bytes = encoder.encode(pending);
        for (let done = 0; done < bytes.length;) done += out.writeSync(bytes.subarray(done));
        pending = "";
      };
      for (const line of readLines(path)) {
        if (keep(line)) pending += line + "\n";
        if (pending.length > 64 * 1024) flush();
      }
      flush();
      out.syncSync();
    } finally {
      out.close();
    }
    Deno.renameSync(temporary, path);
  } catch (cause) {
    try {
      Deno.removeSync(temporary);
    } catch {
      // It was never made, or the folder is gone: the first error tells more.
    }
    throw cause;
  }
}

/** Whole lines only; in chunks, because a long run's log outgrows the longest string. */
function* readLines(path: string): Generator<string> {
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
