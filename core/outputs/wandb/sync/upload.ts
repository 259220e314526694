// Uploads one .wandb file, also while it grows (--wandb-online).
import { dirname, join } from "../../../../deps/path.ts";
import { messageOf, UserError } from "../../../base/errors.ts";
import type { RunRecord } from "../records.ts";
import { type Api, openApi, type ServerRun, type ServerStatus } from "./api.ts";
import { type Contents, type Damage, openContents, openWandbReader, type WandbReader } from "./contents.ts";
import { setAt, textOfJson } from "./json_text.ts";
import { openRunFiles, wandbConfigOf } from "./files.ts";
import { type LineSender, MAX_REQUEST, openLineSender, type UploadPlan, uploadPlanOf } from "./sending.ts";
import { isSynced, lockUpload, markSynced, readStart, type UploadLock, writeStart } from "./state.ts";
import { caCertsOf, type Environment, findWandbServer, type WandbServer } from "./credentials.ts";
import { openHttp } from "./http.ts";

export interface UploadOptions {
  readonly api: Api;
  readonly server: string;
  readonly version: string;
  readonly project?: string;
  readonly entity?: string;
  readonly again?: boolean;
  /** Without it the run ends with the file as it is. */
  readonly grows?: () => boolean;
  /** The time passes between two reads, and between two requests. */
  readonly pollMs?: number;
  readonly requestMs?: number;
  readonly onProgress?: (at: number, size: number, result: UploadResult) => void;
  readonly say?: (sentence: string) => void;
  readonly wake?: AbortSignal;
  /** The present lines are sent, and the run is left open. */
  readonly stop?: AbortSignal;
}

export interface UploadResult {
  readonly path: string;
  run: RunRecord | null;
  place: ServerRun | null;
  /** synced: complete and marked. damaged: everything that can be read. open: the run may continue. */
  state: "synced" | "was synced" | "damaged" | "open" | "busy" | "empty";
  rows: { readonly sent: number; readonly had: number };
  files: number;
  damages: readonly Damage[];
}

const POLL_MS = 1000, REQUEST_MS = 15_000, HEARTBEAT_MS = 30_000;

export async function uploadRun(path: string, options: UploadOptions): Promise<UploadResult> {
  const nothing = { run: null, place: null, rows: { sent: 0, had: 0 }, files: 0, damages: [] };
  if (isSynced(path) && !options.again) return { path, ...nothing, state: "was synced" };
  const lock = lockUpload(path);
  if (lock === null) return { path, ...nothing, state: "busy" };
  try {
    for (;;) {
      const result: UploadResult = { path, ...nothing, state: "open" };
      const reading = openWandbReader(path, options.grows !== undefined);
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

/** Returns false where another file has taken the path, so that the upload must start again. */
async function uploadOnce(
  reading: WandbReader,
  lock: UploadLock,
  result: UploadResult,
  options: UploadOptions,
): Promise<boolean> {
  const contents = openContents(options.version);
  // The first row waits until the server has named its first step.
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

async function untilRun(reading: WandbReader, contents: Contents, options: UploadOptions): Promise<boolean> {
  for (;;) {
    const waits = (options.grows?.() ?? false) && !options.stop?.aborted;
    if (!waits) reading.last();
    reading.read(contents, () => contents.run !== null);
    if (contents.run !== null || !waits) return contents.run !== null;
    if (!reading.grew()) await pause(options);
  }
}

interface Session {
  readonly place: ServerRun;
  readonly sending: LineSender;
  readonly upsert: () => Promise<void>;
  /** The server takes a silent run as crashed. */
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
  const plan = uploadPlanOf(run, status, readStart(result.path), known);
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
  const sending = openLineSender(api, place, plan, { acknowledged: write, name: run.id });
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

/** The server would have to drop rows first, which only W&B's own program can request. */
function refuseRewind({ id, branch }: RunRecord, path: string): void {
  if (branch === undefined || branch.run !== id) return;
  throw new UserError(
    "data",
    `This file takes the run ${id} back to ${branch.metric} ${branch.value} (W&B calls it rewinding), which sync-wandb can't do; ` +
      `nothing of it was sent. Upload it with W&B's own program: wandb sync ${dirname(path)}`,
  );
}

/** On resume the server's values fill the run record's gaps. */
function firstOf(run: RunRecord, status: ServerStatus | null, { continues }: UploadPlan) {
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

const configOf = (contents: Contents): string => textOfJson(wandbConfigOf(contents.fullConfig()));

/** Values of the run's earlier part stay, unless this part replaces them. */
function mergeOld({ config }: Contents, status: ServerStatus): void {
  for (const [key, value] of status.config) {
    if (key !== "_wandb" && !config.has(key)) setAt(config, [key], value);
  }
}

/** New lines follow while the run grows; returns false where another file has taken the path. */
async function pump(
  reading: WandbReader,
  contents: Contents,
  session: Session,
  result: UploadResult,
  options: UploadOptions,
): Promise<boolean> {
  let lastSent = 0;
  for (;;) {
    const grows = options.grows?.() ?? false; // this precedes the reading, which then has everything
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
  // `wandb sync` also counts a run without an end as failed.
  await session.sending.send(contents, { uploaded, exitCode: contents.exit?.code ?? 1 });
  await session.alerts();
  if (contents.unsent.size > 0) options.say?.(unsentSentence(contents.unsent));
  options.onProgress?.(1, 1, result);
}

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
      `It can't be noted beside the run what was uploaded (${messageOf(error)}); ` +
        "nothing is sent twice all the same, as the server is asked.",
    );
  }
}

function pause({ pollMs = POLL_MS, stop, wake }: UploadOptions): Promise<void> {
  return new Promise((resolve) => {
    if (stop?.aborted || wake?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      stop?.removeEventListener("abort", done);
      wake?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, pollMs);
    stop?.addEventListener("abort", done);
    wake?.addEventListener("abort", done);
  });
}

export const uploadFailureOf = (error: unknown): UserError =>
  error instanceof UserError ? error : new UserError("communication", messageOf(error), {
    cause: error,
  });

/** The upload thread finds the key itself. */
export interface GrowingRun {
  readonly path: string;
  readonly version: string;
  readonly pollMs?: number;
  readonly requestMs?: number;
}

interface GrowingOptions {
  readonly env: Environment;
  readonly ended: AbortSignal;
  readonly giveUp: AbortSignal;
  readonly warn: (sentence: string) => void;
}

const FIRST_WAIT_MS = 5000, LONGEST_WAIT_MS = 5 * 60_000;
const RETRIES = 3;

/** Returns null when nothing could be uploaded. It never throws. */
export async function uploadWhileTraining(
  run: GrowingRun,
  { env, ended, giveUp, warn }: GrowingOptions,
): Promise<"synced" | "open" | null> {
  let server: WandbServer, caCerts: string[];
  try {
    server = findWandbServer(env);
    caCerts = caCertsOf(env, undefined);
  } catch (error) {
    warn(
      `Nothing is uploaded to W&B while training: ${
        uploadFailureOf(error).message
      } Later: hpctrain sync-wandb`,
    );
    return null;
  }
  const http = openHttp({ retries: RETRIES, caCerts, signal: giveUp });
  try {
    for (let failures = 0; !giveUp.aborted;) {
      const last = ended.aborted;
      try {
        const { state } = await uploadRun(run.path, {
          ...run,
          api: openApi(server, http),
          server: server.url,
          grows: () => !ended.aborted,
          wake: ended,
          say: warn,
        });
        return state === "synced" || state === "was synced" ? "synced" : "open";
      } catch (error) {
        if (giveUp.aborted || (last && !isMissing(error))) break;
        if (!isMissing(error)) {
          // A network that is down for hours gives about one warning an hour.
          if (Number.isInteger(Math.log2(++failures))) {
            warn(
              `The upload to W&B waits: ${server.key.hide(uploadFailureOf(error).message)} Training goes on.`,
            );
          }
        } else if (ended.aborted) return null; // there never was a file
        const wait = failures === 0
          ? run.pollMs ?? 1000
          : Math.min(FIRST_WAIT_MS * 2 ** (failures - 1), LONGEST_WAIT_MS);
        await pauseBetweenTries(wait, ended, giveUp);
      }
    }
    warn("Not all of the run is at the W&B server yet. Later: hpctrain sync-wandb");
    return "open";
  } finally {
    http.close();
  }
}

const isMissing = (error: unknown): boolean => error instanceof Deno.errors.NotFound;

function pauseBetweenTries(ms: number, ended: AbortSignal, giveUp: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (giveUp.aborted) return resolve();
    const stop = ended.aborted ? giveUp : AbortSignal.any([ended, giveUp]);
    const done = () => {
      clearTimeout(timer);
      stop.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    stop.addEventListener("abort", done);
  });
}
