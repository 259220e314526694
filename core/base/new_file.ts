// New files and folders that appear whole or not at all, and the sentences for what a disk refuses.
import { dirname, join, resolve } from "../../deps/path.ts";
import { freeBytes, remove, removeStale, syncFolder, temporaryFor, writeAll } from "./atomic.ts";
import { type SystemRefusal, systemRefusal, UserError, whyRefused } from "./errors.ts";
import { formatBytes } from "./format.ts";
import { createHash } from "node:crypto";

const NO_FOLDER = "a part of the path is a file, not a folder. Name another folder";
const WHY: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full. Free some space there, and run the same command again",
  EDQUOT: "your disk quota is used up. Free some space there, and run the same command again",
  EROFS: "the file system is read-only. Name another folder",
  EACCES: "this user may not write there. Name another folder",
  EPERM: "this user may not write there. Name another folder",
  ENOTDIR: NO_FOLDER,
  EEXIST: NO_FOLDER,
};

export const writing = <R>(path: string, act: () => R): R =>
  telling(
    act,
    "usage",
    (refusal) =>
      `${path} can't be written: ${WHY[refusal.code] ?? `${whyRefused(refusal)}. Name another folder`}.`,
  );

export const reading = <R>(path: string, act: () => R): R =>
  telling(
    act,
    "data",
    (refusal) =>
      `${path} can't be read: ${
        whyRefused(refusal)
      }. Check that it is still there, and that this user may read it.`,
  );

function telling<R>(act: () => R, kind: "usage" | "data", say: (refusal: SystemRefusal) => string): R {
  try {
    return act();
  } catch (error) {
    const refusal = systemRefusal(error);
    if (error instanceof UserError || refusal === undefined) throw error;
    throw new UserError(kind, say(refusal), { cause: error });
  }
}

export function checkDisk(what: string, folder: string, needed: number, advice: string): void {
  const free = freeAt(folder);
  if (free === undefined || needed <= free) return;
  throw new UserError(
    "usage",
    `${what} takes ${formatBytes(needed)}, and ${formatBytes(free)} are free in ${folder}. ${advice}`,
  );
}

/** The folder need not exist yet; undefined means that the system does not know. */
export function freeAt(folder: string): number | undefined {
  let folderAbove = resolve(folder);
  while (!exists(folderAbove) && dirname(folderAbove) !== folderAbove) folderAbove = dirname(folderAbove);
  return freeBytes(folderAbove);
}

function exists(path: string): boolean {
  try {
    return Deno.statSync(path) !== null;
  } catch {
    return false;
  }
}

interface Written {
  readonly bytes: number;
  readonly sha256: string;
}

export type Put = (bytes: Uint8Array) => void;

/** It writes a temporary file, syncs it, renames it and syncs the folder. */
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

export const writeText = (path: string, text: string): Promise<Written> =>
  writeNew(path, (put) => put(new TextEncoder().encode(text)));

/** Nothing happens where the file exists. */
export function writeFirst(path: string, text: string): void {
  const temporary = temporaryFor(path);
  try {
    writing(path, () => Deno.writeTextFileSync(temporary, text, { createNew: true }));
    try {
      Deno.linkSync(temporary, path); // fails where there is one, and is never seen half written
    } catch {
      // The file exists, or the file system has no hard links: a rename is what is left.
      if (fileSizeOf(path) < 0) writing(path, () => Deno.renameSync(temporary, path));
    }
  } finally {
    remove(temporary);
  }
}

export const makeFolder = (path: string): void =>
  writing(path, () => Deno.mkdirSync(path, { recursive: true }));

export function fileSizeOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch {
    return -1;
  }
}

/** Killed processes leave unfinished files in a folder; this removes them. */
export function tidy(folder: string): void {
  for (const { name } of Deno.readDirSync(folder)) {
    const target = /^\.(.+)\.tmp-/.exec(name)?.[1];
    if (target) removeStale(join(folder, target));
  }
}

const CHUNK = 4 << 20;

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
