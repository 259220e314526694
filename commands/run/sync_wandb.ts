// `hpctrain sync-wandb`: uploads offline runs to a W&B server.
import { isFolder } from "../../core/base/files.ts";
import { basename, dirname, join } from "../../deps/path.ts";
import { parseOptions } from "../../core/settings/options.ts";
import { EXIT, messageOf, UserError } from "../../core/base/errors.ts";
import { formatDuration, formatPlural } from "../../core/base/format.ts";
import { openApi } from "../../core/outputs/wandb/sync/api.ts";
import { caCertsOf, findWandbServer, type WandbServer } from "../../core/outputs/wandb/sync/credentials.ts";
import {
  findOfflineRuns,
  inOrder,
  type OfflineRun,
  offlineRunOf,
  syncMany,
  type SyncOptions,
  type SyncOutcome,
  type SyncProgress,
  verifyRun,
  watchMany,
} from "../../core/outputs/wandb/sync/offline_runs.ts";
import { type Http, openHttp } from "../../core/outputs/wandb/sync/http.ts";
import { onSignal } from "../../ffi/signals.ts";
import { VERSION } from "../../core/base/version.ts";
import { OPTIONS, USAGE } from "../sync_wandb.ts";

const DEFAULT_RETRIES = 8, DEFAULT_PARALLEL = 4;

type SyncFlags = ReturnType<typeof parseOptions<typeof OPTIONS>>["options"];

export async function syncWandb(argv: string[]): Promise<number> {
  const { options, positionals } = parseOptions(argv, OPTIONS, USAGE);
  const retries = whole(options.retries, "--retries", 0, 1000) ?? DEFAULT_RETRIES;
  const parallel = whole(options.parallel, "--parallel", 1, 256) ?? DEFAULT_PARALLEL;
  const interval = whole(options.interval, "--interval", 1, 86_400);
  const places = () => positionals.length > 0 ? positionals : usualPlaces(options["save-dir"]);
  if (!options.watch && places().length === 0) {
    throw new UserError(
      "usage",
      `There are no offline runs in ${join(options["save-dir"] ?? ".", "logs")}; ` +
        "name a .wandb file, or a folder with runs in it.",
    );
  }
  const { paths, online } = findOfflineRuns(places());
  const heads = paths.map(readHead);
  const printer = openPrinter(options);
  if (online > 0) printer.say(`${formatPlural(online, "run")} of W&B's online mode passed over.`);
  if (options["dry-run"]) return dryRun(heads, options);

  const server = findWandbServer(Deno.env.toObject(), {
    baseUrl: options["base-url"],
    keyFile: options["key-file"],
  });
  const stop = openStop();
  const http = openHttp({
    retries,
    signal: stop.giveUp,
    caCerts: caCertsOf(Deno.env.toObject(), options["ca-file"]),
    onRetry: (sentence) => printer.warn(server.key.hide(sentence)),
  });
  try {
    const code = await upload(heads, places, { options, server, http, parallel, interval, printer, stop })
      .catch((error) => {
        if (!stop.giveUp.aborted) throw error;
        return EXIT.done; // a request was given up
      });
    if (stop.giveUp.aborted) {
      printer.warn("Not all was uploaded. The same command goes on where this one was.");
    }
    return options.watch ? code : stop.code() ?? code;
  } finally {
    http.close();
  }
}

interface Stop {
  /** No run is begun any more; those under way are left as they are at the server. */
  readonly signal: AbortSignal;
  /** No answer is waited for any more. */
  readonly giveUp: AbortSignal;
  /** The exit code of the signal that came. */
  code(): number | null;
}

/** A server that is down, or an upload that is large, must not hold who wants to leave. */
const PATIENCE_MS = 1000;

/** The second signal ends the process at once. */
function openStop(): Stop {
  const stop = new AbortController(), giveUp = new AbortController();
  let code: number | null = null;
  const onStop = (own: number) => () => {
    if (code !== null) Deno.exit(own);
    code = own;
    stop.abort();
    setTimeout(() => giveUp.abort(), PATIENCE_MS);
  };
  onSignal("SIGINT", onStop(130));
  onSignal("SIGTERM", onStop(143));
  return { signal: stop.signal, giveUp: giveUp.signal, code: () => code };
}

interface Tools {
  readonly options: SyncFlags;
  readonly server: WandbServer;
  readonly http: Http;
  readonly parallel: number;
  readonly interval: number | undefined;
  readonly stop: Stop;
  readonly printer: Printer;
}

async function upload(
  heads: readonly OfflineRun[],
  places: () => readonly string[],
  tools: Tools,
): Promise<number> {
  const { options, server, http, parallel, interval, stop, printer } = tools;
  const api = openApi(server, http);
  const outcomes: SyncOutcome[] = [];
  const sync: SyncOptions & { stop: AbortSignal } = {
    api,
    server: server.url,
    version: `hpctrain ${VERSION}`,
    project: options.project,
    entity: options.entity,
    again: options["include-synced"],
    finish: options.finish,
    parallel,
    stop: stop.signal,
    requestMs: interval === undefined ? undefined : 1000 * interval,
    say: (path, sentence) => printer.warn(`${nameOf(path)}: ${sentence}`),
    onProgress: printer.progress,
    onResult(outcome) {
      if (outcome.error && stop.giveUp.aborted) return; // it is left for another time
      outcomes.push(outcome);
      printer.outcome(outcome, server.url);
    },
  };
  if (options.watch) {
    printer.say("Uploading runs as they grow; Ctrl-C ends it, and leaves them open.");
    await watchMany(places, sync);
    return EXIT.done;
  }
  await syncMany(heads, sync);
  printer.end(outcomes);
  const failed = codeOf(outcomes);
  if (!options.verify || failed !== EXIT.done || stop.signal.aborted) return failed;
  return await verify(heads, outcomes, sync, printer);
}

/** The first failure's; damage is told where nothing failed. */
function codeOf(outcomes: readonly SyncOutcome[]): number {
  const error = outcomes.find(({ error }) => error !== null)?.error;
  if (error) return error.exitCode;
  const isBad = ({ result }: SyncOutcome) => result?.state === "damaged" || result?.state === "empty";
  return outcomes.some(isBad) ? EXIT.data : EXIT.done;
}

async function verify(
  heads: readonly OfflineRun[],
  outcomes: readonly SyncOutcome[],
  sync: SyncOptions,
  printer: Printer,
): Promise<number> {
  let code: number = EXIT.done;
  const isUploaded = ({ path }: OfflineRun) =>
    outcomes.some((one) => one.path === path && /synced$/.test(one.result?.state ?? ""));
  for (const group of inOrder(heads.filter(isUploaded))) {
    const paths = group.map(({ path }) => path);
    const verdict = await verifyRun(paths, sync);
    printer.verdict(paths.at(-1)!, verdict);
    if (verdict.differences.length > 0) code = EXIT.communication;
  }
  return code;
}

/** The folders in which this program and W&B's own write runs. */
function usualPlaces(saveDir = "."): string[] {
  return [join(saveDir, "logs"), join(saveDir, "wandb"), Deno.env.get("WANDB_DIR") ?? ""]
    .filter((place) => place !== "" && isFolder(place));
}

function readHead(path: string): OfflineRun {
  try {
    return offlineRunOf(path);
  } catch (error) {
    throw new UserError("data", `${path} can't be read: ${messageOf(error)}.`, { cause: error });
  }
}

function dryRun(
  heads: readonly OfflineRun[],
  { json, project, entity, "include-synced": again }: SyncFlags,
): number {
  const plans = heads.map(({ path, run, synced }) => ({
    path,
    run: run?.id ?? null,
    project: project ?? (run?.project || "uncategorized"),
    entity: entity ?? (run?.entity || null),
    upload: run !== null && (!synced || again),
    synced,
  }));
  if (json) console.log(JSON.stringify(plans, null, 2));
  for (const { path, run, project, entity, upload, synced } of json ? [] : plans) {
    const to = `${entity ? `${entity}/` : ""}${project}/${run}`;
    const why = run === null ? "has no run in it" : synced && !upload ? "was uploaded" : `would go to ${to}`;
    console.log(`${path}: ${why}`);
  }
  const count = plans.filter(({ upload }) => upload).length;
  if (!json) console.log(`${formatPlural(count, "run")} would be uploaded; nothing was sent.`);
  return EXIT.done;
}

function whole(text: string | undefined, flag: string, min: number, max: number): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw new UserError("usage", `${flag} must be a whole number from ${min} to ${max}, but got "${text}".`);
}

type Printer = ReturnType<typeof openPrinter>;

const ERASE = "\r\x1b[2K", LIVE_MS = 200;

/** Lines for people, or JSON, one object a line. */
function openPrinter({ json, quiet }: SyncFlags) {
  const live = !json && !quiet && Deno.stderr.isTerminal() && Deno.env.get("TERM") !== "dumb";
  const began = performance.now();
  let drawn = false, last = 0;
  const clear = () => {
    if (drawn) Deno.stderr.writeSync(new TextEncoder().encode(ERASE));
    drawn = false;
  };
  const line = (text: string) => {
    clear();
    console.log(text);
  };
  const warn = (text: string) => {
    clear();
    console.error(`hpctrain: ${text}`);
  };
  return {
    warn,
    say: (text: string) => json || quiet ? undefined : line(text),
    progress({ runs, done, rows, share }: SyncProgress) {
      if (!live || performance.now() - last < LIVE_MS) return;
      last = performance.now();
      const text = `Uploading: ${done} of ${runs} runs | ${Math.floor(100 * share)}% | ${rows} rows`;
      Deno.stderr.writeSync(new TextEncoder().encode(ERASE + text));
      drawn = true;
    },
    outcome(outcome: SyncOutcome, url: string) {
      if (json) return line(JSON.stringify(asJson(outcome)));
      const { path, result, error } = outcome;
      if (error) return warn(`${nameOf(path)}: ${error.message}`);
      for (const { at, why } of result!.damages) warn(`${nameOf(path)}: damaged at byte ${at}: ${why}`);
      if (!quiet) line(`${nameOf(path)}: ${outcomeText(outcome, url)}`);
    },
    verdict(path: string, { rows, files, differences }: Awaited<ReturnType<typeof verifyRun>>) {
      if (json) return line(JSON.stringify({ path, verified: differences.length === 0, differences }));
      for (const difference of differences) warn(`${nameOf(path)}: ${difference}`);
      if (differences.length > 0 || quiet) return;
      line(
        `${nameOf(path)}: verified, ${formatPlural(rows, "row")} and ${
          formatPlural(files, "file")
        } read back`,
      );
    },
    end(outcomes: readonly SyncOutcome[]) {
      clear();
      if (json || quiet) return;
      const count = (...states: string[]) =>
        outcomes.filter(({ result }) => result && states.includes(result.state)).length;
      const parts = [
        `${formatPlural(count("synced", "damaged", "open"), "run")} uploaded`,
        ...some(count("was synced"), "uploaded before"),
        ...some(count("busy"), "being uploaded by another process"),
        ...some(count("empty"), "without anything to upload"),
        ...some(outcomes.filter(({ error }) => error).length, "failed"),
      ];
      line(`${parts.join(", ")}, in ${formatDuration((performance.now() - began) / 1000)}.`);
    },
  };
}

const some = (count: number, what: string): string[] => count > 0 ? [`${count} ${what}`] : [];

/** The run's folder where it has one. */
function nameOf(path: string): string {
  const folder = basename(dirname(path));
  return folder.startsWith("offline-run-") ? folder : path;
}

function outcomeText({ result }: SyncOutcome, url: string): string {
  const { state, rows, files, place } = result!;
  if (state === "was synced") return "was uploaded before (--include-synced looks at it again)";
  if (state === "busy") return "another process is uploading it";
  if (state === "empty") return "nothing in it can be uploaded: it has no record of a run";
  const had = rows.had > 0 ? ` (${rows.had} were there)` : "";
  const what = `${formatPlural(rows.sent, "row")}${had}, ${formatPlural(files, "file")}`;
  const open = state === "open" ? "; the run may go on, so it is left open (--finish ends it)" : "";
  return `${what} -> ${pageOf(url, place!)}${open}`;
}

/** The page of a run: the cloud shows runs at another address than it takes them. */
const pageOf = (
  url: string,
  { entity, project, run }: { entity: string; project: string; run: string },
): string =>
  `${url.replace("//api.wandb.ai", "//wandb.ai")}/${
    [entity, project].map(encodeURIComponent).join("/")
  }/runs/${encodeURIComponent(run)}`;

function asJson({ path, result, error }: SyncOutcome): Record<string, unknown> {
  if (error) return { path, state: "failed", error: error.message, code: error.exitCode };
  const { state, rows, files, damages, place, run } = result!;
  return { path, state, run: run?.id ?? null, ...place ?? {}, rows, files, damages };
}
