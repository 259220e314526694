// At any moment either the old file or the complete new one exists.
import { statfsSync } from "node:fs";
import { basename, dirname, join } from "../../deps/path.ts";
import { systemRefusal, UserError, whyRefused } from "./errors.ts";
import { formatBytes } from "./format.ts";

interface AtomicOptions {
  /** The write is refused before anything is written where fewer bytes are free. */
  needBytes?: number;
  /** It sees the finished temporary file; an exception keeps the old file. */
  check?: (temporary: string) => void;
  /** Without a sync, a killed process still leaves a whole file; a power cut may leave none. */
  sync?: boolean;
  /** A part of a sentence says what to do where this folder takes no more: a run's files have a setting for it. */
  elsewhere?: string;
}

/** A run's folders are where `--save-dir` says. */
export const BY_SAVE_DIR = "name another folder with --save-dir";
const BY_NAME = "name another folder";

// A killed run leaves its temporary file. Nobody owns one this old, wherever it was made.
const STALE_MS = 3600_000;

export function temporaryFor(target: string): string {
  const owner = `${Deno.hostname()}-${Deno.pid}`;
  return join(dirname(target), `${temporaryPrefix(target)}${owner}-${crypto.randomUUID().slice(0, 8)}`);
}

/** File systems take names of 255 bytes, and what follows takes a part of them. */
const MOST_OF_NAME = 150;

function temporaryPrefix(target: string): string {
  const room = new Uint8Array(MOST_OF_NAME);
  const { read } = new TextEncoder().encodeInto(basename(target), room);
  return `.${basename(target).slice(0, read)}.tmp-`;
}

/** It writes a temporary file beside the target, syncs it, checks it, renames it and syncs the folder. */
export function writeAtomically(
  path: string,
  write: (file: Deno.FsFile, temporary: string) => void,
  options: AtomicOptions = {},
): void {
  try {
    const target = followLink(path);
    const folder = dirname(target);
    Deno.mkdirSync(folder, { recursive: true });
    removeStale(target);
    refuseIfFull(path, folder, options);
    const temporary = temporaryFor(target);
    try {
      const file = Deno.openSync(temporary, { read: true, write: true, createNew: true });
      try {
        write(file, temporary);
        if (options.sync !== false) file.syncSync();
      } finally {
        file.close();
      }
      options.check?.(temporary);
      Deno.renameSync(temporary, target);
    } catch (error) {
      remove(temporary);
      throw error;
    }
    if (options.sync !== false) syncFolder(folder);
  } catch (error) {
    throw writeError(path, error, options);
  }
}

export function writeAll(file: Deno.FsFile, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
}

/** A link to another disk stays a link: the file behind it is replaced. */
function followLink(path: string): string {
  try {
    if (Deno.statSync(path).isDirectory) {
      throw new UserError(
        "checkpoint",
        `${path}: is a folder, and a file is to be written there; name a file in it.`,
      );
    }
    return Deno.realPathSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return path;
    throw error;
  }
}

export function removeStale(target: string): void {
  const prefix = temporaryPrefix(target);
  try {
    for (const { name } of Deno.readDirSync(dirname(target))) {
      if (!name.startsWith(prefix)) continue;
      const old = join(dirname(target), name);
      const time = Deno.lstatSync(old).mtime?.getTime() ?? Date.now();
      if (Date.now() - time > STALE_MS || ownerIsGone(name.slice(prefix.length))) remove(old);
    }
  } catch {
    // Another process removed it first, or the folder cannot be listed: neither stops a write.
  }
}

/** Only processes of this machine can be looked up. */
function ownerIsGone(rest: string): boolean {
  const [, host, pid] = /^(.*)-(\d+)-[0-9a-f]{8}$/.exec(rest) ?? [];
  return host === Deno.hostname() && !exists(`/proc/${pid}`) && exists("/proc/self");
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

export function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // It was never written, or is gone: the first error matters.
  }
}

export function freeBytes(folder: string): number | undefined {
  try {
    const { bavail, bsize, blocks } = statfsSync(folder);
    return blocks > 0 ? bavail * bsize : undefined; // some network file systems do not say
  } catch {
    return undefined;
  }
}

function hasNoFilesLeft(folder: string): boolean {
  try {
    const { ffree, files } = statfsSync(folder);
    return files > 0 && ffree === 0;
  } catch {
    return false;
  }
}

function refuseIfFull(
  path: string,
  folder: string,
  { needBytes: need, elsewhere = BY_NAME }: AtomicOptions,
): void {
  const free = freeBytes(folder);
  if (need === undefined || free === undefined || free >= need) return;
  throw new UserError(
    "checkpoint",
    `${path}: ${formatBytes(need)} are to be written and ${formatBytes(free)} are free there; ` +
      `free some space or ${elsewhere}. Nothing was written.`,
  );
}

/** Without this sync a power cut can undo the rename. Some file systems cannot do it. */
export function syncFolder(folder: string): void {
  try {
    const handle = Deno.openSync(folder, { read: true });
    try {
      handle.syncSync();
    } finally {
      handle.close();
    }
  } catch {
    // The file itself is on disk and in place.
  }
}

function writeError(
  path: string,
  error: unknown,
  { needBytes: need, elsewhere = BY_NAME }: AtomicOptions,
): unknown {
  if (error instanceof UserError) return error;
  const refusal = systemRefusal(error);
  if (refusal === undefined) return error;
  const kept = exists(path) ? " The file that was there before is untouched." : "";
  const sentences: Record<string, () => string> = {
    ENOSPC: () =>
      hasNoFilesLeft(dirname(path))
        ? `the disk has space and takes no more files (see: df -i ${
          dirname(path)
        }); remove some, or ${elsewhere}`
        : `the disk is full${
          need === undefined ? "" : ` (${formatBytes(need)} were to be written)`
        }; free some space or ${elsewhere}`,
    EDQUOT: () => `your disk quota is used up; free some space or ${elsewhere}`,
    EFBIG: () =>
      `a file of its size${
        need === undefined ? "" : ` (${formatBytes(need)})`
      } is more than this process may write; raise the limit (see: ulimit -f)`,
    EROFS: () => `the file system is read-only; ${elsewhere}`,
    EACCES: () => `this user may not write to ${dirname(path)}; ${elsewhere}`,
    EPERM: () => `this user may not write to ${dirname(path)}; ${elsewhere}`,
    ENOTDIR: () => `a part of ${dirname(path)} is a file, not a folder`,
    ENAMETOOLONG: () => "the name is longer than file names may be (255 bytes); give a shorter one",
    EEXIST: () => `a part of ${dirname(path)} is a file, not a folder`,
  };
  const why = sentences[refusal.code]?.() ?? `it can't be written: ${whyRefused(refusal)}`;
  return new UserError("checkpoint", `${path}: ${why}.${kept}`, { cause: error });
}
