// One .wandb file to the server: what it has is asked first, then rows, files and the end are sent; a run that still grows is
// followed. May import its siblings, core/errors and @std/path.
import { dirname, join } from "../../../../deps/path.ts";
import { UserError } from "../../../errors.ts";
import type { RunRecord } from "../records.ts";
import type { Api, Place, Status } from "./api.ts";
import { type Contents, openContents } from "./contents.ts";
import { type Damage, openReading, type Reading } from "./follow.ts";
import { setAt, textOfJson } from "./json_text.ts";
import { wrapped } from "./made_files.ts";
import { type Plan, planOf } from "./plan.ts";
import { openRunFiles } from "./run_files.ts";
import { MAX_REQUEST, openSending, type Sending } from "./sending.ts";
import { isSynced, lockUpload, markSynced, readStart, type UploadLock, writeStart } from "./state.ts";

export interface UploadOptions {
  readonly api: Api;
  /** The server's address, so that what is known of another one is not taken for this one's. */
  readonly server: string;
  /** This program's, for runs that name none. */
  readonly version: string;
  readonly project?: string;
  readonly entity?: string;
  /** Also what is marked as synced. */
  readonly again?: boolean;
  /** True while the run may still grow: asked again and again. Without it the file is uploaded as it is, and ended. */
  readonly grows?: () => boolean;
  /** Milliseconds between two looks at a file that grows, and between two requests. */
  readonly lookMs?: number;
  readonly requestMs?: number;
  readonly onProgress?: (at: number, size: number, result: UploadResult) => void;
  readonly say?: (sentence: string) => void;
  /** Ends a pause: the run may not grow any more. */
  readonly wake?: AbortSignal;
  /** Ends following: what is there is sent, and the run is left open. */
  readonly stop?: AbortSignal;
}

export interface UploadResult {
  readonly path: string;
  run: RunRecord | null;
  place: Place | null;
  /** synced: all of it, and marked so. damaged: all that could be read. open: it may go on. */
  state: "synced" | "was synced" | "damaged" | "open" | "busy" | "empty";
  rows: { readonly sent: number; readonly had: number };
  files: number;
  damages: readonly Damage[];
}

const LOOK_MS = 1000, REQUEST_MS = 15_000, HEARTBEAT_MS = 30_000;

export async function uploadRun(path: string, options: UploadOptions): Promise<UploadResult> {
  const nothing = { run: null, place: null, rows: { sent: 0, had: 0 }, files: 0, damages: [] };
  if (isSynced(path) && !options.again) return { path, ...nothing, state: "was synced" };
  const lock = lockUpload(path);
  if (lock === null) return { path, ...nothing, state: "busy" };
  try {
    for (;;) {
      const result: UploadResult = { path, ...nothing, state: "open" };
      const reading = openReading(path, options.grows !== undefined);
      try {
        if (await uploadOnce(reading, lock, result, options)) return result;
      } finally {
        reading.close();
      }
    }
  } finally {
    lock.close();
  }
}

/** False where the file was replaced by another one under its name, so that all is to be looked at again. */
async function uploadOnce(
  reading: Reading,
  lock: UploadLock,
  result: UploadResult,
  options: UploadOptions,
): Promise<boolean> {
  const contents = openContents(options.version);
  // The first row waits until the server has said where steps begin.
  if (!await untilRun(reading, contents, options)) {
    result.state = "empty";
    result.damages = reading.damages;
    return true;
  }
  const session = await open(contents, lock, result, options);
  if (contents.exit === null && !await pump(reading, contents, session, result, options)) return false;
  if (options.stop?.aborted && contents.exit === null) {
    result.damages = reading.stuck ? [reading.stuck] : [];
    return true;
  }
  await end(contents, session, result, options);
  result.damages = reading.damages;
  if (result.damages.length > 0) result.state = "damaged";
  else markAs(result, options);
  return true;
}

/** Reads up to the run's record; false where there is none. */
async function untilRun(reading: Reading, contents: Contents, options: UploadOptions): Promise<boolean> {
  for (;;) {
    const waits = (options.grows?.() ?? false) && !options.stop?.aborted;
    if (!waits) reading.last();
    reading.read(contents, () => contents.run !== null);
    if (contents.run !== null || !waits) return contents.run !== null;
    if (!reading.grew()) await pause(options);
  }
}

interface Session {
  readonly place: Place;
  readonly sending: Sending;
  /** Tells what has changed of the configuration. */
  readonly upsert: () => Promise<void>;
  /** A run that says nothing for long counts as crashed. */
  readonly beat: () => Promise<void>;
  readonly upload: (all: boolean) => Promise<readonly string[]>;
  readonly alerts: () => Promise<void>;
}

async function open(
  contents: Contents,
  lock: UploadLock,
  result: UploadResult,
  options: UploadOptions,
): Promise<Session> {
  const { api } = options;
  const run = contents.run!;
  refuseRewind(run, result.path);
  const entity = options.entity ?? (run.entity || null), project = options.project ?? (run.project || null);
  const status = await api.status({ entity, project, name: run.id });
  const to = [options.server, entity ?? "", project ?? "", run.id].join(" ");
  const known = lock.known?.to === to ? lock.known : null;
  const plan = planOf(run, status, readStart(result.path), known);
  keep(() => writeStart(result.path, plan.start), options);
  contents.startAt(plan.start.step);
  if (plan.continues && status) mergeOld(contents, status);

  let sentConfig = configOf(contents);
  const first = { ...firstOf(run, status, plan), project, entity };
  const place = await api.upsert({ ...first, config: sentConfig });
  const files = openRunFiles(api, join(dirname(result.path), "files"), (text) => options.say?.(text));
  let alerts = known?.alerts ?? 0;
  const write = () => {
    if (sending.uploaded) lock.write({ to, ...sending.uploaded, alerts });
  };
  const sending = openSending(api, place, plan, { acknowledged: write, name: run.id });
  result.run = run;
  result.place = place;
  result.rows = sending.rows;
  return {
    place,
    sending,
    async upsert() {
      const config = configOf(contents);
      if (config === sentConfig) return;
      await api.upsert({
        id: place.id,
        name: place.run,
        project: place.project,
        entity: place.entity,
        config,
      });
      sentConfig = config;
    },
    beat: () => api.stream(place, {}, () => Promise.resolve({})),
    async upload(all) {
      const paths = await files.upload(contents, place, all);
      result.files = paths.length;
      return paths;
    },
    async alerts() {
      while (alerts < contents.alerts.length) {
        await api.alert(place, contents.alerts[alerts]);
        alerts++;
        write();
      }
    },
  };
}

/** Rows that the server has would have to go first, and only W&B's own program can ask for that. */
function refuseRewind({ id, branch }: RunRecord, path: string): void {
  if (branch === undefined || branch.run !== id) return;
  throw new UserError(
    "data",
    `This file takes the run ${id} back to ${branch.metric} ${branch.value} (W&B calls it rewinding), which sync-wandb can't do; ` +
      `nothing of it was sent. Upload it with W&B's own program: wandb sync ${dirname(path)}`,
  );
}

/** What the run's record says, and on going on what the server keeps where the record says nothing. */
function firstOf(run: RunRecord, status: Status | null, { continues }: Plan) {
  const old = continues ? status : null;
  const tags = run.tags?.length ? run.tags : old?.tags.length ? old.tags : undefined;
  return {
    id: old?.id ?? null,
    name: run.id,
    ...given({
      groupName: run.group,
      displayName: run.name,
      notes: run.notes || (old?.notes ?? undefined),
      jobType: run.jobType,
      host: run.host,
      commit: run.git?.commit,
      repo: run.git?.remote,
    }),
    ...(tags ? { tags } : {}),
  };
}

const given = (texts: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(Object.entries(texts).filter((entry): entry is [string, string] => !!entry[1]));

const configOf = (contents: Contents): string => textOfJson(wrapped(contents.fullConfig()));

/** The run's earlier part stays, where this one says nothing else. */
function mergeOld({ config }: Contents, status: Status): void {
  for (const [key, value] of status.config) {
    if (key !== "_wandb" && !config.has(key)) setAt(config, [key], value);
  }
}

/** Sends what there is, and what comes while the run grows; false where the file was replaced. */
async function pump(
  reading: Reading,
  contents: Contents,
  session: Session,
  result: UploadResult,
  options: UploadOptions,
): Promise<boolean> {
  let lastSent = 0;
  for (;;) {
    const grows = options.grows?.() ?? false; // asked first: what comes while it is read is read, too
    if (!grows) reading.last();
    const allRead = reading.read(contents, () => contents.pending >= MAX_REQUEST);
    session.sending.admit(contents);
    options.onProgress?.(reading.at, reading.size, result);
    const stopped = options.stop?.aborted ?? false;
    const over = allRead && (!grows || contents.exit !== null || stopped);
    if (over && !stopped) return true;
    const overdue = Date.now() - lastSent >= (options.requestMs ?? REQUEST_MS);
    if (!allRead || stopped || (overdue && contents.pending > 0)) {
      if (grows) await session.upload(false);
      await session.sending.send(contents);
      await session.alerts();
      lastSent = Date.now();
      if (over) return true;
    } else if (grows && Date.now() - lastSent >= HEARTBEAT_MS) {
      await session.beat();
      lastSent = Date.now();
    }
    if (reading.replaced()) return false;
    if (allRead && !reading.grew()) await pause(options);
  }
}

async function end(
  contents: Contents,
  session: Session,
  result: UploadResult,
  options: UploadOptions,
): Promise<void> {
  contents.end();
  session.sending.admit(contents);
  await session.upsert();
  const uploaded = await session.upload(true);
  // Without a word of its end it failed: that is what `wandb sync` makes of it.
  await session.sending.send(contents, { uploaded, exitCode: contents.exit?.code ?? 1 });
  await session.alerts();
  if (contents.unsent.size > 0) options.say?.(unsentSentence(contents.unsent));
  options.onProgress?.(1, 1, result);
}

/** "Not sent: 2 artifacts made." */
function unsentSentence(unsent: Contents["unsent"]): string {
  const parts = [...unsent].map(([what, count]) =>
    `${count} ${count === 1 ? what.replace("s ", " ") : what}`
  );
  return `Not sent: ${parts.join(", ")}. Only W&B's own program can send that: ` +
    "use `wandb sync` for a run that has it, in place of sync-wandb and not after it.";
}

function markAs(result: UploadResult, options: UploadOptions): void {
  result.state = "synced";
  keep(() => markSynced(result.path), options);
}

function keep(write: () => void, { say }: UploadOptions): void {
  try {
    write();
  } catch (error) {
    say?.(
      `It can't be noted beside the run what was uploaded (${(error as Error).message}); ` +
        "nothing is sent twice all the same, as the server is asked.",
    );
  }
}

/** Until it is time to look again. */
function pause({ lookMs = LOOK_MS, stop, wake }: UploadOptions): Promise<void> {
  return new Promise((resolve) => {
    if (stop?.aborted || wake?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      stop?.removeEventListener("abort", done);
      wake?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, lookMs);
    stop?.addEventListener("abort", done);
    wake?.addEventListener("abort", done);
  });
}

/** What an upload ended with, where that is an error. */
export const failureOf = (error: unknown): UserError =>
  error instanceof UserError
    ? error
    : new UserError("communication", error instanceof Error ? error.message : String(error), {
      cause: error,
    });
