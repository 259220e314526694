// Why something can't be written or read, as a sentence, and what the disk has room for. May import errors, format,
// checkpoint's atomic.
import { dirname, resolve } from "../../../deps/path.ts";
import { freeBytes } from "../../checkpoint/atomic.ts";
import { type Refusal, refusalOf, UserError, whyRefused } from "../../errors.ts";
import { formatBytes } from "../../format.ts";

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

/** Runs what writes at a path. */
export const writing = <R>(path: string, act: () => R): R =>
  telling(
    act,
    "usage",
    (refusal) =>
      `${path} can't be written: ${WHY[refusal.code] ?? `${whyRefused(refusal)}. Name another folder`}.`,
  );

/** Runs what reads at a path. */
export const reading = <R>(path: string, act: () => R): R =>
  telling(
    act,
    "data",
    (refusal) =>
      `${path} can't be read: ${
        whyRefused(refusal)
      }. Check that it is still there, and that this user may read it.`,
  );

function telling<R>(act: () => R, kind: "usage" | "data", say: (refusal: Refusal) => string): R {
  try {
    return act();
  } catch (error) {
    const refusal = refusalOf(error);
    if (error instanceof UserError || refusal === undefined) throw error;
    throw new UserError(kind, say(refusal), { cause: error });
  }
}

/** Refuses before anything is written what the disk has no room for. The folder need not be there yet. */
export function checkDisk(what: string, folder: string, needed: number, advice: string): void {
  const free = freeAt(folder);
  if (free === undefined || needed <= free) return;
  throw new UserError(
    "usage",
    `${what} takes ${formatBytes(needed)}, and ${formatBytes(free)} are free in ${folder}. ${advice}`,
  );
}

/** Bytes that are free where a folder is, or is going to be; undefined where nobody says. */
export function freeAt(folder: string): number | undefined {
  let there = resolve(folder);
  while (!isThere(there) && dirname(there) !== there) there = dirname(there);
  return freeBytes(there);
}

function isThere(path: string): boolean {
  try {
    return Deno.statSync(path) !== null;
  } catch {
    return false;
  }
}
