// Which W&B run this is and where its file lies: made on the training thread, before the one that writes it.
// May import ffi/lock.ts, config (types), errors, event types, its siblings.
import { join, resolve } from "../../../deps/path.ts";
import { holdFolder } from "../../../ffi/lock.ts";
import type { Config } from "../../config/settings.ts";
import { UserError } from "../../errors.ts";
import { recordsIn } from "./again.ts";
import { environmentOf } from "./environment.ts";
import { uploadedStep } from "./sync/state.ts";
import type { Pace, WandbSetup } from "./types.ts";
import { isThere } from "../../there.ts";

/** What training knows of the run. */
export interface WandbOf {
  readonly config: Config;
  readonly run: string;
  /** The folders of the run's logs, and of all of them. */
  readonly logs: string;
  readonly checkpoints: { readonly best: string; readonly latest: string };
  /** The id in the checkpoint that this run goes on from; null where there is none. */
  readonly id: string | null;
  /** Set where a run goes on: what is done. */
  readonly resumed: { readonly step: number; readonly epoch: number } | null;
  readonly pace: Pace;
  /** Facts beside the settings: model, parameters, ranks, libtorch. */
  readonly facts: Readonly<Record<string, unknown>>;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly began: number;
  readonly gpus: number;
}

/** Whether a W&B run is to be written. */
export const wantsWandb = ({ wandb }: Pick<Config, "wandb">): boolean =>
  wandb.enabled && !wandb.disabled && wandb.mode !== "disabled";

/** Null where none is wanted. */
export function wandbSetup(of: WandbOf): WandbSetup | null {
  const { wandb } = of.config;
  if (!wantsWandb(of.config)) return null;
  const files = filesOf(of);
  const parent = join(wandb.dir ? resolve(wandb.dir) : resolve(of.logs, ".."), "wandb");
  const id = wandb.id || of.id || newId();
  const before = foldersOf(parent, id);
  const uploaded = before.filter(isUploaded);
  const last = before.at(-1);
  // An id that is given by hand may be that of a run that is over: that one stays whole.
  const goesOn = last !== undefined && !isUploaded(last) && !(of.resumed === null && isFinished(last, id));
  const folder = goesOn ? last : join(parent, `offline-run-${stamp(of.began)}-${id}`);
  // Whoever removes a folder has sent it: the server has those rows.
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
    config: { ...of.config, run: { name: of.run, ...of.facts } },
    environment: environmentOf(of),
    again: of.resumed ?? (goesOn ? { step: 0, epoch: 0 } : null),
    events: resolve(of.logs, "events.jsonl"),
    after: removed ? of.resumed!.step : goesOn ? uploadedStep(fileIn(folder, id)) ?? -1 : -1,
    uploaded: uploaded.map((folder) => fileIn(folder, id)),
    pace: of.pace,
    files,
  };
}

const fileIn = (folder: string, id: string) => join(folder, `run-${id}.wandb`);

/** W&B's own mark of a file that was sent; ours is the same. */
const isUploaded = (folder: string): boolean => {
  const id = folder.slice(folder.lastIndexOf("offline-run-")).replace(/^offline-run-\d{8}_\d{6}-/, "");
  return isThere(`${fileIn(folder, id)}.synced`);
};

function isFinished(folder: string, id: string): boolean {
  let code: number | null = null;
  try {
    for (const record of recordsIn(fileIn(folder, id))) if (record.kind === "exit") code = record.code;
  } catch { /* what can't be read is gone on with */ }
  return code === 0;
}

/** Folders that have a file of this run, the oldest first: their names begin with the time. */
function foldersOf(parent: string, id: string): string[] {
  try {
    return [...Deno.readDirSync(parent)]
      .filter(({ name }) => /^offline-run-\d{8}_\d{6}-/.test(name) && name.slice(28) === id)
      .map(({ name }) => join(parent, name))
      .filter((folder) => isThere(fileIn(folder, id)))
      .sort();
  } catch {
    return []; // the first run here
  }
}

/** Two writers of one file would be the end of it. The lock is this process's, until it ends. */
function hold(folder: string, id: string): void {
  try {
    Deno.mkdirSync(folder, { recursive: true });
  } catch {
    return; // whoever writes there says what is wrong with it
  }
  if (holdFolder(folder)) return;
  throw new UserError(
    "usage",
    `Another process is writing the W&B run ${id} (it holds ${folder}). Wait for it, or give this run an id of ` +
      "its own: unset WANDB_RUN_ID, or use --wandb-id ID.",
  );
}

function filesOf({ config, checkpoints, logs }: WandbOf): WandbSetup["files"] {
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

/** Local time, as W&B has it: 20260131_235959. */
function stamp(t: number): string {
  const d = new Date(t * 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  const day = `${d.getFullYear()}${two(d.getMonth() + 1)}${two(d.getDate())}`;
  return `${day}_${two(d.getHours())}${two(d.getMinutes())}${two(d.getSeconds())}`;
}

const LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz";

/** Eight letters and digits, as W&B's own. Not from the seed: two runs of one seed are two runs. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join("");
}
