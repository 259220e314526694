// The name of a run, and where its files lie. May import checkpoint, config.
import { dirname, join } from "../../deps/path.ts";
import { isFailedStart } from "../track/lineage.ts";
import { indexOf } from "../checkpoint/sharded/read.ts";
import type { Config } from "../config/settings.ts";

export interface Places {
  readonly run: string;
  readonly logs: string;
  readonly checkpoints: string;
  /** Of its checkpoints' names: their format. */
  readonly ending: string;
}

const ENDINGS = ["pt", "safetensors", "ckpt"];

/**
 * A new run never writes over another's files: "name", then "name-2", "name-3". A resumed one keeps its name. A start that
 * failed before its first step leaves the name free; `passed` are names that are not.
 */
export function placesOf(
  config: Config,
  preset: string | null,
  resumed: string | null,
  passed: ReadonlySet<string> = new Set(),
): Places {
  const { save_dir, model_dir, run_name, checkpoint_format: format } = config.output;
  const ending = format === "sharded" ? "ckpt" : format;
  const checkpoints = model_dir || join(save_dir, "checkpoints");
  const at = (run: string): Places => ({ run, logs: join(save_dir, "logs", run), checkpoints, ending });
  if (resumed !== null) return at(resumed);
  const base = baseName(config, preset, run_name);
  for (let n = 1;; n++) {
    const places = at(n === 1 ? base : `${base}-${n}`);
    const taken = ENDINGS.some((other) => exists(latestPath({ ...places, ending: other })));
    const free = !exists(places.logs) || isFailedStart(places.logs) && !passed.has(places.run);
    if (free && !taken) return places;
  }
}

/**
 * The newest run with this name that has a checkpoint, for `--resume auto`. "name-2" is one, unless somebody
 * named a run so: `givenName` tells the name asked for in the run of a checkpoint.
 */
export function newestRun(
  config: Config,
  preset: string | null,
  givenName: (path: string) => unknown,
): { run: string; path: string } | null {
  const base = baseName(config, preset, config.output.run_name);
  const checkpoints = config.output.model_dir || join(config.output.save_dir, "checkpoints");
  // A run whose latest was taken away still has its best.
  return newestOf(/^(.*)_latest\.(?:pt|safetensors|ckpt)$/) ??
    newestOf(/^(.*)_best\.(?:pt|safetensors|ckpt)$/);

  function newestOf(named: RegExp): { run: string; path: string } | null {
    let newest: { run: string; path: string; at: number } | null = null;
    for (const name of listed(checkpoints)) {
      const run = named.exec(name)?.[1];
      if (run === undefined || !isOf(base, run)) continue;
      const path = join(checkpoints, name);
      const at = writtenAt(path);
      if (at === null || newest !== null && at <= newest.at) continue;
      if (run === base || givenName(path) !== run) newest = { run, path, at };
    }
    return newest;
  }
}

/** "name", "name-2": what runs that are asked for alike are called. */
const isOf = (base: string, run: string): boolean =>
  run === base || (run.startsWith(`${base}-`) && /^\d+$/.test(run.slice(base.length + 1)));

/** Whether a run of these settings could be called so. */
export const isCalled = (config: Config, preset: string | null, run: string): boolean =>
  isOf(baseName(config, preset, config.output.run_name), run);

/** The last checkpoint of the run of this name; null without one. */
export function latestOf({ output: { save_dir, model_dir } }: Config, run: string): string | null {
  const checkpoints = model_dir || join(save_dir, "checkpoints");
  const names = ["latest", "best"].flatMap((which) => ENDINGS.map((ending) => `${run}_${which}.${ending}`));
  return names.map((name) => join(checkpoints, name)).find((path) => writtenAt(path) !== null) ?? null;
}

/** Checkpoints beside a run's latest that may be its own, newest first. */
export function checkpointsOf(latest: string, run: string): string[] {
  const folder = dirname(latest);
  return listed(folder)
    .filter((name) =>
      [`${run}_best`, `${run}_latest`].includes(stem(name)) || /^checkpoint_epoch_\d+$/.test(stem(name))
    )
    .map((name) => join(folder, name))
    .filter((path) => path !== latest && writtenAt(path) !== null)
    .sort((a, b) => writtenAt(b)! - writtenAt(a)!);
}

/** Null for a link to nowhere, and for a folder in which no save was finished. */
function writtenAt(path: string): number | null {
  try {
    const folder = Deno.statSync(path).isDirectory;
    return Deno.statSync(folder ? indexOf(path) ?? "" : path).mtime?.getTime() ?? 0;
  } catch {
    return null;
  }
}

/** A checkpoint's name without the ending that says its format; of other files, nothing. */
const stem = (name: string): string => {
  const ending = ENDINGS.find((ending) => name.endsWith(`.${ending}`));
  return ending === undefined ? "" : name.slice(0, -ending.length - 1);
};

export const latestPath = (p: Places): string => join(p.checkpoints, `${p.run}_latest.${p.ending}`);
export const bestPath = (p: Places): string => join(p.checkpoints, `${p.run}_best.${p.ending}`);
export const epochPath = (p: Places, epoch: number): string =>
  join(p.checkpoints, `checkpoint_epoch_${epoch}.${p.ending}`);

/** Whether there are checkpoints of single epochs, whose names have no run in them. */
export const hasEpochs = ({ output: { save_dir, model_dir } }: Config): boolean =>
  listed(model_dir || join(save_dir, "checkpoints")).some((name) => /^checkpoint_epoch_\d+\./.test(name));

function baseName(config: Config, preset: string | null, asked: string): string {
  if (asked) return asked;
  if (preset) return preset;
  const model = config.model.name.split("/").at(-1)!.replace(/\.\w+$/, "");
  return config.data.type === "auto" ? model : `${model}-${config.data.type}`;
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false; // an unreadable place is refused later, by whoever writes there
  }
}

function listed(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map((entry) => entry.name);
  } catch {
    return []; // no folder, no runs
  }
}
