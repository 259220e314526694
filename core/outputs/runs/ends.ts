// The beginning and the end of a run's events, read at once, and the lines around a step between them.
import { UserError } from "../../base/errors.ts";
import { decodeEvent, type Event } from "../../run/events.ts";

/** A file of this size is read whole. */
const WHOLE = 96 << 10;
/** The head has the run and its settings, which may be long lists. */
const HEAD = 24 << 10, LONG_HEAD = 512 << 10;
const TAIL = 48 << 10;
/** Around a step: more than an evaluation and what stands beside it. */
const AROUND = 64 << 10;

export interface Ends {
  readonly head: readonly string[];
  /** Empty where the head is the whole file. */
  readonly tail: readonly string[];
  readonly size: number;
  /** Unix seconds. */
  readonly written: number;
}

/** Throws what the system says. A file that is written to at the moment ends with a whole line all the same. */
export function readEnds(path: string): Ends {
  const { isFile } = Deno.statSync(path);
  if (!isFile) throw new UserError("data", "It is no file."); // to open a pipe would wait for its writer
  using file = Deno.openSync(path);
  const { size, mtime } = file.statSync();
  const written = (mtime?.getTime() ?? 0) / 1000;
  const head = (bytes: number) => linesOf(read(file, 0, bytes), true);
  if (size <= WHOLE) return { head: head(size), tail: [], size, written };
  const short = head(HEAD);
  const whole = short.some((line) => eventKindOf(line) === "config");
  const tail = linesOf(read(file, size - TAIL, TAIL), false);
  return { head: whole ? short : head(Math.min(size, LONG_HEAD)), tail, size, written };
}

/**
 * The lines around the first event of a step, found by halves, since steps only grow in a file: a resume takes
 * those away that are done again.
 */
export function linesAround(path: string, step: number): string[] {
  using file = Deno.openSync(path);
  let low = 0, high = file.statSync().size;
  while (high - low > AROUND / 4) {
    const middle = Math.floor((low + high) / 2);
    const found = stepIn(linesOf(read(file, middle, AROUND / 4), false));
    if (found === null || found >= step) high = middle;
    else low = middle;
  }
  const from = Math.max(0, low - AROUND / 2);
  return linesOf(read(file, from, AROUND + (low - from)), from === 0);
}

function read(file: Deno.FsFile, from: number, most: number): string {
  const bytes = new Uint8Array(most);
  file.seekSync(from, Deno.SeekMode.Start);
  let done = 0;
  while (done < most) {
    const got = file.readSync(bytes.subarray(done));
    if (got === null) break;
    done += got;
  }
  return new TextDecoder().decode(bytes.subarray(0, done));
}

/** The last line has no end yet, and the first may lack its beginning. */
const linesOf = (text: string, begins: boolean): string[] => text.split("\n").slice(begins ? 0 : 1, -1);

function stepIn(lines: readonly string[]): number | null {
  for (const line of lines) {
    const { step } = (decodeEvent(line) ?? {}) as { step?: unknown };
    if (typeof step === "number") return step;
  }
  return null;
}

const KIND = /"kind":"(\w+)"/;

/** The kind of a line before it is parsed; most lines of a log are steps, which nobody needs. */
export function eventKindOf(line: string): string {
  return KIND.exec(line.length > 200 ? line.slice(0, 200) : line)?.[1] ?? "";
}

/** Unix seconds; null where the line does not begin with its time. */
export function eventTimeOf(line: string): number | null {
  if (!line.startsWith('{"t":')) return null;
  const t = Number(line.slice(5, line.indexOf(",", 5)));
  return Number.isFinite(t) ? t : null;
}

export const eventsOfKind = <K extends Event["kind"]>(
  lines: readonly string[],
  kind: K,
): Extract<Event, { kind: K }>[] =>
  lines.filter((line) => eventKindOf(line) === kind).map(decodeEvent)
    .filter((event): event is Extract<Event, { kind: K }> => event?.kind === kind);
