// What a run writes down: the console, events.jsonl, its lineage; of other ranks their own log alone.
// May import ffi, config, dist (types), track, its siblings.
import { dirname, relative } from "../../deps/path.ts";
import { cudaUuid } from "../../ffi/cuda.ts";
import type { Device } from "../../ffi/tensor.ts";
import { parseDuration } from "../config/duration.ts";
import type { Config } from "../config/settings.ts";
import type { Team } from "../dist/team.ts";
import { type Console, openConsole } from "../track/console.ts";
import type { EventLog } from "../track/events.ts";
import { type LineageWriter, openLineage } from "../track/lineage_writer.ts";
import type { SystemSetup } from "../track/system/sampler.ts";
import type { Emitted } from "../track/event_types.ts";
import { type Online, startOnline } from "../track/wandb/sync/online.ts";
import type { WandbSetup } from "../track/wandb/types.ts";
import { openRankTrack, openTrack } from "../track/thread/track.ts";
import { VERSION } from "../version.ts";
import { type Alerts, openAlerts } from "./guards/alerts.ts";
import type { Places } from "./names.ts";
import { consoleOfRank, noEvents, noLineage } from "./parallel/silent.ts";
import type { Resume } from "./resume.ts";

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

interface Of {
  readonly config: Config;
  readonly device: Device;
  readonly resume: Resume | null;
  readonly team?: Team | null;
  readonly began?: number;
}

export function openRecord(
  start: Of,
  { logs, ...places }: Places,
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
  let online: Online | null = null;
  const upload = (event: Emitted) => { // a start that fails leaves no run at the server
    if (online !== null || wandb === null || start.config.wandb.mode !== "online" || !isUnderWay(event)) {
      return;
    }
    online = startOnline({ path: wandb.path, version: `hpctrain ${VERSION}` }, console.warn);
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

function alertsOf({ config }: Of, { run, logs }: Places, warn: (message: string) => void): Alerts | null {
  const command = config.output.on_event;
  return command === "" ? null : openAlerts({ command, run, logs, warn });
}

export function recordOfRank(start: Of, { logs }: Places): Record {
  const console = consoleOfRank(start.team!.rank, logs);
  const system = systemOf(start, logs);
  const events = system ? openRankTrack(system, console.warn) : noEvents;
  return { console, lineage: noLineage, events, wandb: null, wandbFolder: null };
}

function systemOf({ config, device, team }: Of, logs: string): SystemSetup | null {
  const interval = parseDuration(config.output.system_interval, "seconds")!.count;
  if (interval === 0) return null;
  const gpu = device === "cpu" ? null : cudaUuid(Number(device.slice("cuda:".length)));
  return { rank: team?.rank ?? 0, world: team?.world ?? 1, interval, logs, gpu };
}

function lineageOf({ resume, began }: Of, { run }: Places, step: number, warn: (message: string) => void) {
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
