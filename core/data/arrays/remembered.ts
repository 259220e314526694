// The user's cache keeps what was found out about files of data, under the hash of all that it depends on. Nothing but time
// depends on it: what is damaged, or can't be written, is found out again.
import { isFolder } from "../../base/files.ts";
import { join, resolve } from "../../../deps/path.ts";
import { cacheFolder } from "../../../ffi/libraries/find.ts";
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import { createHash } from "node:crypto";
import { commonFolder, filesNamed, isUrl } from "./paths.ts";

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

export const digest = (of: string | Uint8Array): string => createHash("sha256").update(of).digest("hex");

/** In a larger data set every name counts, but sizes and times only of so many files. */
const MOST_LOOKED_AT = 10_000;

/** It changes whenever a file at this path is added, removed, renamed or written. */
export function fingerprint(path: string): string {
  const names: string[] = [], known = new Set<string>();
  const visit = (name: string) => {
    if (!isFolder(name)) return void names.push(name);
    const real = Deno.realPathSync(name); // a link may lead back into a folder
    if (known.has(real)) return;
    known.add(real);
    // Hidden files are no samples.
    const inside = [...Deno.readDirSync(name)].filter((entry) => !entry.name.startsWith("."));
    for (const entry of inside.sort((a, b) => a.name < b.name ? -1 : 1)) {
      if (entry.isDirectory || entry.isSymlink) visit(join(name, entry.name));
      else names.push(join(name, entry.name));
    }
  };
  if (isUrl(path)) return digest(path);
  const files = filesNamed(path), root = files ? commonFolder(files) : path;
  if (files) { for (const file of files) visit(resolve(file)); }
  else visit(path);
  const hash = createHash("sha256");
  const step = Math.ceil(names.length / MOST_LOOKED_AT);
  names.forEach((name, i) => {
    hash.update(`${name.slice(root.length)}\n`);
    if (i % step !== 0) return;
    const { size, mtime } = Deno.statSync(name);
    hash.update(`${size} ${mtime?.getTime()}\n`);
  });
  return hash.digest("hex");
}
