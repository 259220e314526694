// The file by which rank 0 tells the others where it listens, and the job's secret where the environment has none:
// for its owner's eyes alone. May import address (types), checkpoint/atomic, errors.
import { dirname, join } from "../../../deps/path.ts";
import { UserError } from "../../errors.ts";
import { remove, temporaryFor } from "../../checkpoint/atomic.ts";
import type { Address } from "./address.ts";

export interface Published {
  readonly addresses: readonly Address[];
  readonly host: string;
  readonly pid: number;
  /** Null: it is in HPCTRAIN_SECRET. */
  readonly secret: string | null;
  /** Why rank 0 gave up before anybody could come. */
  readonly refused?: string;
}

export const rendezvousFile = (folder: string, job: string): string =>
  join(folder, `.rendezvous-${job}.json`);

export function publish(path: string, published: Published): void {
  const temporary = temporaryFor(path);
  try {
    Deno.mkdirSync(dirname(path), { recursive: true });
    Deno.writeTextFileSync(temporary, JSON.stringify(published), { mode: 0o600, createNew: true });
    Deno.renameSync(temporary, path);
  } catch (cause) {
    remove(temporary);
    throw new UserError(
      "communication",
      `${path}: rank 0 can't tell the other ranks there where it is: ${
        (cause as Error).message
      }. Name a folder that ` +
        "this user may write to with --save-dir.",
    );
  }
}

/** Null where it is not there yet, or is not whole. */
export function published(path: string): Published | null {
  let info: Deno.FileInfo, text: string;
  try {
    info = Deno.statSync(path);
    text = Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw unreadable(path, (error as Error).message);
  }
  // Somebody else's file would lead to somebody else's server.
  if (info.uid !== Deno.uid()) throw unreadable(path, "it belongs to another user");
  if (((info.mode ?? 0) & 0o077) !== 0) {
    throw unreadable(
      path,
      `other users may read or write it (mode ${((info.mode ?? 0) & 0o777).toString(8)})`,
    );
  }
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const unreadable = (path: string, why: string) =>
  new UserError(
    "communication",
    `${path}: rank 0 writes there where it is, but ${why}. Remove it, or give all ranks HPCTRAIN_SECRET, MASTER_ADDR ` +
      "and MASTER_PORT.",
  );
