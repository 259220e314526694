// The state of an upload beside the .wandb file, by which it is also locked.
import { dirname } from "../../../../deps/path.ts";
import { holdFile, holdFolder, readText } from "../../../base/files.ts";

/** `wandb sync` writes the first step and time that the server wants in this form. */
export interface SyncStart {
  readonly step: number;
  readonly runtime: number;
}

export const LINE_KINDS = ["history", "events", "output"] as const;
export type LineCounts = Record<typeof LINE_KINDS[number], number>;

export interface UploadState {
  /** The target is address, entity, project and id; other targets' state does not count. */
  readonly to: string;
  /** The file's first line has these numbers at the server. */
  base: LineCounts;
  sent: LineCounts;
  lastStep: number | null;
  alerts: number;
}

const syncedPath = (wandb: string): string => `${wandb}.synced`;
const startPath = (wandb: string): string => `${wandb}.syncstate`;
const uploadedPath = (wandb: string): string => `${wandb}.uploaded.json`;

export const isSynced = (wandb: string): boolean => readText(syncedPath(wandb)) !== null;

export const markSynced = (wandb: string): void => Deno.writeTextFileSync(syncedPath(wandb), "");

export function readStart(wandb: string): SyncStart | null {
  const found = object(readText(startPath(wandb)));
  const step = safeInteger(found?.starting_step), runtime = found?.starting_runtime;
  return step === null ? null : { step, runtime: typeof runtime === "number" ? runtime : 0 };
}

export const writeStart = (wandb: string, { step, runtime }: SyncStart): void =>
  Deno.writeTextFileSync(
    startPath(wandb),
    JSON.stringify({ starting_step: step, starting_runtime: runtime }),
  );

export const uploadedStep = (wandb: string): number | null =>
  uploadedOf(object(readText(uploadedPath(wandb))))?.lastStep ?? null;

export interface UploadLock {
  readonly known: UploadState | null;
  /** Returns false where it can't be written: an interrupted upload then relies on the server. */
  write(state: UploadState): boolean;
  close(): void;
}

/** Returns null where another process uploads this file now. */
export function lockUpload(wandb: string): UploadLock | null {
  const path = uploadedPath(wandb);
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path, { read: true, write: true, create: true });
  } catch {
    // In a read-only folder no other upload can write either, so no lock is needed.
    return { known: uploadedOf(object(readText(path))), write: () => false, close() {} };
  }
  const release = holdFile(path, dirname(path));
  if (release === null) {
    file.close();
    return null;
  }
  return {
    known: uploadedOf(object(readText(path))),
    write(state) {
      try {
        const bytes = new TextEncoder().encode(JSON.stringify(state) + "\n");
        file.seekSync(0, Deno.SeekMode.Start);
        for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
        file.truncateSync(bytes.length);
        return true;
      } catch {
        return false;
      }
    },
    close() {
      file.close();
      release();
    },
  };
}

export function isBeingWritten(wandb: string): boolean {
  const release = holdFolder(dirname(wandb));
  release?.();
  return release === null;
}

function object(text: string | null): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text ?? "null");
    return typeof value === "object" && value !== null ? value as Record<string, unknown> : null;
  } catch {
    return null; // cut by a kill: the server knows
  }
}

const safeInteger = (value: unknown): number | null =>
  typeof value === "number" && Number.isSafeInteger(value) ? value : null;

function uploadedOf(found: Record<string, unknown> | null): UploadState | null {
  if (found === null) return null;
  const { to, base, sent, lastStep, alerts } = found;
  const isCounts = (value: unknown): value is LineCounts =>
    LINE_KINDS.every((kind) => Number.isSafeInteger((value as LineCounts | null)?.[kind]));
  if (typeof to !== "string" || !isCounts(base) || !isCounts(sent)) return null;
  return {
    to,
    base,
    sent,
    lastStep: safeInteger(lastStep),
    alerts: safeInteger(alerts) ?? 0,
  };
}
