// A file that is there complete or not at all, and its checksum. May import checkpoint's atomic, faults.
import { createHash } from "node:crypto";
import { dirname, join } from "../../../deps/path.ts";
import { remove, removeStale, syncFolder, temporaryFor, writeAll } from "../../checkpoint/atomic.ts";
import { reading, writing } from "./faults.ts";

export interface Written {
  readonly bytes: number;
  readonly sha256: string;
}

export type Put = (bytes: Uint8Array) => void;

/** Temporary file beside it, then fsync, rename, fsync of the folder. */
export async function writeNew(path: string, fill: (put: Put) => void | Promise<void>): Promise<Written> {
  const file = openNew(path);
  try {
    await fill(file.put);
    return file.keep();
  } catch (error) {
    file.drop();
    throw error;
  }
}

/** The same at once. `accept` may refuse what was written, by throwing. */
export function writeNewSync(
  path: string,
  fill: (put: Put) => void,
  accept: (written: Written) => void = () => {},
): Written {
  const file = openNew(path);
  try {
    fill(file.put);
    return file.keep(accept);
  } catch (error) {
    file.drop();
    throw error;
  }
}

function openNew(path: string) {
  const temporary = temporaryFor(path);
  const file = writing(path, () => Deno.openSync(temporary, { write: true, createNew: true }));
  const hash = createHash("sha256");
  let bytes = 0, open = true;
  const close = () => {
    if (open) file.close();
    open = false;
  };
  return {
    put(part: Uint8Array): void {
      writing(path, () => writeAll(file, part));
      hash.update(part);
      bytes += part.length;
    },
    keep(accept: (written: Written) => void = () => {}): Written {
      const written = { bytes, sha256: hash.digest("hex") };
      accept(written);
      writing(path, () => {
        file.syncSync();
        close();
        Deno.renameSync(temporary, path);
      });
      syncFolder(dirname(path));
      return written;
    },
    drop(): void {
      close();
      remove(temporary);
    },
  };
}

/** A small file, complete or not at all. */
export const writeText = (path: string, text: string): Promise<Written> =>
  writeNew(path, (put) => put(new TextEncoder().encode(text)));

/** The same where there is none yet; nothing where somebody was first. */
export function writeFirst(path: string, text: string): void {
  const temporary = temporaryFor(path);
  try {
    writing(path, () => Deno.writeTextFileSync(temporary, text, { createNew: true }));
    try {
      Deno.linkSync(temporary, path); // fails where there is one, and is never seen half written
    } catch {
      // Somebody was first, or the file system has no hard links: what is left is a rename.
      if (sizeOf(path) < 0) writing(path, () => Deno.renameSync(temporary, path));
    }
  } finally {
    remove(temporary);
  }
}

/** With all the folders above it. */
export const makeFolder = (path: string): void =>
  writing(path, () => Deno.mkdirSync(path, { recursive: true }));

/** -1 where there is no such file. */
export function sizeOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch {
    return -1;
  }
}

/** Removes what processes that were killed left unfinished in a folder. */
export function tidy(folder: string): void {
  for (const { name } of Deno.readDirSync(folder)) {
    const target = /^\.(.+)\.tmp-/.exec(name)?.[1];
    if (target) removeStale(join(folder, target));
  }
}

const CHUNK = 4 << 20;

/** A whole file in pieces. */
export function eachChunk(path: string, use: Put): void {
  using file = reading(path, () => Deno.openSync(path));
  const chunk = new Uint8Array(CHUNK);
  for (;;) {
    const count = reading(path, () => file.readSync(chunk));
    if (count === null) return;
    use(chunk.subarray(0, count));
  }
}

export function sha256Of(path: string): string {
  const hash = createHash("sha256");
  eachChunk(path, (part) => hash.update(part));
  return hash.digest("hex");
}
