// The machine's libturbojpeg decodes JPEG where there is one; else our own vector code takes most files, and
// libjpeg-turbo as WebAssembly the rest. All give Pillow's bits.
import { BadSample } from "../arrays/rows.ts";
import type { Stored } from "../augment/planes.ts";
import { openFastJpeg } from "../codecs/fast_jpeg.ts";
import { TJFLAG_LIMITSCANS, TJPF, type TurboJpeg } from "../../../ffi/codecs.ts";
import { jpeg } from "../../../deps/codecs.js";
import { cutOff, type JpegHeader, refuseScans, type ReusedBuffer } from "./header.ts";

interface TurboExports {
  readonly memory: WebAssembly.Memory;
  malloc(bytes: number): number;
  free(at: number): void;
  tjInitDecompress(): number;
  tjDestroy(handle: number): number;
  tjDecompress2(
    ...args: [
      handle: number,
      file: number,
      bytes: number,
      into: number,
      width: number,
      pitch: number,
      height: number,
      format: number,
      flags: number,
    ]
  ): number;
}

/** A library error must leave native frames, which WebAssembly cannot do: it is thrown here. */
class Fatal extends Error {}

export function openTurboWasm(): TurboJpeg {
  let library = start();
  return {
    decode(file, into, { width, height }, format) {
      const pitch = width * (format === TJPF.cmyk ? 4 : 3);
      const { exports } = library;
      try {
        const source = library.room(0, file.length), target = library.room(1, pitch * height);
        new Uint8Array(exports.memory.buffer, source, file.length).set(file);
        // A shared decompressor would lend a file without tables those of the file before.
        const handle = exports.tjInitDecompress();
        const failed = exports.tjDecompress2(
          handle,
          source,
          file.length,
          target,
          width,
          pitch,
          height,
          format,
          TJFLAG_LIMITSCANS,
        );
        exports.tjDestroy(handle);
        into.set(new Uint8Array(exports.memory.buffer, target, pitch * height));
        return failed === 0 ? "good" : "doubtful";
      } catch (error) {
        if (!(error instanceof Fatal || error instanceof WebAssembly.RuntimeError)) throw error;
        library = start(); // its stack is as the jump left it
        return "bad";
      }
    },
    reason: () => "the decoder gave it up",
  };
}

function start() {
  const nothing = () => 0;
  const instance = new WebAssembly.Instance(jpeg, {
    env: {
      setjmp: nothing,
      longjmp() {
        throw new Fatal();
      },
    },
    wasi_snapshot_preview1: {
      environ_sizes_get: nothing,
      environ_get: nothing,
      proc_exit: nothing,
      fd_close: nothing,
      fd_seek: nothing,
      fd_write: nothing,
    },
  });
  const exports = instance.exports as unknown as TurboExports;
  const memories = [{ at: 0, bytes: 0 }, { at: 0, bytes: 0 }];
  const memory = (which: 0 | 1, bytes: number): number => {
    const now = memories[which];
    if (now.bytes >= bytes) return now.at;
    if (now.bytes > 0) exports.free(now.at);
    const at = exports.malloc(bytes);
    if (at === 0) throw new Fatal();
    memories[which] = { at, bytes };
    return at;
  };
  return { exports, room: memory };
}

/** WebAssembly never gives memory back: larger pictures go elsewhere. */
const FAST_PIXELS = 2 ** 24;

export function openJpeg(machines: TurboJpeg | null, buffer: ReusedBuffer) {
  const fast = openFastJpeg();
  let library = machines;
  return (file: Uint8Array, header: JpegHeader): Stored => {
    const { width, height, channels } = header;
    // libjpeg paints missing parts grey; Pillow and we refuse. Bytes after the end mean nothing.
    if (!hasEnd(file, header.scan)) throw cutOff(file, "before the end of its picture");
    if (header.again) refuseScans(file, header);
    const small = width * height <= FAST_PIXELS;
    const picture = small && machines === null ? fast.decode(file, header) : null;
    if (picture) return picture;
    library ??= openTurboWasm();
    const cmyk = channels === 4;
    const bytes = width * height * (cmyk ? 4 : 3);
    const pixels = cmyk || !small ? buffer(bytes) : fast.pixels(bytes);
    if (library.decode(file, pixels, header, cmyk ? TJPF.cmyk : TJPF.rgb) === "bad") {
      throw new BadSample("", `is a damaged JPEG: ${library.reason()}`);
    }
    if (cmyk) toRgb(pixels, width * height);
    return cmyk || !small
      ? { data: pixels, shape: [3, height, width], strides: [1, width * 3, 3] }
      : fast.split(header);
  };
}

function hasEnd(file: Uint8Array, from: number): boolean {
  for (let at = file.length - 2; at >= from; at--) {
    if (file[at] === 0xff && file[at + 1] === 0xd9) return true;
  }
  return false;
}

/** As in Pillow, ink is stored inverted, and black is taken from each colour. It works in place. */
function toRgb(pixels: Uint8Array, count: number): void {
  for (let i = 0; i < count; i++) {
    const black = pixels[4 * i + 3];
    for (let c = 0; c < 3; c++) {
      const product = (255 - pixels[4 * i + c]) * black + 128;
      pixels[3 * i + c] = black - ((product + (product >> 8)) >> 8);
    }
  }
}
