// libjpeg-turbo as WebAssembly: decodes JPEG where the machine has no libturbojpeg. May import codecs, ffi's TurboJpeg.
import { TJFLAG_LIMITSCANS, TJPF, type TurboJpeg } from "../../../ffi/jpeg.ts";
import { jpeg } from "../../../deps/codecs.js";

interface Exports {
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

/** An error of the library jumps out of its own frames, which WebAssembly has no way to: here it is thrown. */
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
        // One for each file: it would lend a file that has lost its tables those of the file before.
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
    // Its messages, which go nowhere.
    wasi_snapshot_preview1: {
      environ_sizes_get: nothing,
      environ_get: nothing,
      proc_exit: nothing,
      fd_close: nothing,
      fd_seek: nothing,
      fd_write: nothing,
    },
  });
  const exports = instance.exports as unknown as Exports;
  const rooms = [{ at: 0, bytes: 0 }, { at: 0, bytes: 0 }];
  /** The file's and the picture's place in its memory, which grow with the largest of them. */
  const room = (which: 0 | 1, bytes: number): number => {
    const now = rooms[which];
    if (now.bytes >= bytes) return now.at;
    if (now.bytes > 0) exports.free(now.at);
    const at = exports.malloc(bytes);
    if (at === 0) throw new Fatal();
    rooms[which] = { at, bytes };
    return at;
  };
  return { exports, room };
}
