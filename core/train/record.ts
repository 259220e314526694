// What a run writes down: the console, events.jsonl, its lineage; of other ranks their own log alone.
// May import track, its siblings.
import type { Config } from "../config/settings.ts";
import { type Console, openConsole } from "../track/console.ts";
import { type EventLog, openEvents } from "../track/events.ts";
import { type LineageWriter, openLineage } from "../track/lineage_writer.ts";
import type { Places } from "./names.ts";
import { consoleOfRank, noEvents, noLineage } from "./parallel/silent.ts";
import type { Resume } from "./resume.ts";

export interface Record {
  readonly console: Console;
  readonly lineage: LineageWriter;
  readonly events: EventLog;
}

interface Of {
  readonly config: Config;
  readonly resume: Resume | null;
  readonly began?: number;
}

export function openRecord(start: Of, { logs, ...places }: Places, step: number): Record {
  const { quiet, json } = start.config.output;
  const console = openConsole({ quiet, json });
  const lineage = openLineage(logs, lineageOf(start, { logs, ...places }, step, console.warn));
  const options = { warn: console.warn, mirror: console.event, observe: lineage.observe };
  return { console, lineage, events: openEvents(`${logs}/events.jsonl`, options) };
}

export const recordOfRank = (rank: number, { logs }: Places): Record => ({
  console: consoleOfRank(rank, logs),
  lineage: noLineage,
  events: noEvents,
});

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
