// The files of a listing: their bytes, and what their headers say. May import reading, its siblings but no decoder.
import { BadSample } from "../reading/reader.ts";
import { headerOf } from "./header.ts";
import { type Listing, pathOf } from "./listing.ts";
import { openRoom, type Room } from "./room.ts";

/** Width and height of an image, without decoding it. */
export function sizeOf(listing: Listing, index: number): { path: string; width: number; height: number } {
  return naming(pathOf(listing, index), (path) => ({ path, ...headerOf(readFile(path, openRoom())) }));
}

/** A fault of the file that `use` reads becomes a fault of this path. */
export function naming<T>(path: string, use: (path: string) => T): T {
  try {
    return use(path);
  } catch (error) {
    if (error instanceof BadSample) throw new BadSample(path, error.reason, { cause: error });
    throw error;
  }
}

/** A file's bytes, as many as it has by now. */
export function readFile(path: string, room: Room): Uint8Array<ArrayBuffer> {
  let file: Deno.FsFile | null = null;
  try {
    file = Deno.openSync(path);
    const size = file.statSync().size;
    const bytes = room(size).subarray(0, size);
    let length = 0;
    for (let more: number | null = 1; more && length < size; length += more ?? 0) {
      more = file.readSync(bytes.subarray(length));
    }
    return bytes.subarray(0, length);
  } catch (cause) {
    const why = cause instanceof Deno.errors.PermissionDenied
      ? "can't be read: this user may not"
      : cause instanceof Deno.errors.NotFound
      ? "is no longer there"
      : `can't be read (${(cause as Error).message})`;
    throw new BadSample("", why, { cause });
  } finally {
    file?.close();
  }
}
