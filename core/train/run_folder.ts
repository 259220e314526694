// A run's name and paths, and its folder claimed for this process.
import { dirname, join } from "../../deps/path.ts";
import { isFailedStart, lineagePath } from "../run/lineage.ts";
import { indexOf } from "../checkpoint/sharded_reader.ts";
import type { Config } from "../settings/settings.ts";
import { lockFolder, pathExists } from "../base/files.ts";
import { remove } from "../base/atomic.ts";
import { UserError } from "../base/errors.ts";
import type { Resume } from "./resume.ts";

export interface RunPaths {
  readonly run: string;
  readonly logs: string;
  readonly checkpoints: string;
  /** It shows the checkpoints' format. */
  readonly ending: string;
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
  const { save_dir, model_dir, run_name, checkpoint_format: format } = config.output;
  const ending = format === "sharded" ? "ckpt" : format;
  const checkpoints = model_dir || join(save_dir, "checkpoints");
  const at = (run: string): RunPaths => ({ run, logs: join(save_dir, "logs", run), checkpoints, ending });
  if (resumed !== null) return at(resumed);
  const base = baseName(config, preset, run_name);
  for (let n = 1;; n++) {
    const places = at(n === 1 ? base : `${base}-${n}`);
    const taken = ENDINGS.some((other) => exists(latestPath({ ...places, ending: other })));
    const free = !exists(places.logs) || isFailedStart(places.logs) && !passed.has(places.run);
    if (free && !taken) return places;
  }
}

/** "name-2" counts, unless somebody named a run so: a checkpoint has the name in `givenName`. */
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

const isOf = (base: string, run: string): boolean =>
  run === base || (run.startsWith(`${base}-`) && /^\d+$/.test(run.slice(base.length + 1)));

export const isCalled = (config: Config, preset: string | null, run: string): boolean =>
  isOf(baseName(config, preset, config.output.run_name), run);

export function latestOf({ output: { save_dir, model_dir } }: Config, run: string): string | null {
  const checkpoints = model_dir || join(save_dir, "checkpoints");
  const names = ["latest", "best"].flatMap((which) => ENDINGS.map((ending) => `${run}_${which}.${ending}`));
  return names.map((name) => join(checkpoints, name)).find((path) => writtenAt(path) !== null) ?? null;
}

/** The newest comes first. */
export function checkpointsOf(latest: string, run: string): string[] {
  const folder = dirname(latest);
  return listed(folder)
    .filter((name) =>
      [`${run}_best`, `${run}_latest`].includes(stem(name)) || /^checkpoint_epoch_\d+$/.test(stem(name))
    )
    .flatMap((name) => {
      const path = join(folder, name), written = path === latest ? null : writtenAt(path);
      return written === null ? [] : [{ path, written }];
    })
    .sort((a, b) => b.written - a.written)
    .map(({ path }) => path);
}

/** Null for a dead link, and where no save was finished. */
function writtenAt(path: string): number | null {
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
  join(p.checkpoints, `checkpoint_epoch_${epoch}.${p.ending}`);

export const hasEpochs = ({ output: { save_dir, model_dir } }: Config): boolean =>
  listed(model_dir || join(save_dir, "checkpoints")).some((name) => /^checkpoint_epoch_\d+\./.test(name));

function baseName(config: Config, preset: string | null, given: string): string {
  if (given) return given;
  if (preset) return preset;
  const model = config.model.name.slice(config.model.name.lastIndexOf("/") + 1).replace(/\.\w+$/, "");
  return config.data.type === "auto" ? model : `${model}-${config.data.type}`;
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false; // whoever writes there refuses an unreadable place
  }
}

function listed(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map((entry) => entry.name);
  } catch {
    return []; // no folder
  }
}

interface Claim {
  readonly config: Config;
  readonly preset: string | null;
  readonly resume: Resume | null;
  readonly again?: string | null;
}

/** No other process writes there meanwhile. */
export function claim({ config, preset, resume, again }: Claim): RunPaths {
  const own = resume?.run ?? again ?? null;
  const passed = new Set<string>();
  for (;;) {
    const places = runPathsOf(config, preset, own, passed);
    refuseUnwritable(places.checkpoints);
    const fresh = makeLogs(places.logs, own === null);
    const locked = lockFolder(places.logs);
    if (!fresh) { // a start failed, or another run took the name just now
      if (locked && isFailedStart(places.logs)) return cleared(places);
      passed.add(places.run);
      continue;
    }
    if (locked) return places;
    throw new UserError(
      "usage",
      `Another process is training the run ${places.run} (it holds ${places.logs}). Wait for it, stop it with: ` +
        `touch ${places.logs}/STOP, or start a run of another name with --run-name.`,
    );
  }
}

/** The next start writes these files anew; other files stay. */
const OF_FAILED_START = /^(events\.jsonl|lineage\.json|wandb\.json|rank-\d+\.log|system-\d+\.jsonl)$/;

function cleared(places: RunPaths): RunPaths {
  for (const { name } of Deno.readDirSync(places.logs)) {
    if (OF_FAILED_START.test(name)) remove(join(places.logs, name));
  }
  return places;
}

/** This process's own start failed. */
export function abandon({ logs }: RunPaths): void {
  try {
    if (pathExists(lineagePath(logs))) return;
    for (const { name } of Deno.readDirSync(logs)) if (OF_FAILED_START.test(name)) remove(join(logs, name));
    Deno.removeSync(logs);
  } catch { /* it has something of the user's, or the disk refuses */ }
}

/** False when a new run finds its folder there already. */
function makeLogs(logs: string, fresh: boolean): boolean {
  try {
    Deno.mkdirSync(dirname(logs), { recursive: true });
    Deno.mkdirSync(logs);
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return !fresh || !isFolder(logs);
  }
  return true;
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false; // a link to nowhere
  }
}

/** The end of the first epoch would be too late. */
function refuseUnwritable(folder: string): void {
  const probe = join(folder, `.probe-${Deno.pid}`);
  try {
    Deno.mkdirSync(folder, { recursive: true });
    try {
      Deno.writeFileSync(probe, new Uint8Array(4096)); // a full disk still takes an empty file
    } finally {
      remove(probe);
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split(" (os error")[0] : String(cause);
    throw new UserError(
      "usage",
      `Checkpoints can't be written to ${folder}: ${reason}. ` +
        "Name another folder with --save-dir DIR (or --model-dir DIR), or make room there.",
      { cause },
    );
  }
}
