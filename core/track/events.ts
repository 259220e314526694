// A run's events.jsonl: how it is written, and its reader. May import event_file.ts and the event types.
import { openEventFile, readLines, reason } from "./event_file.ts";
import { decodeEvent, type Emitted, encodeEvent, type Event } from "./event_types.ts";

export type * from "./event_types.ts";

export interface EventLog {
  /** Appends one line. Never throws: a line that can't be written is counted, and `warn` hears of it now and then. */
  emit(event: Emitted): void;
  /** Plain data for the sinks beside events.jsonl, in order with the events. */
  note(note: unknown): void;
  /**
   * Has what was emitted written now: before a save, since a run that goes on from it must find every step before it.
   * Waits for a moment at most.
   */
  flush(): void;
  /**
   * On resume: forgets the records of what will be done again: steps beyond this one, and evaluations and ends of epochs
   * beyond these epochs. A run that was saved before the evaluation of its last step evaluates again.
   */
  rewind(to: Done): void;
  /** Lines lost so far. */
  readonly lost: number;
  /** Comes to its end when all is written, or can't be. */
  close(): void | Promise<void>;
}

export interface Done {
  readonly step: number;
  readonly epoch: number;
}

export interface EventLogOptions {
  /** Told about lost lines: at the first, the tenth, the hundredth, ... */
  warn: (message: string) => void;
  /** Also gets each line, without its end (what --json prints). */
  mirror?: (line: string) => void;
  /** Hears of each event, and of its time; of steps only where their lines are made in the thread that trains. */
  observe?: (event: Emitted, t: number) => void;
  /** Unix time in seconds. */
  now?: () => number;
}

const CHUNK = 64 * 1024;

/** Writes each line at once, in the calling thread. thread/track.ts has another thread do it. */
export function openEvents(path: string, options: EventLogOptions): EventLog {
  const now = options.now ?? (() => Date.now() / 1000);
  const encoder = new TextEncoder();
  const buffer = new Uint8Array(4096);
  const losses = openLosses(path, options.warn);
  const file = openEventFile(path, losses.lose);
  return {
    emit(event) {
      const line = lineOf(event, now(), options, losses);
      if (line === null) return;
      const text = line + "\n";
      // UTF-8 takes at most three bytes a UTF-16 unit, so a short line always fits the buffer.
      file.append(
        text.length * 3 <= buffer.length
          ? buffer.subarray(0, encoder.encodeInto(text, buffer).written)
          : encoder.encode(text),
      );
    },
    note() {},
    flush() {},
    rewind(to) {
      const warning = rewindFile(path, file.forget, to);
      if (warning) options.warn(warning);
    },
    get lost() {
      return losses.count;
    },
    close: () => file.close(),
  };
}

export interface Losses {
  readonly count: number;
  lose(lines: number, cause: unknown): void;
}

/** Counts lines that were lost, and tells of them when there is another digit to their number. */
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

/** The line of an event, which its hearers have had; null where JSON can't hold it. */
export function lineOf(event: Emitted, t: number, options: EventLogOptions, losses: Losses): string | null {
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

/** Forgets what comes after; gives a warning where that can't be done. */
export function rewindFile(
  path: string,
  forget: (again: (line: string) => boolean) => void,
  to: Done,
): string | null {
  try {
    forget((line) => comesAfter(line, to));
    return null;
  } catch (cause) {
    return `${path} could not be rewound to step ${to.step} (${
      reason(cause)
    }); it keeps the later records too.`;
  }
}

/** Kinds that there is one of each few steps: where there is no room, these are left out first. */
export const SAMPLES: ReadonlySet<string> = new Set(["step", "system", "times", "ranks"]);

function comesAfter(line: string, to: Done): boolean {
  const event = decodeEvent(line);
  if (event === null) return true; // a line that was cut, and says nothing
  const { kind } = event;
  if (kind === "eval" || kind === "epoch") return event.step > to.step || event.epoch > to.epoch;
  return SAMPLES.has(kind) && (event as { step: number }).step > to.step;
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
