// A run's name and paths, and which files of a folder of checkpoints are a run's.
import { dirname, join } from "../../deps/path.ts";
import { isFailedStart } from "../run/lineage.ts";
import { type EpochFiles, epochName, readEpochName, SHARED_NAME } from "../checkpoint/epoch_files.ts";
import { indexOf } from "../checkpoint/sharded_reader.ts";
import type { Config } from "../settings/settings.ts";
import { isSamePath, pathExists } from "../base/files.ts";

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
export const checkpointFiles = (checkpoints: string, run: string): string[] =>
  listed(checkpoints).filter((name) => isNamed(name, run)).map((name) => join(checkpoints, name)).filter(
    pathExists,
  );

/** While a run trains, this note keeps its name for it. */
export const claimOf = ({ checkpoints, run }: Pick<RunPaths, "checkpoints" | "run">): string =>
  join(checkpoints, `.${run}.claim`);

export const isNamed = (name: string, run: string): boolean =>
  [`${run}_best`, `${run}_latest`].includes(stem(name)) || readEpochName(name)?.run === run;

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
export const bestPath = (p: RunPaths): string => join(p.checkpoints, `${p.run}_best.${p.ending}`);
export const epochPath = (p: RunPaths, epoch: number): string =>
  join(p.checkpoints, epochName(p.run, epoch, p.ending));
export const epochFiles = (
  { checkpoints: folder, run, ending, older }: RunPaths,
  epoch: number,
  keep: number,
): EpochFiles => ({ folder, run, epoch, ending, keep, older });

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
