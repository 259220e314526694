// Codecs of the machine, where it has them: libdeflate for zlib data, libzstd and liblz4 (they take half the time of the
// runtime and less), and libjpeg-turbo for JPEG. Nothing here needs libtorch.
import { inflateSync, zstdDecompressSync } from "node:zlib";

const LIBDEFLATE_SYMBOLS = {
  libdeflate_alloc_decompressor: { parameters: [], result: "pointer" },
  libdeflate_zlib_decompress: {
    parameters: ["pointer", "buffer", "usize", "buffer", "usize", "pointer"],
    result: "i32",
  },
} as const;

type Inflate = (packed: Uint8Array<ArrayBuffer>, into: Uint8Array<ArrayBuffer>) => boolean;

let usual: Inflate | undefined;

/** Each thread opens its own. True where the data fills `into` exactly. */
export const openInflate = (): Inflate => usual ??= byLibdeflate("libdeflate.so.0") ?? byRuntime;

function byLibdeflate(name: string): Inflate | null {
  let symbols: Deno.DynamicLibrary<typeof LIBDEFLATE_SYMBOLS>["symbols"];
  try {
    symbols = Deno.dlopen(name, LIBDEFLATE_SYMBOLS).symbols;
  } catch {
    return null; // not on this machine
  }
  const { libdeflate_alloc_decompressor: alloc, libdeflate_zlib_decompress: unpack } = symbols;
  const state = alloc(); // as long as the thread lives
  if (state === null) return null;
  // Without a place for the count, libdeflate takes only data that fills the room exactly.
  return (packed, into) =>
    unpack(state, packed, BigInt(packed.length), into, BigInt(into.length), null) === 0;
}

export const byRuntime: Inflate = (packed, into) => {
  try {
    // One byte above the expected size shows an overflow; one call is twice as fast as small pieces.
    const bytes = inflateSync(packed, { maxOutputLength: into.length + 1, chunkSize: into.length + 64 });
    if (bytes.length !== into.length) return false;
    into.set(bytes);
    return true;
  } catch {
    return false;
  }
};

const ZSTD_SYMBOLS = {
  ZSTD_createDCtx: { parameters: [], result: "pointer" },
  ZSTD_decompressDCtx: { parameters: ["pointer", "buffer", "usize", "buffer", "usize"], result: "usize" },
} as const;

let zstd: Inflate | undefined;

/** Each thread opens its own. True where the frames fill `into` exactly. */
export const openZstd = (): Inflate => zstd ??= byLibzstd("libzstd.so.1") ?? zstdByRuntime;

function byLibzstd(name: string): Inflate | null {
  let symbols: Deno.DynamicLibrary<typeof ZSTD_SYMBOLS>["symbols"];
  try {
    symbols = Deno.dlopen(name, ZSTD_SYMBOLS).symbols;
  } catch {
    return null; // not on this machine
  }
  const { ZSTD_createDCtx: create, ZSTD_decompressDCtx: unpack } = symbols;
  const state = create(); // as long as the thread lives
  if (state === null) return null;
  // An error is a number that no size has.
  return (packed, into) =>
    unpack(state, into, BigInt(into.length), packed, BigInt(packed.length)) === BigInt(into.length);
}

export const zstdByRuntime: Inflate = (packed, into) => {
  try {
    const bytes = zstdDecompressSync(packed, {
      maxOutputLength: into.length + 1,
      chunkSize: into.length + 64,
    });
    if (bytes.length !== into.length) return false;
    into.set(bytes);
    return true;
  } catch {
    return false;
  }
};

const LZ4_SYMBOLS = {
  LZ4_decompress_safe: { parameters: ["buffer", "buffer", "i32", "i32"], result: "i32" },
} as const;

let lz4: Inflate | null | undefined;

/** Null where the machine has no liblz4. True where the block fills `into` exactly. */
export const openLz4 = (): Inflate | null => lz4 === undefined ? lz4 = byLiblz4("liblz4.so.1") : lz4;

function byLiblz4(name: string): Inflate | null {
  let symbols: Deno.DynamicLibrary<typeof LZ4_SYMBOLS>["symbols"];
  try {
    symbols = Deno.dlopen(name, LZ4_SYMBOLS).symbols;
  } catch {
    return null;
  }
  const { LZ4_decompress_safe: unpack } = symbols;
  return (packed, into) => unpack(packed, into, packed.length, into.length) === into.length;
}

type Verdict = "good" | "doubtful" | "bad";

export interface TurboJpeg {
  /** Decodes the whole picture, `pitch` bytes a row. A doubtful file is decoded too. */
  decode(
    file: Uint8Array,
    into: Uint8Array,
    size: { readonly width: number; readonly height: number },
    format: number,
  ): Verdict;
  reason(): string;
}

export const TJPF = { rgb: 0, cmyk: 11 } as const;
/**
 * A file of thousands of scans takes minutes to decode, and is an attack. Versions before 2.1 ignore the
 * flag.
 */
export const TJFLAG_LIMITSCANS = 32768;

const TURBOJPEG_SYMBOLS = {
  tjInitDecompress: { parameters: [], result: "pointer" },
  tjDecompress2: {
    parameters: ["pointer", "buffer", "usize", "buffer", "i32", "i32", "i32", "i32", "i32"],
    result: "i32",
  },
  tjGetErrorCode: { parameters: ["pointer"], result: "i32", optional: true }, // since 2.0
  tjGetErrorStr: { parameters: [], result: "pointer" },
  tjDestroy: { parameters: ["pointer"], result: "i32" },
} as const;

export const findTurboJpeg = (paths: readonly string[]): string | null => paths.find(loads) ?? null;

function loads(path: string): boolean {
  try {
    Deno.dlopen(path, TURBOJPEG_SYMBOLS).close();
    return true;
  } catch {
    return false;
  }
}

const opened = new Map<string, TurboJpeg>();

export function openTurboJpeg(path: string): TurboJpeg {
  const turbo = opened.get(path) ?? bind(path);
  opened.set(path, turbo);
  return turbo;
}

function bind(path: string): TurboJpeg {
  const { tjInitDecompress, tjDecompress2, tjGetErrorCode, tjGetErrorStr, tjDestroy } =
    Deno.dlopen(path, TURBOJPEG_SYMBOLS).symbols;
  return {
    decode(file, into, { width, height }, format) {
      const pitch = width * (format === TJPF.cmyk ? 4 : 3);
      if (into.length < pitch * height) throw new Error("internal: no room for the picture.");
      // Each file gets its own handle: a shared one would lend a file without tables those of the file
      // before.
      const handle = tjInitDecompress();
      if (handle === null) throw new Error(`internal: ${path} gives no decoder.`);
      // It never writes more than this size: a changed file is refused or made smaller.
      const failed = tjDecompress2(
        handle,
        file as Uint8Array<ArrayBuffer>,
        BigInt(file.length),
        into as Uint8Array<ArrayBuffer>,
        width,
        pitch,
        height,
        format,
        TJFLAG_LIMITSCANS,
      );
      const fatal = failed !== 0 && tjGetErrorCode?.(handle) !== 0;
      tjDestroy(handle);
      return fatal ? "bad" : failed === 0 ? "good" : "doubtful";
    },
    reason() {
      const text = tjGetErrorStr();
      return text === null ? "no reason given" : Deno.UnsafePointerView.getCString(text);
    },
  };
}
