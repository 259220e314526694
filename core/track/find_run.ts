// Which run is meant: by its name, its folder, or as the newest. May import core/errors.ts and @std/path.
import { basename, dirname, join, normalize } from "../../deps/path.ts";
import { UserError } from "../errors.ts";

/** The word for the run that wrote last. */
export const NEWEST = "newest";

/** The run's folder, which has an events.jsonl. `saveDir` is the parent of logs/. */
export function findRun(word: string, saveDir = "."): string {
  const logs = join(saveDir, "logs");
  if (word === NEWEST && !hasEvents(join(logs, word))) return newest(logs);
  const places = [join(logs, word), word, join(word, "logs")];
  if (basename(word) === "events.jsonl") places.unshift(dirname(word));
  for (const place of places.map((one): string => normalize(one))) {
    if (hasEvents(place)) return place.replace(/(.)\/$/, "$1");
  }
  const known = runsIn(logs);
  const hint = known.length === 0
    ? `There is no run below ${logs}; --save-dir DIR names the folder that a run was given.`
    : `The runs there are ${known.slice(0, 8).map(({ name }) => name).join(", ")}${
      known.length > 8 ? ", ..." : ""
    }.`;
  throw new UserError(
    "usage",
    `${word} is no run: neither ${join(logs, word)} nor ${word} has an events.jsonl. ${hint}`,
  );
}

function newest(logs: string): string {
  const [found] = runsIn(logs);
  if (found) return join(logs, found.name);
  throw new UserError(
    "usage",
    `There is no run below ${logs}. Name a run's folder, or with --save-dir DIR the folder that it was given.`,
  );
}

/** Newest first. */
export function runsIn(logs: string): { name: string; written: number }[] {
  let names: string[];
  try {
    names = [...Deno.readDirSync(logs)].map(({ name }) => name);
  } catch {
    return []; // no such folder, or none of ours
  }
  return names.flatMap((name) => {
    const written = writtenAt(join(logs, name, "events.jsonl"));
    return written === null ? [] : [{ name, written }];
  }).sort((a, b) => b.written - a.written);
}

const hasEvents = (folder: string): boolean => writtenAt(join(folder, "events.jsonl")) !== null;

function writtenAt(path: string): number | null {
  try {
    const { isFile, mtime } = Deno.statSync(path);
    return isFile ? mtime?.getTime() ?? 0 : null;
  } catch {
    return null;
  }
}
