// What ranks other than the first have in place of the event log and of checkpoints: those are written once.
// May import track, saver (types).
import { type Console, openConsole } from "../../track/console.ts";
import type { EventLog } from "../../track/events.ts";
import type { LineageWriter } from "../../track/lineage_writer.ts";
import type { Saver } from "../saver.ts";

export const noEvents: EventLog = { emit() {}, note() {}, flush() {}, rewind() {}, lost: 0, close() {} };

/** What a rank other than the first says is for its own file: the story is told once. */
export function consoleOfRank(rank: number, logs: string): Console {
  const path = `${logs}/rank-${rank}.log`;
  const write = (text: string) => Deno.writeTextFileSync(path, text, { append: true });
  return openConsole({ quiet: true, json: false, isTerminal: false, write, writeError: write });
}

export const noLineage: LineageWriter = { lines: [], observe() {}, stepped() {}, summary: () => null };

export const noSaver = (gather?: () => void): Saver => ({
  ready() {},
  save: () => Promise.resolve(gather?.()),
  hold() {},
  settle: () => Promise.resolve(),
  told: { saves: 0, stallSeconds: 0, longest: 0 },
  close: () => Promise.resolve(),
});
