// The reader of image files, with the decoder for each format (WebP here, JPEG and PNG beside it).
import { BadSample } from "../arrays/rows.ts";
import type { Reader, ReaderModule, ReaderSpec } from "../source/reader.ts";
import type { Stored } from "../augment/planes.ts";
import { webp } from "../../../deps/codecs.js";
import { cutOff, type Header, headerOf, type JpegHeader, openReusedBuffer } from "./header.ts";
import { openTurboJpeg } from "../../../ffi/codecs.ts";
import { openJpeg } from "./jpeg.ts";
import { imagePath, labelOf, type Listing, naming, readFile } from "./listing.ts";
import { openPng } from "./png.ts";

interface Exports {
  readonly memory: WebAssembly.Memory;
  malloc(bytes: number): number;
  free(at: number): void;
  WebPDecodeRGBA(file: number, bytes: number, width: number, height: number): number;
}

function openWebp(): (file: Uint8Array, header: Header) => Stored {
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

export interface ImagesSpec extends ReaderSpec {
  readonly listing: Listing;
  readonly turbo: string | null;
  readonly deep?: boolean;
}

export default { open: openImages } satisfies ReaderModule<ImagesSpec>;

function openImages({ listing, turbo, deep }: ImagesSpec): Reader {
  const decode = openImageDecoder(turbo, deep);
  const buffer = openReusedBuffer();
  return {
    read(index, target) {
      writeLabel(target, labelOf(listing, index));
      return naming(imagePath(listing, index), (path) => decode(readFile(path, buffer)));
    },
    close: () => {},
  };
}

/**
 * RGB as bytes, or `deep` as floats from 0 to 1 that keep 16 bits where a file has them; it stays valid until the
 * next call.
 */
export function openImageDecoder(
  turbo: string | null,
  deep = false,
): (file: Uint8Array<ArrayBuffer>) => Stored {
  const decode = openStored(turbo, deep);
  return deep ? (file) => scaled(decode(file)) : decode;
}

/** Each value is its share of the most that its type holds. */
function scaled({ data, shape, strides }: Stored): Stored {
  const values = data as Uint8Array | Uint16Array, most = values instanceof Uint16Array ? 65535 : 255;
  const shares = new Float32Array(values.length);
  for (let i = 0; i < values.length; i++) shares[i] = values[i] / most;
  return { data: shares, shape, strides };
}

function openStored(turbo: string | null, deep: boolean): (file: Uint8Array<ArrayBuffer>) => Stored {
  const buffer = openReusedBuffer();
  const jpeg = openJpeg(turbo === null ? null : openTurboJpeg(turbo), buffer);
  const png = openPng(buffer, deep), webp = openWebp();
  return (file) => {
    const header = headerOf(file);
    switch (header.format) {
      case "jpeg":
        return jpeg(file, header as JpegHeader);
      case "png":
        return png(file, header);
      case "webp":
        return webp(file, header);
    }
  };
}

function writeLabel(target: Uint8Array, label: number): void {
  for (let i = 0; i < target.length; i++) target[i] = i < 4 ? label >>> (8 * i) : 0;
}
