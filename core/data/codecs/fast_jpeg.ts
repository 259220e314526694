// JPEG in the vector instructions of WebAssembly, with Pillow's bits: most files decoded, and pictures as JPEG would leave them.
// The source of fast_jpeg.wasm is in the folder beside this file. It writes planes, as batches have them; null leaves a file to the
// library. It stays because many machines have no libturbojpeg, and there it decodes 2.5 times as many photographs as
// libjpeg-turbo in WebAssembly: of one thread, 4,122 and 1,645 images of 224 x 224 a second, and 1,384 and 533 of 500 x 375
// (`bench/data_ways.ts jpeg FOLDER`).

interface Exports {
  readonly memory: WebAssembly.Memory;
  room(bytes: number): number;
  decode(bytes: number): number;
  split(width: number, height: number): number;
  planeBytes(): number;
  again(width: number, height: number, planes: number, quality: number): number;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

/** It stays as it is until the next call. */
interface Decoded {
  readonly data: Uint8Array;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
}

interface FastJpeg {
  decode(file: Uint8Array, size: Size): Decoded | null;
  /** Interleaved pixels become planes in the same memory. */
  pixels(bytes: number): Uint8Array;
  split(size: Size): Decoded;
  /** Planes, one or three, become what a JPEG of this quality, from 1 to 100, keeps of them. */
  again(pixels: Uint8Array, size: Size, quality: number): void;
}

export function openFastJpeg(): FastJpeg {
  const code = Deno.readFileSync(new URL("./fast_jpeg.wasm", import.meta.url));
  const library = new WebAssembly.Instance(new WebAssembly.Module(code)).exports as unknown as Exports;
  const bytesAt = (at: number, length: number) => new Uint8Array(library.memory.buffer, at, length);
  const planes = (at: number, { width, height }: Size): Decoded => {
    const plane = library.planeBytes();
    return { data: bytesAt(at, 3 * plane), shape: [3, height, width], strides: [plane, width, 1] };
  };
  const memory = (bytes: number) => bytesAt(library.room(bytes) >>> 0, bytes);
  return {
    decode(file, size) {
      memory(file.length).set(file);
      try {
        const at = library.decode(file.length) >>> 0;
        return at === 0 ? null : planes(at, size);
      } catch (error) {
        if (error instanceof WebAssembly.RuntimeError) return null; // damaged beyond its memory
        throw error;
      }
    },
    pixels: memory,
    again(pixels, { width, height }, quality) {
      const plane = width * height, count = pixels.length / plane;
      memory(pixels.length).set(pixels);
      const at = library.again(width, height, count, quality) >>> 0, apart = library.planeBytes();
      for (let c = 0; c < count; c++) pixels.set(bytesAt(at + c * apart, plane), c * plane);
    },
    split: (size) => planes(library.split(size.width, size.height) >>> 0, size),
  };
}
