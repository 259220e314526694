// Many offline runs to the server: files of one run one after the other, others beside each other. May import its siblings and
// core/errors.
import type { UserError } from "../../../errors.ts";
import { findRuns, type Head, headOf, inOrder, mayGrow } from "./find.ts";
import { isBeingWritten } from "./state.ts";
import { failureOf, type UploadOptions, type UploadResult, uploadRun } from "./upload.ts";

export interface SyncOptions extends Omit<UploadOptions, "grows" | "onProgress" | "say"> {
  readonly parallel: number;
  /** A run without an end is over, however new its file is. */
  readonly finish?: boolean;
  /** Milliseconds of silence after which a run without an end is over. */
  readonly quietMs?: number;
  readonly say: (path: string, sentence: string) => void;
  readonly onProgress?: (progress: Progress) => void;
  readonly onResult: (outcome: Outcome) => void;
}

export interface Progress {
  readonly runs: number;
  readonly done: number;
  readonly rows: number;
  /** Of all files' bytes. */
  readonly share: number;
}

export interface Outcome {
  readonly path: string;
  readonly result: UploadResult | null;
  readonly error: UserError | null;
}

export async function syncMany(heads: readonly Head[], options: SyncOptions): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
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
        if (!isOver(outcome)) break; // what comes after it must not be sent before it
      }
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, options.parallel) }, turn));
  return outcomes;
}

const isOver = ({ result }: Outcome): boolean =>
  result !== null && ["synced", "was synced", "damaged", "empty"].includes(result.state);

async function syncOne(
  path: string,
  options: SyncOptions,
  progress: (share: number, rows: number) => void,
): Promise<Outcome> {
  const open = !options.finish && mayGrow(path, options.quietMs);
  // All that is there now, and the run is left open.
  const now = open ? { grows: () => true, stop: AbortSignal.abort() } : {};
  return await outcomeOf(path, {
    ...options,
    ...now,
    onProgress: (at, size, result) => progress(size > 0 ? at / size : 1, result.rows.sent),
    say: (sentence) => options.say(path, sentence),
  });
}

async function outcomeOf(path: string, options: UploadOptions): Promise<Outcome> {
  try {
    return { path, result: await uploadRun(path, options), error: null };
  } catch (error) {
    return { path, result: null, error: failureOf(error) };
  }
}

/** Milliseconds between two looks for new runs, and before a run that failed is tried again. */
const LOOK_MS = 5000, AGAIN_MS = 60_000;
const AT_ONCE = 32;

/** Follows every run below the folders, also those that begin later, until `options.stop`. */
export async function watchMany(
  places: () => readonly string[],
  options: SyncOptions & { readonly stop: AbortSignal },
): Promise<void> {
  const going = new Map<string, Promise<void>>();
  const notBefore = new Map<string, number>();
  while (!options.stop.aborted) {
    for (const group of inOrder(findRuns(places()).paths.map(headOf))) {
      // The first that is not done: the next one's turn is after it.
      const next = group.find(({ path, synced }) => !synced && notBefore.get(path) !== Infinity);
      if (!next?.run || going.size >= AT_ONCE || group.some(({ path }) => going.has(path))) continue;
      const { path } = next;
      if (Date.now() < (notBefore.get(path) ?? 0)) continue;
      const followed = follow(path, options).then((outcome) => {
        options.onResult(outcome);
        const done = isOver(outcome);
        notBefore.set(path, done ? Infinity : Date.now() + (options.lookMs ? 10 * options.lookMs : AGAIN_MS));
      }).finally(() => going.delete(path));
      going.set(path, followed);
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, options.lookMs ?? LOOK_MS);
      options.stop.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
  }
  await Promise.all(going.values());
}

function follow(path: string, options: SyncOptions): Promise<Outcome> {
  const grows = () => options.finish ? isBeingWritten(path) : mayGrow(path, options.quietMs);
  return outcomeOf(path, {
    ...options,
    grows,
    onProgress: undefined,
    say: (sentence) => options.say(path, sentence),
  });
}
