// What the supervisor and its ranks tell each other through a private folder, because MPI's launchers stand between them:
// codes are changed there, signals and text delayed. May import errors.
import { join } from "../../../deps/path.ts";

/** How a rank ended, in its own words. A rank that was killed leaves none. */
export interface Ended {
  readonly code: number;
  /** Of an error; empty where there was none. */
  readonly reason: string;
  readonly host: string;
  /** Unix milliseconds. */
  readonly at: number;
}

/** The run that is being trained, as absolute paths. */
export interface RunPlaces {
  readonly run: string;
  readonly logs: string;
  readonly checkpoints: string;
}

/** Names a rank's own part of the folder; only ranks that `launch` started have it. */
export const VARIABLE = "HPCTRAIN_LAUNCH";

/** While the supervisor lives it holds this pipe. */
export const LEASH = "leash";
/** The supervisor's own words, as JSON: for lines that say how to go on. */
export const CALLED = "called";

export const rankFolder = (folder: string, rank: number): string => join(folder, String(rank));
export const FILES = {
  out: "out",
  err: "err",
  pid: "pid",
  cores: "cores",
  ended: "ended",
  run: "run",
} as const;

export function leave(folder: string, file: "ended" | "run", what: Ended | RunPlaces): void {
  const written = Deno.makeTempFileSync({ dir: folder }); // two threads may say it at once
  Deno.writeTextFileSync(written, JSON.stringify(what));
  Deno.renameSync(written, join(folder, FILES[file])); // there as a whole, or not at all
}

export const endOf = (folder: string, rank: number): Ended | null => found(rankFolder(folder, rank), "ended");
export const runOf = (folder: string, rank: number): RunPlaces | null =>
  found(rankFolder(folder, rank), "run");

export function pidOf(folder: string, rank: number): number | null {
  return Number(text(join(rankFolder(folder, rank), FILES.pid))?.trim()) || null;
}

function found<T>(folder: string, file: "ended" | "run"): T | null {
  const json = text(join(folder, FILES[file]));
  return json === null ? null : JSON.parse(json);
}

function text(path: string): string | null {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return null; // not there yet
  }
}
