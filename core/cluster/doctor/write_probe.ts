// A small file written, synced, renamed and removed again: whether a folder takes files, and how fast. May import
// checkpoint/atomic, errors.
import { dirname, join, resolve } from "../../../deps/path.ts";
import { remove, syncFolder } from "../../checkpoint/atomic.ts";
import { refusalOf } from "../../errors.ts";

export interface Probe {
  /** Why nothing can be written: "EROFS". Null where it can. */
  readonly refused: string | null;
  /** Which step was refused. */
  readonly at: "write" | "fsync" | "rename" | null;
  readonly bytes: number;
  /** Of writing and of bringing it to the disk. */
  readonly writeSeconds: number;
  readonly syncSeconds: number;
  readonly renameSeconds: number;
  /** How far the file's time is from this machine's clock, in seconds: the file server's clock. */
  readonly skew: number;
}

const PIECE = 2 ** 20;

/** The nearest folder above a path that is there: a run makes the rest. */
export function nearestFolder(path: string): string {
  for (let at = resolve(path);; at = dirname(at)) {
    try {
      Deno.statSync(at);
      return at;
    } catch {
      if (at === dirname(at)) return at;
    }
  }
}

/** Writes `bytes`, or fewer where `seconds` are over; leaves nothing behind. */
export function probe(folder: string, bytes: number, seconds: number): Probe {
  const owner = `${Deno.hostname()}-${Deno.pid}-${crypto.randomUUID().slice(0, 8)}`;
  const first = join(folder, `.hpctrain-doctor-${owner}`), second = `${first}-renamed`;
  const result = { refused: null, bytes: 0, writeSeconds: 0, syncSeconds: 0, renameSeconds: 0, skew: 0 };
  let at: Probe["at"] = "write";
  const lap = stopwatch();
  try {
    using file = Deno.openSync(first, { write: true, createNew: true });
    const piece = new Uint8Array(PIECE);
    for (let i = 0; i < PIECE; i += 65536) crypto.getRandomValues(piece.subarray(i, i + 65536));
    const before = Date.now();
    lap();
    while (result.bytes < bytes && (result.writeSeconds < seconds || result.bytes === 0)) {
      for (let done = 0; done < PIECE;) done += file.writeSync(piece.subarray(done));
      result.bytes += PIECE;
      result.writeSeconds += lap();
    }
    at = "fsync";
    file.syncSync();
    result.syncSeconds = lap();
    const time = (file.statSync().mtime?.getTime() ?? before) / 1000;
    // Within the time of writing there is no telling.
    result.skew = time < before / 1000
      ? Math.min(0, time - before / 1000)
      : Math.max(0, time - Date.now() / 1000);
    at = "rename";
    lap();
    Deno.renameSync(first, second);
    syncFolder(folder);
    result.renameSeconds = lap();
    return { ...result, at: null };
  } catch (error) {
    return { ...result, refused: refusalOf(error)?.code ?? (error as Error).message, at };
  } finally {
    remove(first);
    remove(second);
  }
}

/** Each call gives the seconds since the one before. */
function stopwatch(): () => number {
  let last = performance.now();
  return () => {
    const now = performance.now(), seconds = (now - last) / 1000;
    last = now;
    return seconds;
  };
}
