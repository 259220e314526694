// Follows a file of events while it grows: what is new is read, and nothing twice. May import event_types.ts.
import { decodeEvent, type Event } from "./event_types.ts";

const CHUNK = 1 << 20;
const NEWLINE = 10;
/** A line longer than this is none of ours, and is passed over. */
const LONGEST = 16 << 20;

export interface Follower {
  /** Hands over the events that were added since; false where there were none. */
  poll(): boolean;
  close(): void;
}

/** A file beyond this is read in parts where a sample of it will do: its begin, some stretches, and its end. */
const LARGE = 32 << 20;
const HEAD = 256 << 10, STRETCH = 32 << 10, STRETCHES = 96, TAIL = 2 << 20;

/**
 * `again` is called when the file was written anew, as a resume does: all its events come once more after that. `gap`: of a
 * large file that is there already a sample will do; it is called where events are left out, and the last of them all come.
 */
export function followEvents(
  path: string,
  hear: (event: Event) => void,
  again: () => void,
  gap: (() => void) | null = null,
): Follower {
  const chunk = new Uint8Array(CHUNK);
  const decoder = new TextDecoder();
  let file: Deno.FsFile | null = null;
  let inode: number | null = null;
  let at = 0;
  let rest = new Uint8Array(0); // a line without its end so far

  function close(): void {
    file?.close();
    file = null;
    at = 0;
    rest = new Uint8Array(0);
  }

  /** Whether there is a file to read from; another one in its place, or a shorter one, starts over. */
  function ready(): boolean {
    let found: Deno.FileInfo;
    try {
      found = Deno.statSync(path);
    } catch {
      return false; // not there yet, or a file system that is away for a moment
    }
    if (file !== null && (found.ino !== inode || found.size < at)) {
      close();
      again();
    }
    try {
      file ??= Deno.openSync(path);
    } catch {
      return false;
    }
    inode = found.ino;
    return found.size > at;
  }

  function take(bytes: Uint8Array): boolean {
    let heard = false;
    for (let from = 0;;) {
      const end = bytes.indexOf(NEWLINE, from);
      if (end < 0) {
        const left = bytes.subarray(from);
        rest = joined(rest, left);
        if (rest.length > LONGEST) rest = new Uint8Array(0);
        return heard;
      }
      const own = bytes.subarray(from, end);
      const line = decoder.decode(rest.length > 0 ? joined(rest, own) : own);
      rest = new Uint8Array(0);
      from = end + 1;
      const event = decodeEvent(line);
      if (event === null || typeof event.t !== "number") continue;
      hear(event);
      heard = true;
    }
  }

  /** From the first line that begins in these bytes of the file. */
  function stretch(from: number, bytes: number): boolean {
    rest = new Uint8Array(0);
    file!.seekSync(from, Deno.SeekMode.Start);
    let heard = false, begun = from === 0;
    for (let left = bytes, got: number | null; left > 0; left -= got) {
      got = file!.readSync(chunk.subarray(0, left));
      if (got === null) break;
      const start = begun ? 0 : chunk.subarray(0, got).indexOf(NEWLINE) + 1;
      if (!begun && start === 0) continue; // within one long line
      begun = true;
      heard = take(chunk.subarray(start, got)) || heard;
    }
    return heard;
  }

  /** The last stretch ends where reading goes on. */
  function sample(size: number, gap: () => void): void {
    stretch(0, HEAD);
    const step = (size - HEAD - TAIL) / STRETCHES;
    for (let i = 0; i < STRETCHES; i++) {
      gap();
      stretch(HEAD + Math.round(i * step), STRETCH);
    }
    gap();
    stretch(size - TAIL, TAIL);
    at = size;
  }

  return {
    poll() {
      if (!ready()) return false;
      let heard = false;
      const { size } = file!.statSync();
      if (gap !== null && at === 0 && size > LARGE) {
        sample(size, gap);
        heard = true;
      }
      for (;;) {
        const got = file!.readSync(chunk);
        if (got === null) return heard;
        at += got;
        heard = take(chunk.subarray(0, got)) || heard;
      }
    },
    close,
  };
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
