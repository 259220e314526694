// A column chunk is read through a window. A thread with a cursor in each column has one window for all of them.
import type { StoredChunk } from "./pages.ts";

/** Each thread has its own; the bytes are valid until it is used again. */
export type Window = (bytes: number) => Uint8Array<ArrayBuffer>;

export function openWindow(): Window {
  let room = new Uint8Array(0);
  return (bytes) => {
    // A page that is longer than those before gets room that the next ones of its size fit in, too.
    if (bytes > room.length) room = new Uint8Array(bytes + (bytes >> 2));
    return room.subarray(0, bytes);
  };
}

/** `read` fills the bytes from this place of the file. */
export const openChunk = (
  read: (into: Uint8Array, offset: number) => void,
  begin: number,
  length: number,
  window: Window,
): StoredChunk => ({
  length,
  bytes(at, count) {
    const bytes = window(count);
    read(bytes, begin + at);
    return bytes;
  },
});
