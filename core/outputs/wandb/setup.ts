// Chooses the W&B run and gathers its facts, on the training thread.
import { monitorOf } from "../../run/best.ts";
import { dirname, join, relative, resolve } from "../../../deps/path.ts";
import { entriesIn, holdFolder, pathExists } from "../../base/files.ts";
import type { Config } from "../../settings/settings.ts";
import { asWrittenAll } from "../../settings/values.ts";
import { UserError } from "../../base/errors.ts";
import { recordsIn } from "./file.ts";
import { uploadedStep } from "./sync/state.ts";
import type { Emitted } from "../../run/events.ts";
import type { Output, RunFacts } from "../../run/output.ts";
import { CONFUSION } from "./media.ts";
import type { WandbSetup } from "./records.ts";
import { commandWithoutSecrets, HIDDEN, isSecretName, withoutSecrets } from "../../base/secrets.ts";
import { VERSION } from "../../base/version.ts";
import type { GrowingRun } from "./sync/upload.ts";
import type { FromThread, ToThread } from "./sync/online_thread.ts";

export interface WandbOptions extends Omit<RunFacts, "parent"> {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

const wantsWandb = ({ wandb }: Pick<Config, "wandb">): boolean =>
  wandb.enabled && !wandb.disabled && wandb.mode !== "disabled";

/** After this wait at the end of a run, sync-wandb has to upload the rest. The end has 30 s (core/train/leaving_bound.ts). */
const UPLOAD_PATIENCE_MS = 20_000;

export function wandbOutput({ parent, ...run }: RunFacts): Output | null {
  const wandb = wandbSetup({
    ...run,
    config: ownConfig(run.config, parent),
    id: run.resumed && (run.id ?? notedId(run.logs)),
    argv: Deno.args,
    env: Deno.env.toObject(),
  });
  if (wandb === null) return null;
  noteId(run.logs, wandb);
  const { mode, histograms, images } = run.config.wandb;
  const path = relativePath(dirname(wandb.path)), version = `hpctrain ${VERSION}`;
  let online: OnlineUpload | null = null;
  return {
    name: "W&B run",
    module: import.meta.resolve("./sink.ts"),
    setup: wandb,
    wants: { histograms, pictures: images, confusion: 1 },
    id: wandb.run.id,
    path,
    next: mode === "online" ? null : { label: "upload to W&B", words: ["sync-wandb", path] },
    observe(event, warn) {
      if (mode !== "online" || online !== null || !isUnderWay(event)) return; // a start that fails uploads nothing
      online = startOnlineUpload({ path: wandb.path, version }, warn);
    },
    closed: async () => await online?.end(UPLOAD_PATIENCE_MS),
  };
}

const isUnderWay = (event: Emitted): boolean =>
  event.kind === "times" ? event.steps > 0 : ["eval", "epoch", "save"].includes(event.kind);

function relativePath(path: string): string {
  const short = relative(Deno.cwd(), path);
  return short.startsWith("..") ? path : short;
}

/** A run from another run's checkpoint gets its own id, even if that id was given by hand. */
const ownConfig = (config: Config, parent: RunFacts["parent"]): Config =>
  parent?.wandb?.id === config.wandb.id ? { ...config, wandb: { ...config.wandb, id: "" } } : config;

/** It holds the id of a run that ends before its first save. */
const idFile = (logs: string) => join(logs, "wandb.json");

function notedId(logs: string): string | null {
  try {
    const { id } = JSON.parse(Deno.readTextFileSync(idFile(logs)));
    return typeof id === "string" ? id : null;
  } catch {
    return null; // the first attempt
  }
}

function noteId(logs: string, { run: { id }, path }: WandbSetup): void {
  try {
    Deno.writeTextFileSync(idFile(logs), JSON.stringify({ id, path }) + "\n");
  } catch { /* it is in the first checkpoint */ }
}

export function wandbSetup(of: WandbOptions): WandbSetup | null {
  const { wandb } = of.config;
  if (!wantsWandb(of.config)) return null;
  const files = filesOf(of);
  const parent = join(wandb.dir ? resolve(wandb.dir) : resolve(of.logs, ".."), "wandb");
  const id = wandb.id || of.id || newId();
  const before = foldersOf(parent, id);
  const uploaded = before.filter(isUploaded);
  const last = before.at(-1);
  // An id given by hand may belong to a finished run, which stays whole.
  const goesOn = last !== undefined && !isUploaded(last) && !(of.resumed === null && isFinished(last, id));
  const folder = goesOn ? last : join(parent, `offline-run-${stamp(of.began)}-${id}`);
  // A missing folder was uploaded, so the server has its rows.
  const removed = before.length === 0 && of.resumed !== null && of.id === id;
  hold(folder, id);
  return {
    path: fileIn(folder, id),
    run: {
      id,
      entity: wandb.entity,
      project: wandb.project,
      group: wandb.group,
      jobType: wandb.job_type || "train",
      name: wandb.run_name || of.run,
      notes: wandb.notes,
      tags: wandb.tags,
      host: Deno.hostname(),
      startTime: of.began,
      resume: !goesOn && (before.length > 0 || removed),
    },
    config: {
      ...asWrittenAll(of.config),
      run: { name: of.run, ...of.facts },
      ...(of.confuses && { _wandb: CONFUSION }),
    },
    monitor: monitorOf(of.config),
    environment: environmentOf(of),
    again: of.resumed ?? (goesOn ? { step: 0, epoch: 0 } : null),
    events: resolve(of.logs, "events.jsonl"),
    after: removed ? of.resumed?.step ?? -1 : goesOn ? uploadedStep(fileIn(folder, id)) ?? -1 : -1,
    uploaded: uploaded.map((folder) => fileIn(folder, id)),
    pace: of.pace,
    files,
  };
}

const fileIn = (folder: string, id: string) => join(folder, `run-${id}.wandb`);

/** W&B's own program writes this marker. */
const isUploaded = (folder: string): boolean => {
  const id = folder.slice(folder.lastIndexOf("offline-run-")).replace(/^offline-run-\d{8}_\d{6}-/, "");
  return pathExists(`${fileIn(folder, id)}.synced`);
};

function isFinished(folder: string, id: string): boolean {
  let code: number | null = null;
  try {
    for (const record of recordsIn(fileIn(folder, id))) if (record.kind === "exit") code = record.code;
  } catch { /* what can't be read is gone on with */ }
  return code === 0;
}

/** The oldest is first, because names begin with the time. */
const foldersOf = (parent: string, id: string): string[] =>
  entriesIn(parent)
    .filter((name) => /^offline-run-\d{8}_\d{6}-/.test(name) && name.slice(28) === id)
    .map((name) => join(parent, name))
    .filter((folder) => pathExists(fileIn(folder, id)));

/** The lock lasts until the process ends: two writers would destroy the file. */
function hold(folder: string, id: string): void {
  try {
    Deno.mkdirSync(folder, { recursive: true });
  } catch {
    return; // the writer there reports what is wrong with it
  }
  if (holdFolder(folder)) return;
  throw new UserError(
    "usage",
    `Another process is writing the W&B run ${id} (it holds ${folder}). Wait for it, or give this run an id of ` +
      "its own: unset WANDB_RUN_ID, or use --wandb-id ID.",
  );
}

function filesOf({ config, checkpoints, logs }: WandbOptions): WandbSetup["files"] {
  const sources: Record<string, readonly [name: string, source: string]> = {
    best: ["checkpoints/best", checkpoints.best],
    latest: ["checkpoints/latest", checkpoints.latest],
    report: ["report", join(logs, "report.html")],
    lineage: ["lineage", join(logs, "lineage.json")],
  };
  return config.wandb.files.map((wanted) => {
    const found = sources[wanted];
    if (!found) {
      throw new UserError(
        "usage",
        `wandb.files (--wandb-files) takes ${Object.keys(sources).join(", ")}, but got "${wanted}".`,
      );
    }
    const [name, source] = found;
    return { name: name + source.slice(source.lastIndexOf(".")), source: resolve(source) };
  });
}

/** W&B writes local time: 20260131_235959. */
function stamp(t: number): string {
  const d = new Date(t * 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  const day = `${d.getFullYear()}${two(d.getMonth() + 1)}${two(d.getDate())}`;
  return `${day}_${two(d.getHours())}${two(d.getMinutes())}${two(d.getSeconds())}`;
}

const LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz";

/**
 * W&B ids have eight letters and digits. They do not depend on the seed: two runs with one seed are two
 * runs.
 */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join("");
}

function environmentOf({ argv, began, gpus, env }: WandbOptions): WandbSetup["environment"] {
  const git = gitFacts(".");
  const { cores, threads } = processors();
  return {
    os: `Linux-${Deno.osRelease()}-${Deno.build.arch}`,
    python: `none: hpctrain ${VERSION} (Deno ${Deno.version.deno})`,
    startedAt: new Date(began * 1000).toISOString(),
    args: commandWithoutSecrets(argv),
    program: "hpctrain",
    git: git ? { remote: git.remote, commit: git.commit } : undefined,
    root: Deno.cwd(),
    host: Deno.hostname(),
    username: env.USER ?? env.LOGNAME,
    executable: Deno.execPath(),
    cpu_count: cores,
    cpu_count_logical: threads,
    gpu_count: gpus || undefined,
    memory: { total: String(Deno.systemMemoryInfo().total) },
    slurm: slurmFacts(env),
  };
}

/** Variables that a job was submitted with stand in SLURM_EXPORT_ENV. W&B calls SLURM_JOB_ID "job_id". */
function slurmFacts(env: WandbOptions["env"]): Record<string, string> | undefined {
  const facts = Object.entries(env)
    .filter(([name, value]) =>
      name.startsWith("SLURM_") && value && name !== "SLURM_EXPORT_ENV" && !isSecretName(name)
    )
    .map(([name, value]) =>
      [name.slice("SLURM_".length).toLowerCase(), withoutSecrets(value ?? "").slice(0, 1000)] as const
    );
  return facts.length > 0 ? Object.fromEntries(facts.sort()) : undefined;
}

function processors(): { cores?: number; threads: number } {
  const threads = navigator.hardwareConcurrency;
  try {
    const found = Deno.readTextFileSync("/proc/cpuinfo").split("\n\n").map((part) =>
      `${/physical id\s*: (\d+)/.exec(part)?.[1]}/${/core id\s*: (\d+)/.exec(part)?.[1]}`
    );
    const cores = new Set(found.filter((core) => !core.includes("undefined"))).size;
    return { cores: cores || undefined, threads };
  } catch {
    return { threads };
  }
}

interface GitFacts {
  readonly commit?: string;
  readonly remote?: string;
  readonly root: string;
}

/** Reads .git without a process. */
export function gitFacts(folder: string): GitFacts | null {
  const root = rootOf(resolve(folder));
  if (root === null) return null;
  const git = gitFolder(root);
  const commit = commitOf(git);
  const remote = remoteOf(git);
  return commit === undefined && remote === undefined ? null : { commit, remote, root };
}

function rootOf(folder: string): string | null {
  for (let at = folder;; at = dirname(at)) {
    if (pathExists(join(at, ".git"))) return at;
    if (dirname(at) === at) return null;
  }
}

/** In a worktree or a submodule .git is a file that names the folder. */
function gitFolder(root: string): string {
  const path = join(root, ".git");
  const named = /^gitdir: (.+)/.exec(text(path) ?? "")?.[1];
  return named ? resolve(root, named.trim()) : path;
}

/** Worktrees share the folder of branches. */
function commonFolder(git: string): string {
  const common = text(join(git, "commondir"))?.trim();
  return common ? resolve(git, common) : git;
}

const HASH = /^[0-9a-f]{40,64}$/;

function commitOf(git: string): string | undefined {
  const head = text(join(git, "HEAD"))?.trim() ?? "";
  const branch = /^ref: (.+)$/.exec(head)?.[1];
  if (branch === undefined) return HASH.test(head) ? head : undefined;
  const common = commonFolder(git);
  const loose = text(join(git, branch))?.trim() ?? text(join(common, branch))?.trim() ?? "";
  if (HASH.test(loose)) return loose;
  const packed = (text(join(common, "packed-refs")) ?? "").split("\n")
    .find((line) => line.endsWith(` ${branch}`))?.split(" ")[0] ?? "";
  return HASH.test(packed) ? packed : undefined;
}

/** "origin" comes first. */
function remoteOf(git: string): string | undefined {
  let remote: string | undefined, section = "";
  for (const line of (text(join(commonFolder(git), "config")) ?? "").split("\n")) {
    const title = /^\s*\[(.+)\]\s*$/.exec(line)?.[1];
    if (title !== undefined) section = title;
    const url = /^\s*url\s*=\s*"?([^\s"]+)/.exec(line)?.[1];
    if (url === undefined || !/^remote\s/.test(section)) continue;
    if (remote === undefined || section === 'remote "origin"') remote = url;
  }
  return remote && publicRemote(remote);
}

/**
 * Where a repository is, and nothing of who asks for it: what stands before an @, and behind a question mark, may be a
 * token. "git@" is everybody's.
 */
function publicRemote(remote: string): string {
  const address = remote.includes("://")
    ? withoutSecrets(remote).replace(`${HIDDEN}@`, "")
    : /^([./]|git@[^@]*$)/.test(remote)
    ? remote
    : remote.slice(remote.lastIndexOf("@") + 1);
  return address.replace(/[?#].*$/, "");
}

function text(path: string): string | null {
  try {
    const { isFile, size } = Deno.statSync(path);
    return isFile && size < 16e6 ? Deno.readTextFileSync(path) : null;
  } catch {
    return null;
  }
}

interface OnlineUpload {
  /** Call it after the run's last record. It waits at most `limitMs` for the upload. */
  end(limitMs: number): Promise<"synced" | "open" | null>;
}

/** Returns at once; `warn` runs on the training thread's event loop. */
function startOnlineUpload(run: GrowingRun, warn: (sentence: string) => void): OnlineUpload {
  const thread = new Worker(new URL("./sync/online_thread.ts", import.meta.url), {
    type: "module",
    name: "upload",
  });
  const send = (message: ToThread) => thread.postMessage(message);
  const state = new Promise<"synced" | "open" | null>((resolve) => {
    thread.onmessage = ({ data }: MessageEvent<FromThread>) => {
      if ("warning" in data) warn(data.warning);
      else resolve(data.state);
    };
    thread.onerror = (event) => {
      event.preventDefault(); // training goes on
      warn(`The upload to W&B has ended (${event.message}). Later: hpctrain sync-wandb`);
      resolve(null);
    };
  });
  send({ run });
  return {
    async end(limitMs) {
      send({ ended: limitMs });
      let timer = 0;
      const overdue = new Promise<"open">((resolve) =>
        timer = setTimeout(() => resolve("open"), limitMs + 1000)
      );
      try {
        return await Promise.race([state, overdue]);
      } finally {
        clearTimeout(timer);
        thread.terminate();
      }
    },
  };
}
