// Statistics kept beside the data: found again by a hash of what they are of. May import checkpoint's atomic writer and
// ffi's place for caches.
import { createHash } from "node:crypto";
import { join } from "../../../deps/path.ts";
import { cacheFolder } from "../../../ffi/libraries/places.ts";
import { writeAll, writeAtomically } from "../../checkpoint/atomic.ts";
import { isFolder } from "../files.ts";

/** One number a channel. */
export interface Statistics {
  readonly samples: number;
  readonly mean: readonly number[];
  readonly std: readonly number[];
  readonly min: readonly number[];
  readonly max: readonly number[];
  /** How often each class is the target; null where the target is no class. */
  readonly classes: readonly number[] | null;
}

const FORMAT = "hpctrain statistics 1";
/** Of so many splits and settings; the oldest goes first. */
const MOST_ENTRIES = 16;
/** Of a larger data set every name counts, and the size and time of so many files. */
const MOST_LOOKED_AT = 10_000;

interface Entry {
  readonly of: string;
  readonly sum: string;
  readonly statistics: Statistics;
}

export const digest = (of: string | Uint8Array): string => createHash("sha256").update(of).digest("hex");

/** Where they may be: beside the data, or in the user's cache where this user may not write there. */
export function placesFor(path: string, env = Deno.env.toObject()): string[] {
  const real = Deno.realPathSync(path);
  const beside = isFolder(real)
    ? join(real, ".hpctrain-statistics.json")
    : `${real}.hpctrain-statistics.json`;
  return [beside, join(cacheFolder(env), "statistics", `${digest(real).slice(0, 32)}.json`)];
}

/** Changes whenever a file at this path is added, removed, renamed or written. */
export function fingerprint(path: string): string {
  const names: string[] = [];
  const visit = (name: string) => {
    if (!isFolder(name)) return void names.push(name);
    // Hidden files are nobody's samples, and one of them is the cache itself.
    const inside = [...Deno.readDirSync(name)].filter((entry) => !entry.name.startsWith("."));
    for (const entry of inside.sort((a, b) => a.name < b.name ? -1 : 1)) {
      if (entry.isDirectory || entry.isSymlink) visit(join(name, entry.name));
      else names.push(join(name, entry.name));
    }
  };
  visit(path);
  const hash = createHash("sha256");
  const step = Math.ceil(names.length / MOST_LOOKED_AT);
  names.forEach((name, i) => {
    hash.update(`${name.slice(path.length)}\n`);
    if (i % step !== 0) return;
    const { size, mtime } = Deno.statSync(name);
    hash.update(`${size} ${mtime?.getTime()}\n`);
  });
  return hash.digest("hex");
}

export interface Found {
  readonly statistics: Statistics | null;
  /** A file that was no use, to be told. */
  readonly damaged: string | null;
}

export function lookUp(places: readonly string[], of: string): Found {
  let damaged: string | null = null;
  for (const place of places) {
    const entries = read(place);
    const found = entries?.find((entry) => entry?.of === of);
    if (found && found.sum === digest(JSON.stringify(found.statistics))) {
      return { statistics: found.statistics, damaged };
    }
    if (found || entries === null) damaged = place;
  }
  return { statistics: null, damaged };
}

/** The place they were kept in, or null where none could be written: nothing is lost but time. */
export function remember(places: readonly string[], of: string, statistics: Statistics): string | null {
  const entry: Entry = { of, sum: digest(JSON.stringify(statistics)), statistics };
  for (const place of places) {
    const others = (read(place) ?? []).filter((other) => other?.of !== of).slice(1 - MOST_ENTRIES);
    const text = JSON.stringify({ format: FORMAT, entries: [...others, entry] }, null, 1) + "\n";
    try {
      writeAtomically(place, (file) => writeAll(file, new TextEncoder().encode(text)));
      return place;
    } catch {
      continue;
    }
  }
  return null;
}

/** Empty where there is no such file, null where it is none of ours. */
function read(place: string): Entry[] | null {
  let text: string;
  try {
    text = Deno.readTextFileSync(place);
  } catch {
    return [];
  }
  try {
    const { format, entries } = JSON.parse(text);
    return format === FORMAT && Array.isArray(entries) ? entries : null;
  } catch {
    return null;
  }
}
