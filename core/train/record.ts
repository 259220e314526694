// What a run writes down: console, events, lineage and its W&B run.
import { dirname, join, relative } from "../../deps/path.ts";
import { cudaUuid } from "../../ffi/cuda.ts";
import type { Device } from "../../ffi/tensor.ts";
import { parseDuration } from "../settings/setting.ts";
import type { Config } from "../settings/settings.ts";
import type { Team } from "../ranks/team.ts";
import { type Console, openConsole } from "../run/console.ts";
import type { EventLog } from "../run/event_log.ts";
import { type LineageWriter, openLineage } from "../run/lineage.ts";
import type { SystemSetup } from "../run/system.ts";
import type { Emitted } from "../run/events.ts";
import { type OnlineUpload, startOnlineUpload } from "../outputs/wandb/sync/online.ts";
import type { WandbSetup } from "../outputs/wandb/types.ts";
import { openRankTrack, openTrack } from "../run/writer/track.ts";
import { VERSION } from "../base/version.ts";
import { type Alerts, openAlerts } from "./guards/alerts.ts";
import { bestPath, latestPath, type RunPaths } from "./run_folder.ts";
import { consoleOfRank, noEvents, noLineage } from "./rank_group.ts";
import type { Resume } from "./resume.ts";
import type { Libtorch } from "../../ffi/libraries/find.ts";
import type { Cursor } from "../checkpoint/training_state.ts";
import { parameterCount } from "../models/model.ts";
import { wandbSetup } from "../outputs/wandb/setup.ts";
import { placeInEpoch } from "./batches.ts";
import type { Trained } from "./prepare.ts";

// What a run writes down: the console, events.jsonl, its lineage; of other ranks their own log alone.

export interface Record {
  readonly console: Console;
  readonly lineage: LineageWriter;
  readonly events: EventLog;
  /** The id of the run at W&B, and where its file lies; null without one. */
  readonly wandb: string | null;
  readonly wandbFolder: string | null;
}

/** How long the end of a run waits for a W&B server; what is not uploaded then, sync-wandb uploads. */
const UPLOAD_PATIENCE_MS = 30_000;

interface RecordContext {
  readonly config: Config;
  readonly device: Device;
  readonly resume: Resume | null;
  readonly team?: Team | null;
  readonly began?: number;
}

export function openRecord(
  start: RecordContext,
  { logs, ...places }: RunPaths,
  step: number,
  idle: boolean,
  wandb: WandbSetup | null,
): Record {
  const { quiet, json } = start.config.output;
  let events: EventLog | null = null;
  const console = openConsole({
    quiet,
    json,
    told: (text, stream) => events?.note({ kind: "console", t: Date.now() / 1000, stream, text }),
  });
  const lineage = openLineage(logs, { ...lineageOf(start, { logs, ...places }, step, console.warn), idle });
  const alerts = alertsOf(start, { logs, ...places }, console.warn);
  let online: OnlineUpload | null = null;
  const upload = (event: Emitted) => { // a start that fails leaves no run at the server
    if (online !== null || wandb === null || start.config.wandb.mode !== "online" || !isUnderWay(event)) {
      return;
    }
    online = startOnlineUpload({ path: wandb.path, version: `hpctrain ${VERSION}` }, console.warn);
  };
  events = openTrack(`${logs}/events.jsonl`, {
    warn: console.warn,
    mirror: json ? console.event : undefined,
    observe(event, t) {
      lineage.observe(event, t);
      upload(event);
      alerts?.observe(event, t);
    },
    closed: async () => {
      await Promise.all([alerts?.close(), online?.end(UPLOAD_PATIENCE_MS)]);
    },
    system: systemOf(start, logs),
    log: Deno.env.has("HPCTRAIN_LAUNCH") ? null : `${logs}/rank-0.log`, // launch keeps what its ranks print
    wandb,
  });
  return {
    console,
    lineage,
    events,
    wandb: wandb?.run.id ?? null,
    wandbFolder: wandb && fromHere(dirname(wandb.path)),
  };
}

/** As short as it can be said in this folder. */
function fromHere(path: string): string {
  const short = relative(Deno.cwd(), path);
  return short.startsWith("..") ? path : short;
}

/** Whether a step was done. */
const isUnderWay = (event: Emitted): boolean =>
  event.kind === "times" ? event.steps > 0 : ["eval", "epoch", "save"].includes(event.kind);

function alertsOf(
  { config }: RecordContext,
  { run, logs }: RunPaths,
  warn: (message: string) => void,
): Alerts | null {
  const command = config.output.on_event;
  return command === "" ? null : openAlerts({ command, run, logs, warn });
}

export function recordOfRank(start: RecordContext, { logs }: RunPaths): Record {
  const console = consoleOfRank(start.team!.rank, logs);
  const system = systemOf(start, logs);
  const events = system ? openRankTrack(system, console.warn) : noEvents;
  return { console, lineage: noLineage, events, wandb: null, wandbFolder: null };
}

function systemOf({ config, device, team }: RecordContext, logs: string): SystemSetup | null {
  const interval = parseDuration(config.output.system_interval, "seconds")!.count;
  if (interval === 0) return null;
  const gpu = device === "cpu" ? null : cudaUuid(Number(device.slice("cuda:".length)));
  return { rank: team?.rank ?? 0, world: team?.world ?? 1, interval, logs, gpu };
}

function lineageOf(
  { resume, began }: RecordContext,
  { run }: RunPaths,
  step: number,
  warn: (message: string) => void,
) {
  return {
    run,
    began: began ?? Date.now() / 1000,
    step,
    resumedFrom: resume?.path ?? null,
    parent: resume && resume.run === null
      ? { run: resume.from ?? null, checkpoint: resume.path, step }
      : null,
    warn,
  };
}

// The W&B run that a training run writes: its id over all attempts, and what it begins with.

interface WandbContext {
  readonly config: Config;
  readonly device: Device;
  readonly libtorch: Libtorch;
  readonly resume: Resume | null;
  readonly again?: string | null;
  readonly team?: Team | null;
  readonly began?: number;
}

/** Null where none is wanted. */
export function wandbOf(
  start: WandbContext,
  { built, plan }: Trained,
  places: RunPaths,
  cursor: Cursor,
): WandbSetup | null {
  const { resume, again, device, team, began } = start;
  const goesOn = (resume !== null && resume.run !== null) || !!again;
  const { data, model } = built;
  const world = team?.world ?? 1;
  const onGpu = device !== "cpu";
  const { step, epoch } = cursor;
  const { stepInEpoch } = placeInEpoch(cursor, plan, data.train.length);
  const setup = wandbSetup({
    config: ownConfig(start),
    run: places.run,
    logs: places.logs,
    checkpoints: { best: bestPath(places), latest: latestPath(places) },
    id: goesOn ? resume?.wandb ?? noted(places) : null,
    resumed: goesOn ? { step, epoch } : null,
    pace: {
      step,
      stepInEpoch,
      stepsPerEpoch: plan.stepsPerEpoch,
      maxSteps: start.config.training.max_steps,
    },
    facts: {
      version: VERSION,
      model: model.name,
      parameters: parameterCount(model.root),
      world_size: world,
      device: onGpu ? "cuda" : "cpu",
      libtorch: start.libtorch.versionText,
      train_samples: data.train.length,
      val_samples: data.val?.length ?? 0,
      steps_per_epoch: plan.stepsPerEpoch,
      global_batch_size: plan.global,
    },
    argv: Deno.args,
    env: Deno.env.toObject(),
    began: began ?? Date.now() / 1000,
    gpus: onGpu ? world : 0,
  });
  if (setup) note(places, setup);
  return setup;
}

/** Another run from the same checkpoint does not go on with its W&B run, whatever that was called by hand. */
function ownConfig({ config, resume }: WandbContext): Config {
  const inherited = resume !== null && resume.run === null &&
    (resume.saved as Partial<Config> | null)?.wandb?.id === config.wandb.id;
  return inherited ? { ...config, wandb: { ...config.wandb, id: "" } } : config;
}

/** Beside the events: a run that ended before its first save has no checkpoint with the id in it. */
const fileOf = ({ logs }: RunPaths) => join(logs, "wandb.json");

function noted(places: RunPaths): string | null {
  try {
    const { id } = JSON.parse(Deno.readTextFileSync(fileOf(places)));
    return typeof id === "string" ? id : null;
  } catch {
    return null;
  }
}

function note(places: RunPaths, { run: { id }, path }: WandbSetup): void {
  try {
    Deno.writeTextFileSync(fileOf(places), JSON.stringify({ id, path }) + "\n");
  } catch { /* it is in the first checkpoint */ }
}
