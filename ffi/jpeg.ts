// The machine's own libturbojpeg, where it has one: JPEG decoded with its vector units. Imports nothing of ours.

/** What its calls say of a file. */
export type Verdict = "good" | "doubtful" | "bad";

export interface TurboJpeg {
  /** Decodes the whole picture, `pitch` bytes a row. A doubtful one was decoded, with something odd in the file. */
  decode(
    file: Uint8Array,
    into: Uint8Array,
    size: { readonly width: number; readonly height: number },
    format: number,
  ): Verdict;
  /** What was wrong with the last file that was not good. */
  reason(): string;
}

/** Orders of the bytes of a pixel, as libturbojpeg counts them. */
export const TJPF = { rgb: 0, cmyk: 11 } as const;
/** A file of thousands of scans takes minutes to decode, and is an attack. Versions before 2.1 take no notice. */
export const TJFLAG_LIMITSCANS = 32768;

const SYMBOLS = {
  tjInitDecompress: { parameters: [], result: "pointer" },
  tjDecompress2: {
    parameters: ["pointer", "buffer", "usize", "buffer", "i32", "i32", "i32", "i32", "i32"],
    result: "i32",
  },
  tjGetErrorCode: { parameters: ["pointer"], result: "i32", optional: true }, // since 2.0
  tjGetErrorStr: { parameters: [], result: "pointer" },
  tjDestroy: { parameters: ["pointer"], result: "i32" },
} as const;

/** The first of these names and paths that can be loaded. */
export const findTurboJpeg = (paths: readonly string[]): string | null => paths.find(loads) ?? null;

function loads(path: string): boolean {
  try {
    Deno.dlopen(path, SYMBOLS).close();
    return true;
  } catch {
    return false;
  }
}

const opened = new Map<string, TurboJpeg>();

/** This thread's, open for as long as the thread lives. */
export function openTurboJpeg(path: string): TurboJpeg {
  const turbo = opened.get(path) ?? bind(path);
  opened.set(path, turbo);
  return turbo;
}

function bind(path: string): TurboJpeg {
  const { tjInitDecompress, tjDecompress2, tjGetErrorCode, tjGetErrorStr, tjDestroy } =
    Deno.dlopen(path, SYMBOLS).symbols;
  return {
    decode(file, into, { width, height }, format) {
      const pitch = width * (format === TJPF.cmyk ? 4 : 3);
      if (into.length < pitch * height) throw new Error("internal: no room for the picture.");
      // One for each file: it would lend a file that has lost its tables those of the file before.
      const handle = tjInitDecompress();
      if (handle === null) throw new Error(`internal: ${path} gives no decoder.`);
      // It never writes more than this size: a file that says another one by now is refused or made smaller.
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
