// A run's name and paths, which files of a folder of checkpoints are a run's, and whether the run that wrote a checkpoint
// is the one whose files lie here under its name.
import { basename, dirname, join } from "../../deps/path.ts";
import { isFailedStart } from "../run/lineage.ts";
import { readEventLines } from "../run/event_log.ts";
import { decodeEvent } from "../run/events.ts";
import { bestName, readBestName } from "../checkpoint/best_files.ts";
import { readEpochName, SHARED_NAME } from "../checkpoint/epoch_files.ts";
import { indexOf } from "../checkpoint/sharded_reader.ts";
import { openCheckpoint, toJson } from "../checkpoint/open.ts";
import type { Value } from "../checkpoint/value.ts";
import type { Config } from "../settings/settings.ts";
import { FILE_NAME, RUN_ID } from "../settings/sections/run.ts";
import { isSamePath, pathExists } from "../base/files.ts";
import { UserError } from "../base/errors.ts";

export interface RunPaths {
  readonly run: string;
  readonly logs: string;
  readonly checkpoints: string;
  /** It shows the checkpoints' format. */
  readonly ending: string;
  /** This run's checkpoints of epochs that an older version wrote, without the run in their names. */
  readonly older: readonly string[];
}

const ENDINGS = ["pt", "safetensors", "ckpt"];

/**
 * A new run never writes over another's files: it is "name-2". A failed start leaves its name free; `passed`
 * names stay taken.
 */
export function runPathsOf(
  config: Config,
  preset: string | null,
  resumed: string | null,
  passed: ReadonlySet<string> = new Set(),
): RunPaths {
  const ending = config.output.checkpoint_format === "sharded" ? "ckpt" : config.output.checkpoint_format;
  const at = (run: string): RunPaths => ({ run, ...foldersOf(config, run), ending, older: [] });
  if (resumed !== null) return at(resumed);
  const base = baseName(config, preset);
  for (let n = 1;; n++) {
    const places = at(n === 1 ? base : `${base}-${n}`);
    const free = !pathExists(places.logs) || isFailedStart(places.logs);
    if (free && !passed.has(places.run) && !isTaken(places)) return places;
  }
}

export function foldersOf(
  { output: { save_dir, model_dir } }: Config,
  run: string,
): Pick<RunPaths, "logs" | "checkpoints"> {
  return { logs: join(save_dir, "logs", run), checkpoints: model_dir || join(save_dir, "checkpoints") };
}

/** A run of the plain name would have the names of other runs' links. */
export const isTaken = ({ checkpoints, run }: Pick<RunPaths, "checkpoints" | "run">): boolean =>
  run === SHARED_NAME || checkpointFiles(checkpoints, run).length > 0;

/** The paths of all checkpoints that have this run in their names. */
const checkpointFiles = (checkpoints: string, run: string): string[] =>
  listed(checkpoints).filter((name) => isNamed(name, run)).map((name) => join(checkpoints, name)).filter(
    pathExists,
  );

/** While a run trains, this note keeps its name for it. */
export const claimOf = ({ checkpoints, run }: Pick<RunPaths, "checkpoints" | "run">): string =>
  join(checkpoints, `.${run}.claim`);

const isNamed = (name: string, run: string): boolean =>
  [`${run}_best`, `${run}_latest`].includes(stem(name)) || readEpochName(name)?.run === run ||
  readBestName(name) === run;

/** "name-2" counts, unless somebody named a run so: a checkpoint has the name in `givenName`. */
export function newestRun(
  config: Config,
  preset: string | null,
  givenName: (path: string) => unknown,
): { run: string; path: string } | null {
  const base = baseName(config, preset);
  const { checkpoints } = foldersOf(config, base);
  const logsOf = (run: string) => foldersOf(config, run).logs;
  // In a folder of checkpoints that others use too, a run has its logs here, unless all were taken away.
  const shared = !isSamePath(checkpoints, join(config.output.save_dir, "checkpoints")) &&
    listed(dirname(logsOf(base))).some((run) => isOf(base, run));
  // A run whose latest was taken away still has its best.
  return newestOf(/^(.*)_latest\.(?:pt|safetensors|ckpt)$/) ??
    newestOf(/^(.*)_best\.(?:pt|safetensors|ckpt)$/);

  function newestOf(named: RegExp): { run: string; path: string } | null {
    let newest: { run: string; path: string; at: number } | null = null;
    for (const name of listed(checkpoints)) {
      const run = named.exec(name)?.[1];
      if (run === undefined || !isOf(base, run) || (shared && !pathExists(logsOf(run)))) continue;
      const path = join(checkpoints, name);
      const at = writtenAt(path);
      if (at === null || newest !== null && at <= newest.at) continue;
      if (run === base || givenName(path) !== run) newest = { run, path, at };
    }
    return newest;
  }
}

const isOf = (base: string, run: string): boolean =>
  run === base || (run.startsWith(`${base}-`) && /^\d+$/.test(run.slice(base.length + 1)));

export const isCalled = (config: Config, preset: string | null, run: string): boolean =>
  isOf(baseName(config, preset), run);

export function latestOf(config: Config, run: string): string | null {
  const { checkpoints } = foldersOf(config, run);
  const names = ["latest", "best"].flatMap((which) => ENDINGS.map((ending) => `${run}_${which}.${ending}`));
  return names.map((name) => join(checkpoints, name)).find((path) => writtenAt(path) !== null) ?? null;
}

/** The newest comes first. A plain name that is a link only leads to a file with its run's name. */
export function checkpointsOf(latest: string, run: string): string[] {
  const folder = dirname(latest);
  return [...listed(folder).filter((name) => isNamed(name, run)), ...plainEpochs(folder)]
    .flatMap((name) => {
      const path = join(folder, name), written = path === latest ? null : writtenAt(path);
      return written === null ? [] : [{ path, written }];
    })
    .sort((a, b) => b.written - a.written)
    .map(({ path }) => path);
}

/** Checkpoints of epochs that an older version wrote, of whatever run. */
export const plainEpochs = (folder: string): string[] =>
  entriesOf(folder).filter(({ name, isSymlink }) => !isSymlink && readEpochName(name)?.run === SHARED_NAME)
    .map(({ name }) => name);

/** In milliseconds; null for a dead link, and where no save was finished. */
export function writtenAt(path: string): number | null {
  try {
    const folder = Deno.statSync(path).isDirectory;
    return Deno.statSync(folder ? indexOf(path) ?? "" : path).mtime?.getTime() ?? 0;
  } catch {
    return null;
  }
}

/** Empty for files that are no checkpoints. */
const stem = (name: string): string => {
  const ending = ENDINGS.find((ending) => name.endsWith(`.${ending}`));
  return ending === undefined ? "" : name.slice(0, -ending.length - 1);
};

export const latestPath = (p: RunPaths): string => join(p.checkpoints, `${p.run}_latest.${p.ending}`);

export const bestPath = (p: RunPaths): string => join(p.checkpoints, bestName(p.run, null, p.ending));

function baseName(config: Config, preset: string | null): string {
  if (config.output.run_name) return config.output.run_name;
  if (preset) return preset;
  const model = config.model.name.slice(config.model.name.lastIndexOf("/") + 1).replace(/\.\w+$/, "");
  return config.data.type === "auto" ? model : `${model}-${config.data.type}`;
}

const listed = (folder: string): string[] => entriesOf(folder).map(({ name }) => name);

function entriesOf(folder: string): Deno.DirEntry[] {
  try {
    return [...Deno.readDirSync(folder)];
  } catch {
    return []; // no folder
  }
}

export interface CheckpointRun {
  /** Null in a file that hpctrain did not write. */
  readonly run: string | null;
  readonly step: number;
  readonly saved: unknown;
  readonly wandb?: string;
}

export function checkpointRun(path: string, verify = true): CheckpointRun {
  using file = openCheckpoint(path);
  if (verify) file.verify();
  const own = file.root instanceof Map ? file.root.get("hpctrain") : undefined;
  if (!(own instanceof Map)) return { run: null, step: 0, saved: null };
  const run = own.get("run");
  const cursor = own.get("cursor");
  if (typeof run === "string" && FILE_NAME.regex.test(run)) {
    const step = Number(cursor instanceof Map ? cursor.get("step") : 0);
    const id = own.get("wandb_run_id");
    const wandb = typeof id === "string" && RUN_ID.regex.test(id) ? id : undefined; // it becomes a part of a path
    return { run, step, saved: settingsIn(file.root), wandb };
  }
  throw new UserError(
    "checkpoint",
    `${path}: its run has no name that files can have, so hpctrain did not write it: ` +
      `to start from its weights, use --init-from ${path}.`,
  );
}

export const nameIn = (saved: unknown): unknown => (saved as Config | null)?.output?.run_name;

export const settingsIn = (root: Value): unknown =>
  root instanceof Map ? toJson(root.get("config") ?? null, true) : null;

/** Null for a file that can't be read, too. */
export function readableRun(path: string): CheckpointRun | null {
  try {
    return checkpointRun(path, false);
  } catch {
    return null;
  }
}

interface Written {
  readonly path: string;
  readonly run: string;
  readonly wandb?: string | null;
}

/**
 * True where what lies here under the run's name is another's, by the id at W&B or by the folders: a checkpoint of
 * the run lies beside its others, and its logs tell in which folder.
 */
export function isAnothers(config: Config, { path, run, wandb }: Written): boolean {
  if (run === SHARED_NAME) return true;
  const { logs, checkpoints } = foldersOf(config, run);
  const files = checkpointFiles(checkpoints, run);
  if (files.length === 0 && !pathExists(logs)) return pathExists(claimOf({ checkpoints, run }));
  if (wandb && (notedId(logs) === wandb || files.some((file) => readableRun(file)?.wandb === wandb))) {
    return false;
  }
  const home = homeOf(logs);
  const ofLogs = home === null || isSamePath(home, checkpoints) || checkpointFiles(home, run).length === 0; // they were moved
  if (
    namesOf(path).some((name) => isSamePath(dirname(name), checkpoints) && isOwnName(basename(name), run))
  ) {
    return !ofLogs;
  }
  return !(files.length === 0 && home !== null && isSamePath(home, dirname(path)));
}

/** Where it lies, as a folder if its index was named, and where a link to it leads. */
function namesOf(path: string): string[] {
  const own = indexOf(path) === path ? dirname(path) : path;
  return pathExists(own) ? [own, Deno.realPathSync(own)] : [own];
}

const isOwnName = (name: string, run: string): boolean =>
  isNamed(name, run) || readEpochName(name)?.run === SHARED_NAME;

/** The folder of checkpoints that a run's logs name; null where they name none. */
function homeOf(logs: string): string | null {
  let home: string | null = null;
  try {
    for (const line of readEventLines(join(logs, "events.jsonl"))) {
      const event = line.includes('"config"') ? decodeEvent(line) : null;
      if (event?.kind !== "config") continue;
      home = (event.config as Config).output.model_dir || join(logs, "../../checkpoints");
    }
  } catch {
    // There are no logs, or none that can be read.
  }
  return home;
}

/** The id of a run that ended before its first save is here alone. */
function notedId(logs: string): string | null {
  try {
    return JSON.parse(Deno.readTextFileSync(join(logs, "wandb.json"))).id;
  } catch {
    return null;
  }
}
