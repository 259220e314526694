// The user's cache keeps what was found out about files of data, under the hash of all that it depends on. Nothing but time
// depends on it: what is damaged, or can't be written, is found out again.
import { join } from "../../../deps/path.ts";
import { cacheFolder } from "../../../ffi/libraries/find.ts";
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import { digest } from "../transforms/statistics.ts";

/** The oldest go first. */
const MOST_FILES = 512;

const folderOf = (kind: string) => join(cacheFolder(Deno.env.toObject()), kind);
const placeOf = (kind: string, of: string) => join(folderOf(kind), `${digest(of).slice(0, 32)}.json`);

export function recall(kind: string, of: string): unknown {
  try {
    const found = JSON.parse(Deno.readTextFileSync(placeOf(kind, of)));
    return found.of === digest(of) && found.sum === digest(JSON.stringify(found.value)) ? found.value : null;
  } catch {
    return null;
  }
}

export function remember(kind: string, of: string, value: unknown): void {
  const text = JSON.stringify({ of: digest(of), sum: digest(JSON.stringify(value)), value });
  try {
    removeOldest(folderOf(kind));
    writeAtomically(placeOf(kind, of), (file) => writeAll(file, new TextEncoder().encode(text)), {
      sync: false,
    });
  } catch {
    // Only time is lost.
  }
}

export function removeOldest(folder: string, most = MOST_FILES): void {
  let paths: string[];
  try {
    paths = [...Deno.readDirSync(folder)].map(({ name }) => join(folder, name));
  } catch {
    return; // nothing is there yet
  }
  if (paths.length < most) return;
  const written = new Map(paths.map((path) => [path, Deno.statSync(path).mtime?.getTime() ?? 0]));
  paths.sort((a, b) => written.get(a)! - written.get(b)!);
  for (const path of paths.slice(0, paths.length - most + 1)) Deno.removeSync(path);
}
