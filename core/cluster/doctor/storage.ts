// Checks the folders of a run: free space, files, quota, and speed, by a small file.
import { statfsSync } from "node:fs";
import { formatBytes, formatDuration } from "../../base/format.ts";
import { bad, type Finding, good, onPath, programOutput, textIn, warn } from "./check.ts";
import { dirname, join, resolve } from "../../../deps/path.ts";
import { remove, syncFolder } from "../../base/atomic.ts";
import { messageOf, systemRefusal } from "../../base/errors.ts";

interface StorageFacts {
  readonly places: readonly FolderFacts[];
  readonly quotas: readonly Quota[];
}

export interface FolderFacts {
  readonly what: string;
  readonly flag: string;
  readonly path: string;
  /** This is the path itself, or the nearest folder above it. */
  readonly folder: string;
  /** "lustre", "nfs4", "ext4"; empty where it is unknown. */
  readonly kind: string;
  /** Bytes for this user; null where the file system does not say. */
  readonly free: number | null;
  readonly used: number | null;
  readonly filesFree: number | null;
  readonly files: number | null;
  /** It is null for folders that are only read. */
  readonly probe: StorageProbe | null;
  /** It matters for folders that are only read. */
  readonly readable: boolean;
}

interface Quota {
  readonly fileSystem: string;
  /** Bytes or files; the limit 0 means none. */
  readonly used: number;
  readonly limit: number;
  readonly of: "space" | "files";
}

export interface CheckedFolder {
  readonly what: string;
  readonly flag: string;
  readonly path: string;
  readonly written: boolean;
}

async function gatherStorage(
  folders: readonly CheckedFolder[],
  bytes: number,
  seconds: number,
  env: Readonly<Record<string, string>>,
): Promise<StorageFacts> {
  const places = folders.map(({ what, flag, path, written }): FolderFacts => {
    const folder = nearestFolder(path);
    const space = freeSpaceIn(folder);
    const size = Math.max(2 ** 20, Math.min(bytes, (space.free ?? bytes) / 10));
    return {
      what,
      flag,
      path,
      folder,
      kind: filesystemOf(folder, textIn("/proc/self/mountinfo")),
      ...space,
      probe: written ? probe(folder, size, seconds) : null,
      readable: isReadable(path),
    };
  });
  return { places, quotas: await quotasOf(places, env) };
}

function freeSpaceIn(folder: string): Pick<FolderFacts, "free" | "used" | "filesFree" | "files"> {
  try {
    const { bsize, blocks, bfree, bavail, files, ffree } = statfsSync(folder);
    const known = blocks > 0, counted = files > 0; // some network file systems do not say
    return {
      free: known ? bavail * bsize : null,
      used: known ? (blocks - bfree) * bsize : null,
      filesFree: counted ? ffree : null,
      files: counted ? files : null,
    };
  } catch {
    return { free: null, used: null, filesFree: null, files: null };
  }
}

function isReadable(path: string): boolean {
  try {
    if (Deno.statSync(path).isDirectory) [...Deno.readDirSync(path)];
    else Deno.openSync(path).close();
    return true;
  } catch {
    return false;
  }
}

/** The longest mount point above a folder in /proc/self/mountinfo decides. */
export function filesystemOf(folder: string, mounts: string): string {
  let best = "", kind = "";
  for (const line of mounts.split("\n")) {
    const [left, right] = line.split(" - ");
    const point = left.split(" ")[4]?.replaceAll("\\040", " ");
    if (right === undefined || point === undefined) continue;
    const above = point === "/" || folder === point || folder.startsWith(`${point}/`);
    if (above && point.length >= best.length) [best, kind] = [point, right.split(" ")[0]];
  }
  return kind;
}

async function quotasOf(
  places: readonly FolderFacts[],
  env: Readonly<Record<string, string>>,
): Promise<Quota[]> {
  const quota = onPath("quota", env), lfs = onPath("lfs", env);
  const user = env.USER || env.LOGNAME || String(Deno.uid());
  const onLustre = places.filter(({ kind }) => kind === "lustre").map(({ folder }) => folder);
  const answers = await Promise.all([
    // quota exits with 1 where one is used up, and its output counts.
    ...quota ? [programOutput("/bin/sh", ["-c", '"$0" -w -p; true', quota])] : [],
    ...lfs ? onLustre.map((folder) => programOutput(lfs, ["quota", "-q", "-u", user, folder])) : [],
  ]);
  return answers.flatMap((text) => quotasIn(text ?? ""));
}

/**
 * Lines are "FILESYSTEM used quota limit grace files quota limit grace" in KiB; a star marks what is over.
 */
export function quotasIn(text: string): Quota[] {
  return text.split("\n").flatMap((line) => {
    const [fileSystem, ...rest] = line.trim().split(/\s+/);
    if (rest.length < 7 || !/^\d+\*?$/.test(rest[0])) return [];
    const [used, soft, hard, , files, filesSoft, filesHard] = rest.map((word) =>
      Number(word.replace("*", ""))
    );
    const space = { fileSystem, used: used * 1024, limit: (hard || soft) * 1024, of: "space" as const };
    return [space, { fileSystem, used: files, limit: filesHard || filesSoft, of: "files" as const }];
  });
}

const NAME = "storage";
const FULL = 0.9, NOTHING = 16 * 2 ** 20, PLENTY = 2 ** 40;
/** Below these bytes a second checkpoints hold training up; a rename takes seconds at most. */
const SLOW = 30e6, SLOW_RENAME = 2;

export function judgeStorage({ places, quotas }: StorageFacts): Finding[] {
  return [...places.flatMap(judgeFolder), ...quotas.flatMap(judgeQuota)];
}

function judgeFolder(place: FolderFacts): Finding[] {
  const { what, flag, path, folder, kind, free, probe: made, readable } = place;
  const at = `${what} in ${path}`;
  const another = `name another folder with ${flag}`;
  if (made === null) {
    return [
      readable
        ? good(NAME, `${at}${kind && ` (${kind})`} can be read`)
        : bad(NAME, `${at} can't be read`, `Check the path, or ${another}.`),
    ];
  }
  if (made.refused !== null) {
    const whole = `${at} can't be written${folder === path ? "" : ` (${folder})`}: ${wordOf(made)}`;
    return [bad(NAME, whole, `${sentenceOf(made.refused)}${another}.`)];
  }
  const lines = [...judgeFreeSpace(place, another), ...judgeSpeed(place, made, another)];
  if (lines.length > 0) return lines;
  const left = free === null ? "room unknown" : `${formatBytes(free)} free`;
  return [good(NAME, `${at}${kind && ` (${kind})`}: ${left}, written at ${rateOf(made)}`)];
}

function judgeFreeSpace(
  { what, path, free, used, files, filesFree }: FolderFacts,
  another: string,
): Finding[] {
  const lines: Finding[] = [];
  const share = free === null || used === null ? 0 : used / Math.max(1, used + free);
  if (free !== null && free < NOTHING) {
    lines.push(
      bad(
        NAME,
        `${what} in ${path}: the disk is full, with ${formatBytes(free)} free`,
        `Free some, or ${another}.`,
      ),
    );
  } else if (free !== null && share >= FULL && free < PLENTY) {
    lines.push(warn(
      NAME,
      `${what} in ${path}: the disk is ${Math.floor(100 * share)}% full, with ${formatBytes(free)} free`,
      `Free some, or ${another}; a checkpoint is written beside the old one before that goes.`,
    ));
  }
  if (files && filesFree !== null && filesFree < (1 - FULL) * files && filesFree < 1e6) {
    const judge = filesFree === 0 ? bad : warn;
    lines.push(judge(
      NAME,
      `${what} in ${path}: ${filesFree} more files fit on the disk, whatever their size (df -i)`,
      `Remove some small files, or ${another}.`,
    ));
  }
  return lines;
}

function judgeSpeed({ what, path }: FolderFacts, made: StorageProbe, another: string): Finding[] {
  const slow = speedOf(made) < SLOW, slowRename = made.renameSeconds > SLOW_RENAME;
  if (!slow && !slowRename) return [];
  const saw = slow
    ? `${what} in ${path} are written at ${rateOf(made)}: a checkpoint of 1 GiB takes ${
      formatDuration(2 ** 30 / speedOf(made))
    }`
    : `${what} in ${path}: renaming a file takes ${formatDuration(made.renameSeconds)}`;
  return [
    warn(NAME, saw, `Somebody may be filling the file system; or ${another}, such as the project's scratch.`),
  ];
}

export const speedOf = ({ bytes, writeSeconds, syncSeconds }: StorageProbe): number =>
  bytes / Math.max(1e-6, writeSeconds + syncSeconds);
const rateOf = (made: StorageProbe): string => `${formatBytes(speedOf(made))}/s with fsync`;

const WORDS: Readonly<Record<string, string>> = {
  EROFS: "the file system is read-only",
  EACCES: "this user may not write there",
  EPERM: "this user may not write there",
  ENOSPC: "the disk is full",
  EDQUOT: "the quota is used up",
  ENOTDIR: "a part of the path is a file",
  EIO: "the disk has failed",
  ESTALE: "the file server has forgotten the folder",
};

const wordOf = ({ refused, at }: StorageProbe): string =>
  `${WORDS[refused!] ?? refused}${at === "write" ? "" : ` (at ${at})`}`;

function sentenceOf(refused: string): string {
  if (refused === "ENOSPC" || refused === "EDQUOT") return "Free some, or ";
  return refused === "EACCES" || refused === "EPERM" ? "Ask who owns it, or " : "Ask the site why, and ";
}

function judgeQuota({ fileSystem, used, limit, of }: Quota): Finding[] {
  if (limit === 0 || used < FULL * limit) return [];
  const show = of === "space" ? formatBytes : String;
  const judge = used >= limit ? bad : warn;
  const whole = `your quota of ${of} on ${fileSystem} is ${Math.floor(100 * used / limit)}% used: ${
    show(used)
  } of ${show(limit)}`;
  return [
    judge(NAME, whole, "Remove what you don't need there, or name a folder elsewhere with --save-dir."),
  ];
}

export interface StorageProbe {
  /** The error's code, such as "EROFS". */
  readonly refused: string | null;
  readonly at: "write" | "fsync" | "rename" | null;
  readonly bytes: number;
  /** It includes fsync. */
  readonly writeSeconds: number;
  readonly syncSeconds: number;
  readonly renameSeconds: number;
  /** The file server's clock is ahead of this machine's by these seconds. */
  readonly skew: number;
}

const PIECE = 2 ** 20;

/** A run makes the folders below it. */
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

/** It stops after `bytes` or `seconds`, and removes its file. */
export function probe(folder: string, bytes: number, seconds: number): StorageProbe {
  const owner = `${Deno.hostname()}-${Deno.pid}-${crypto.randomUUID().slice(0, 8)}`;
  const first = join(folder, `.hpctrain-doctor-${owner}`), second = `${first}-renamed`;
  const result = { refused: null, bytes: 0, writeSeconds: 0, syncSeconds: 0, renameSeconds: 0, skew: 0 };
  let at: StorageProbe["at"] = "write";
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
    // A difference within the time of writing shows nothing.
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
    return { ...result, refused: systemRefusal(error)?.code ?? messageOf(error), at };
  } finally {
    remove(first);
    remove(second);
  }
}

function stopwatch(): () => number {
  let last = performance.now();
  return () => {
    const now = performance.now(), seconds = (now - last) / 1000;
    last = now;
    return seconds;
  };
}

export const storageCheck = { gather: gatherStorage, judge: judgeStorage };
