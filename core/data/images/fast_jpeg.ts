// The fast way of most JPEG files, fast_jpeg.as: straight to planes, as batches have them. May import codecs, reading.
import type { Stored } from "../reading/reader.ts";

interface Exports {
  readonly memory: WebAssembly.Memory;
  room(bytes: number): number;
  decode(bytes: number): number;
  split(width: number, height: number): number;
  planeBytes(): number;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

export interface FastJpeg {
  /** Null for a file that is not of the most usual kind, or not without fault. */
  decode(file: Uint8Array, size: Size): Stored | null;
  /** Room for a picture's pixels, red, green and blue in turn; the same as planes, once it is filled. */
  pixels(bytes: number): Uint8Array;
  split(size: Size): Stored;
}

export function openFastJpeg(): FastJpeg {
  const code = Deno.readFileSync(new URL("./fast_jpeg.wasm", import.meta.url));
  const library = new WebAssembly.Instance(new WebAssembly.Module(code)).exports as unknown as Exports;
  const bytesAt = (at: number, length: number) => new Uint8Array(library.memory.buffer, at, length);
  const planes = (at: number, { width, height }: Size): Stored => {
    const plane = library.planeBytes();
    return { data: bytesAt(at, 3 * plane), shape: [3, height, width], strides: [plane, width, 1] };
  };
  const room = (bytes: number) => bytesAt(library.room(bytes) >>> 0, bytes);
  return {
    decode(file, size) {
      room(file.length).set(file);
      try {
        const at = library.decode(file.length) >>> 0;
        return at === 0 ? null : planes(at, size);
      } catch (error) {
        if (error instanceof WebAssembly.RuntimeError) return null; // damaged beyond its memory
        throw error;
      }
    },
    pixels: room,
    split: (size) => planes(library.split(size.width, size.height) >>> 0, size),
  };
}
