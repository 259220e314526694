// A column chunk is read through a window, so that a thread with a cursor in each column takes little memory.
import type { StoredChunk } from "./pages.ts";

const WINDOW = 256 * 1024;

/** `read` fills the bytes from this place of the file. */
export function openChunk(
  read: (into: Uint8Array, offset: number) => void,
  begin: number,
  length: number,
): StoredChunk {
  let window = new Uint8Array(Math.min(WINDOW, length)), first = 0, held = 0;
  return {
    length,
    bytes(at, count) {
      if (at < first || at + count > first + held) {
        // A page that is longer than the window gets room that the next ones of its size fit in, too.
        if (count > window.length) window = new Uint8Array(Math.min(length, count + (count >> 2)));
        first = at;
        held = Math.min(window.length, length - at);
        read(window.subarray(0, held), begin + at);
      }
      return window.subarray(at - first, at - first + count);
    },
  };
}
