// File calls that fail on demand, below the program: see file_faults.c. Test helper.
import { build } from "./double.ts";

/** In the order of file_faults.c. */
export const CALLS = [
  ...["open", "read", "write", "fsync", "ftruncate", "lseek", "close", "stat", "fstat", "rename", "unlink"],
  ...["mkdir", "rmdir", "link", "realpath", "opendir", "readdir", "statfs", "copy", "flock"],
] as const;
export type Call = typeof CALLS[number];

/** Linux's own numbers of what a file call may answer; what a disk that has gone wrong may answer is not to be foreseen. */
export const ERRNOS: readonly number[] = Array.from({ length: 133 }, (_, i) => i + 1)
  .filter((number) => number !== 41 && number !== 58); // these two are nobody's

/** By their numbers, the ones that users of clusters meet: full disks and quotas, servers that are gone, keys that end. */
export const COMMON = {
  ...{ EPERM: 1, ENOENT: 2, EIO: 5, EACCES: 13, ENOTDIR: 20, EMFILE: 24, EFBIG: 27, ENOSPC: 28, EROFS: 30 },
  ...{
    ENOLCK: 37,
    ESTALE: 116,
    EREMOTEIO: 121,
    EDQUOT: 122,
    EHOSTDOWN: 112,
    ETIMEDOUT: 110,
    EKEYEXPIRED: 127,
  },
} as const;

export interface Fault {
  readonly call: Call;
  readonly errno: number;
  /** Which of these calls fails, from 1 on; a pair is the first and the last that do. None, if not given: they are counted. */
  readonly number?: number | readonly [number, number];
  /** A part of the paths that are meant. */
  readonly path: string;
}

export interface Faults {
  /** From now on, until `end` or the next one. */
  begin(fault: Fault): void;
  /** All calls do what they are for again; what was counted of each kind since the beginning, and how many were made to fail. */
  end(): { failed: number; counts: Record<Call, number> };
  /** So far. */
  failed(): number;
  [Symbol.dispose](): void;
}

const WORDS = 6 + CALLS.length, PATH_BYTES = 1024;
const ARMED = 0, FAILED = 5;

/** What a program is to be started with, and the file that steers it. */
export function buildFileFaults(folder: string): { env: Record<string, string>; file: string } {
  const file = `${folder}/file_faults`;
  Deno.writeFileSync(file, new Uint8Array(4 * WORDS + PATH_BYTES));
  return { env: { LD_PRELOAD: build("file_faults.c", `${folder}/file_faults.so`), FILE_FAULTS: file }, file };
}

/** Steers a program that was started so, from outside or from within. */
export function steerFaults(path: string): Faults {
  const file = Deno.openSync(path, { read: true, write: true });
  const words = new Uint32Array(WORDS);
  const put = (bytes: Uint8Array, at: number) => {
    file.seekSync(at, Deno.SeekMode.Start);
    file.writeSync(bytes);
  };
  const get = () => {
    file.seekSync(0, Deno.SeekMode.Start);
    file.readSync(new Uint8Array(words.buffer));
  };
  return {
    begin({ call, errno, number = 0, path }) {
      const [first, last] = typeof number === "number" ? [number, number] : number;
      put(new Uint8Array(4), 4 * ARMED);
      put(new TextEncoder().encode(path.padEnd(PATH_BYTES, "\0")), 4 * WORDS);
      words.fill(0);
      words.set([0, CALLS.indexOf(call), first, Math.min(last, 2 ** 32 - 1), errno]);
      put(new Uint8Array(words.buffer), 0);
      put(Uint8Array.of(1, 0, 0, 0), 4 * ARMED);
    },
    end() {
      put(new Uint8Array(4), 4 * ARMED);
      get();
      const counts = Object.fromEntries(CALLS.map((call, i) => [call, words[FAILED + 1 + i]]));
      return { failed: words[FAILED], counts: counts as Record<Call, number> };
    },
    failed() {
      get();
      return words[FAILED];
    },
    [Symbol.dispose]: () => file.close(),
  };
}
