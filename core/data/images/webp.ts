// WebP -> RGB: libwebp as WebAssembly. May import reading, codecs, header.
import { BadSample, type Stored } from "../reading/reader.ts";
import { webp } from "../../../deps/codecs.js";
import { cutOff, type Header } from "./header.ts";

interface Exports {
  readonly memory: WebAssembly.Memory;
  malloc(bytes: number): number;
  free(at: number): void;
  WebPDecodeRGBA(file: number, bytes: number, width: number, height: number): number;
}

export function openWebp(): (file: Uint8Array, header: Header) => Stored {
  let library: Exports | null = null; // for the first WebP, and there may be none
  let last = 0; // the last picture's place, in the library's memory until the next
  return (file, { width, height }) => {
    if (file.length < 8 + little32(file, 4)) throw cutOff(file, "before the end of its picture");
    library ??= start();
    library.free(last);
    const size = library.malloc(8), source = library.malloc(file.length);
    if (source !== 0) new Uint8Array(library.memory.buffer, source, file.length).set(file);
    last = source === 0 ? 0 : library.WebPDecodeRGBA(source, file.length, size, size + 4);
    const [w, h] = new Int32Array(library.memory.buffer, size, 2);
    library.free(source);
    library.free(size);
    if (last === 0 || w !== width || h !== height) throw new BadSample("", "is a damaged WebP");
    const data = new Uint8Array(library.memory.buffer, last, 4 * width * height);
    return { data, shape: [3, height, width], strides: [1, 4 * width, 4] };
  };
}

function start(): Exports {
  const refuse = () => 1;
  const { exports } = new WebAssembly.Instance(webp, {
    wasi_snapshot_preview1: { fd_close: refuse, fd_seek: refuse, fd_write: refuse },
  });
  return exports as unknown as Exports;
}

const little32 = (file: Uint8Array, at: number): number =>
  new DataView(file.buffer, file.byteOffset).getUint32(at, true);
