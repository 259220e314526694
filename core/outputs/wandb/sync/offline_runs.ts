import { statOf } from "../../../base/files.ts";
import { basename, dirname, join } from "../../../../deps/path.ts";
import { UserError } from "../../../base/errors.ts";
import { type Contents, type HistoryLine, openContents, openWandbReader } from "./contents.ts";
import { isBeingWritten, isSynced, readStart } from "./state.ts";
import { uploadFailureOf, type UploadOptions, type UploadResult, uploadRun } from "./upload.ts";
import type { Api } from "./api.ts";
import { parseJson, textOfJson, type Tree } from "./json_text.ts";
import { madeFiles, wandbConfigOf } from "./files.ts";

interface OfflineRuns {
  readonly paths: readonly string[];
  /** W&B's own program uploaded these runs while they ran. */
  readonly online: number;
}

/** The user may name RUN, logs/wandb, logs, or the save folder. */
const DEPTH = 4;

/** A place is a .wandb file, a run's folder, or a folder of such folders. */
export function findOfflineRuns(places: readonly string[]): OfflineRuns {
  const paths = new Map<string, string>();
  let online = 0;
  const add = (path: string) => void paths.set(Deno.realPathSync(path), path);
  for (const place of places) {
    const info = statOf(place);
    if (info === null) {
      throw new UserError(
        "usage",
        `There is no ${place}; name a .wandb file, the folder of a run, or a folder of such folders.`,
      );
    }
    if (info.isFile) add(place);
    else online += walk(place, DEPTH, add);
  }
  return { paths: [...paths.values()].sort(), online };
}

function walk(folder: string, depth: number, add: (path: string) => void): number {
  let online = 0;
  for (const { name, isFile, isDirectory } of entriesOf(folder)) {
    const path = join(folder, name);
    if (isFile && name.endsWith(".wandb")) {
      if (basename(dirname(Deno.realPathSync(path))).startsWith("run-")) online++;
      else add(path);
    } else if (isDirectory && depth > 0) online += walk(path, depth - 1, add);
  }
  return online;
}

const INSIDE = /^(files|tmp|logs)$/;

function entriesOf(folder: string): Deno.DirEntry[] {
  try {
    const entries = [...Deno.readDirSync(folder)];
    // "logs" belongs to a run only beside its file; elsewhere it may hold runs.
    const isRun = entries.some(({ name, isFile }) => isFile && name.endsWith(".wandb"));
    return entries.filter(({ isDirectory, name }) => !isDirectory || !isRun || !INSIDE.test(name));
  } catch {
    return []; // gone, or unreadable
  }
}

export interface OfflineRun {
  readonly path: string;
  readonly synced: boolean;
  readonly run: Contents["run"];
}

export function offlineRunOf(path: string): OfflineRun {
  const contents = openContents("");
  const reading = openWandbReader(path, false);
  try {
    reading.read(contents, () => contents.run !== null);
  } finally {
    reading.close();
  }
  return { path, synced: isSynced(path), run: contents.run };
}

/** A run's files must be sent one after the other, in the order of their start. */
export function inOrder(heads: readonly OfflineRun[]): OfflineRun[][] {
  const groups = Map.groupBy(
    heads,
    ({ path, run }) => run ? [run.entity, run.project, run.id].join("\n") : path,
  );
  return [...groups.values()].map((group) =>
    group.toSorted((a, b) => (a.run?.startTime ?? 0) - (b.run?.startTime ?? 0))
  );
}

/** A run without an end may still grow on any host until it is silent for this long. */
const QUIET_MS = 10 * 60_000;

/** A file with its exit record can't grow. */
export function mayGrow(path: string, quietMs = QUIET_MS): boolean {
  if (isBeingWritten(path)) return true;
  const modified = statOf(path)?.mtime?.getTime() ?? 0;
  return Date.now() - modified < quietMs;
}

export interface SyncOptions extends Omit<UploadOptions, "grows" | "onProgress" | "say"> {
  readonly parallel: number;
  /** A run without an end is ended, however new its file is. */
  readonly finish?: boolean;
  /** A run without an end is over after this silence. */
  readonly quietMs?: number;
  readonly say: (path: string, sentence: string) => void;
  readonly onProgress?: (progress: SyncProgress) => void;
  readonly onResult: (outcome: SyncOutcome) => void;
}

export interface SyncProgress {
  readonly runs: number;
  readonly done: number;
  readonly rows: number;
  readonly share: number;
}

export interface SyncOutcome {
  readonly path: string;
  readonly result: UploadResult | null;
  readonly error: UserError | null;
}

export async function syncMany(heads: readonly OfflineRun[], options: SyncOptions): Promise<SyncOutcome[]> {
  const outcomes: SyncOutcome[] = [];
  const shares = new Map<string, { share: number; rows: number }>();
  const tell = () => {
    const all = [...shares.values()];
    options.onProgress?.({
      runs: heads.length,
      done: outcomes.length,
      rows: all.reduce((sum, { rows }) => sum + rows, 0),
      share: all.reduce((sum, { share }) => sum + share, 0) / Math.max(1, heads.length),
    });
  };
  const groups = inOrder(heads);
  const turn = async () => {
    for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
      for (const { path } of group) {
        if (options.stop?.aborted) return;
        const outcome = await syncOne(path, options, (share, rows) => {
          shares.set(path, { share, rows });
          tell();
        });
        outcomes.push(outcome);
        options.onResult(outcome);
        tell();
        if (!isOver(outcome)) break; // what follows must not be sent before it
      }
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, options.parallel) }, turn));
  return outcomes;
}

const isOver = ({ result }: SyncOutcome): boolean =>
  result !== null && ["synced", "was synced", "damaged", "empty"].includes(result.state);

async function syncOne(
  path: string,
  options: SyncOptions,
  progress: (share: number, rows: number) => void,
): Promise<SyncOutcome> {
  const open = !options.finish && mayGrow(path, options.quietMs);
  const now = open ? { grows: () => true, stop: AbortSignal.abort() } : {};
  return await outcomeOf(path, {
    ...options,
    ...now,
    onProgress: (at, size, result) => progress(size > 0 ? at / size : 1, result.rows.sent),
    say: (sentence) => options.say(path, sentence),
  });
}

async function outcomeOf(path: string, options: UploadOptions): Promise<SyncOutcome> {
  try {
    return { path, result: await uploadRun(path, options), error: null };
  } catch (error) {
    return { path, result: null, error: uploadFailureOf(error) };
  }
}

/** POLL_MS passes between two searches, AGAIN_MS before a failed run is tried again. */
const POLL_MS = 5000, AGAIN_MS = 60_000;
const AT_ONCE = 32;

export async function watchMany(
  places: () => readonly string[],
  options: SyncOptions & { readonly stop: AbortSignal },
): Promise<void> {
  const going = new Map<string, Promise<void>>();
  const notBefore = new Map<string, number>();
  while (!options.stop.aborted) {
    for (const group of inOrder(findOfflineRuns(places()).paths.map(offlineRunOf))) {
      // The next file waits for the first one that is not done.
      const next = group.find(({ path, synced }) => !synced && notBefore.get(path) !== Infinity);
      if (!next?.run || going.size >= AT_ONCE || group.some(({ path }) => going.has(path))) continue;
      const { path } = next;
      if (Date.now() < (notBefore.get(path) ?? 0)) continue;
      const followed = follow(path, options).then((outcome) => {
        options.onResult(outcome);
        const done = isOver(outcome);
        notBefore.set(path, done ? Infinity : Date.now() + (options.pollMs ? 10 * options.pollMs : AGAIN_MS));
      }).finally(() => going.delete(path));
      going.set(path, followed);
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, options.pollMs ?? POLL_MS);
      options.stop.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
  }
  await Promise.all(going.values());
}

function follow(path: string, options: SyncOptions): Promise<SyncOutcome> {
  const grows = () => options.finish ? isBeingWritten(path) : mayGrow(path, options.quietMs);
  return outcomeOf(path, {
    ...options,
    grows,
    onProgress: undefined,
    say: (sentence) => options.say(path, sentence),
  });
}

interface VerifyResult {
  readonly rows: number;
  readonly files: number;
  readonly differences: readonly string[];
}

/** The files of one run come in order; the last one has its final state. */
export async function verifyRun(
  paths: readonly string[],
  { api, version, entity, project }: { api: Api; version: string; entity?: string; project?: string },
): Promise<VerifyResult> {
  const all = paths.map((path) => readThrough(path, version));
  const rows = all.reduce((sum, { contents }) => sum + contents.counts.rows, 0);
  const { contents, lastRow } = all[all.length - 1];
  const path = paths[paths.length - 1];
  const { run } = contents;
  if (run === null) return { rows: 0, files: 0, differences: ["The file has no run in it."] };
  const target = {
    entity: entity ?? (run.entity || null),
    project: project ?? (run.project || null),
    name: run.id,
  };
  const status = await api.status(target);
  if (status === null) return { rows: 0, files: 0, differences: [`The server has no run ${run.id}.`] };

  const differences: string[] = [];
  if (status.history < rows) differences.push(`The server has ${status.history} rows of ${rows}.`);
  if (lastRow !== null && status.lastRow !== null) {
    const ours = parseJson(lastRow.text);
    if (ours === null || textOfJson(ours, true) !== textOfJson(status.lastRow, true)) {
      differences.push(`The server's last row is another one than that of step ${lastRow.step}.`);
    }
  }
  differences.push(...differing("summary", contents.summary, status.summary));
  const config = unwrapped(wandbConfigOf(contents.config));
  differences.push(...differing("configuration", config, status.config));
  const wanted = filesOf(path, contents);
  const files = await api.files(target);
  for (const [name, size] of wanted) {
    if (!files.has(name)) differences.push(`The server lacks the file ${name}.`);
    else if (files.get(name) !== size) {
      differences.push(`The server's file ${name} has ${files.get(name)} bytes and not ${size}.`);
    }
  }
  return { rows, files: wanted.size, differences };
}

const MANY = 4 * 2 ** 20;

function readThrough(path: string, version: string): { contents: Contents; lastRow: HistoryLine | null } {
  const contents = openContents(version);
  const reading = openWandbReader(path, false);
  let lastRow: HistoryLine | null = null;
  let begun = false;
  try {
    for (let all = false; !all;) {
      all = reading.read(contents, () => (!begun && contents.run !== null) || contents.pending >= MANY);
      if (!begun && contents.run !== null) {
        contents.startAt(readStart(path)?.step ?? contents.run.startingStep ?? 0);
        begun = true;
      }
      lastRow = contents.history.rows.at(-1) ?? lastRow;
      contents.history.rows = [];
      contents.events.texts = [];
      contents.output.texts = [];
      contents.pending = 0;
    }
  } finally {
    reading.close();
  }
  contents.end();
  return { contents, lastRow };
}

/** The server adds entries, and "_wandb" is not the user's. */
const unwrapped = (config: Tree): Tree =>
  new Map(
    [...config].filter(([key]) => key !== "_wandb").map((
      [key, value],
    ) => [key, (value as Tree).get("value")!]),
  );

function differing(what: string, ours: Tree, theirs: Tree): string[] {
  return [...ours].flatMap(([key, value]) => {
    const found = theirs.get(key);
    if (found !== undefined && textOfJson(found, true) === textOfJson(value, true)) return [];
    return [`The ${what} has another ${JSON.stringify(key.slice(0, 80))} at the server.`];
  });
}

function filesOf(path: string, contents: Contents): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const [name, bytes] of madeFiles(contents)) sizes.set(name, bytes.length);
  for (const name of contents.files.keys()) {
    try {
      const { isFile, size } = Deno.statSync(join(dirname(path), "files", name));
      if (isFile && !sizes.has(name)) sizes.set(name, size);
    } catch {
      // The server never had it.
    }
  }
  // The configuration's file names the program that sent it.
  sizes.delete("config.yaml");
  return sizes;
}
