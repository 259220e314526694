// sweep.json: what a sweep's runs are. Written once; how they stand is in the runs' own files.
// May import checkpoint/atomic, errors, @std/path.
import { join } from "../../../deps/path.ts";
import { writeAll, writeAtomically } from "../../checkpoint/atomic.ts";
import { UserError } from "../../errors.ts";

export interface SweepRun {
  readonly run: string;
  /** Flags of train. */
  readonly words: readonly string[];
  /** By the settings' names. */
  readonly values: Readonly<Record<string, string>>;
}

export interface Sweep {
  readonly format: 1;
  readonly version: string;
  readonly name: string;
  /** The command that made it. */
  readonly command: readonly string[];
  /** Parent of the runs' logs/ and checkpoints/. */
  readonly saveDir: string;
  readonly metric: string;
  readonly runs: readonly SweepRun[];
}

export const manifestIn = (folder: string): string => join(folder, "sweep.json");

export function writeSweep(folder: string, sweep: Sweep): void {
  try {
    Deno.mkdirSync(folder, { recursive: true });
    const text = new TextEncoder().encode(JSON.stringify(sweep, null, 1) + "\n");
    writeAtomically(manifestIn(folder), (file) => writeAll(file, text));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.split(" (os error")[0] : String(cause);
    throw new UserError(
      "usage",
      `The sweep can't be noted in ${folder}: ${why}. Name another folder with --save-dir DIR.`,
      { cause },
    );
  }
}

/** Null where there is none. */
export function readSweep(folder: string): Sweep | null {
  const path = manifestIn(folder);
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.NotADirectory) return null;
    throw new UserError("usage", `${path} can't be read: ${(cause as Error).message}.`, { cause });
  }
  let sweep: Sweep;
  try {
    sweep = JSON.parse(text);
  } catch (cause) {
    throw new UserError(
      "usage",
      `${path} is damaged: it is no JSON. Make the sweep again in another folder.`,
      { cause },
    );
  }
  const good = sweep?.format === 1 && Array.isArray(sweep.runs) &&
    sweep.runs.every(({ run, words }) => typeof run === "string" && Array.isArray(words));
  if (!good) throw new UserError("usage", `${path} is no sweep of this version of hpctrain.`);
  return sweep;
}

/** A sweep by its folder or its name below `sweeps`. */
export function findSweep(word: string, sweeps: string): { folder: string; sweep: Sweep } {
  for (const folder of [word, join(sweeps, word)]) {
    const sweep = readSweep(folder);
    if (sweep) return { folder, sweep };
  }
  const known = namesIn(sweeps);
  const hint = known.length > 0
    ? `The sweeps there are ${known.join(", ")}.`
    : `There is none below ${sweeps}.`;
  throw new UserError("usage", `${word} is no sweep: it has no sweep.json. ${hint}`);
}

export function namesIn(sweeps: string): string[] {
  try {
    return [...Deno.readDirSync(sweeps)].map(({ name }) => name).filter((name) =>
      readSweep(join(sweeps, name))
    ).sort();
  } catch {
    return []; // no such folder
  }
}
