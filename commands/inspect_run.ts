// `hpctrain inspect` of a run's folder: its attempts, as lineage.json tells them. Imports core/checkpoint (types), core/track,
// core/format, core/errors.
import { dirname, join } from "../deps/path.ts";
import type { Description, Json } from "../core/checkpoint/describe.ts";
import { printable } from "../core/checkpoint/file_bytes.ts";
import { namesIn } from "../core/data/files.ts";
import { UserError } from "../core/errors.ts";
import { formatDuration, formatPlural } from "../core/format.ts";
import { type Attempt, endOf, type Lineage, lineageNow, lineagePath } from "../core/track/lineage.ts";

/** Attempts that are shown; --json has all. */
const SHOWN = 20;

/** A folder that a run writes to. */
export const isRun = (folder: string): boolean =>
  namesIn(folder).some((name) => name === "events.jsonl" || name === "lineage.json");

export function inspectRun(folder: string, json: boolean): void {
  const lineage = lineageNow(folder);
  if (lineage === null) {
    throw new UserError(
      "data",
      `${folder} is a run's folder without a lineage.json, which a run has from its next start on; ` +
        "events.jsonl tells what was measured.",
    );
  }
  console.log(json ? JSON.stringify(lineage, null, 2) : render(lineagePath(folder), lineage).join("\n"));
}

/** Of the run that wrote a checkpoint, where its logs lie beside it. */
export function lineageBeside({ path, values }: Description): { lineage: Lineage | null; lines: string[] } {
  const run = field(values.hpctrain, "run"), saveDir = field(field(values.config, "output"), "save_dir");
  if (typeof run !== "string" || !/^[\w.+-]+$/.test(run)) return { lineage: null, lines: [] };
  const folders = [join(dirname(path), ".."), ...(typeof saveDir === "string" ? [saveDir] : [])];
  for (const logs of folders.map((folder) => join(folder, "logs", run))) {
    try {
      const lineage = lineageNow(logs);
      if (lineage?.run === run) return { lineage, lines: render(lineagePath(logs), lineage) };
    } catch (error) {
      return { lineage: null, lines: [(error as Error).message] };
    }
  }
  return { lineage: null, lines: [] };
}

function render(path: string, { run, parent, goodput_percent: goodput, attempts }: Lineage): string[] {
  const good = goodput === null ? "" : `, goodput ${goodput.toFixed(1)}%`;
  const left = attempts.slice(-SHOWN);
  const said = [
    `${printable(path)}: run ${printable(String(run))}, ${formatPlural(attempts.length, "attempt")}${good}`,
    ...(parent
      ? [`  went on from ${printable(String(parent.checkpoint))} at step ${Number(parent.step)}`]
      : []),
    ...(left.length < attempts.length ? [`  the last ${SHOWN} (--json has all):`] : []),
  ];
  return [...said, ...aligned(left.map(row))];
}

function row(attempt: Attempt): string[] {
  const { attempt: number, started, last_seen, host, job_id, ranks, first_step, last_step, lost } = attempt;
  const steps = last_step < first_step ? "no step" : `steps ${first_step} to ${last_step}`;
  const costs = [
    `start ${formatDuration(lost.restart_s)}`,
    `saves ${formatDuration(lost.save_stall_s)}`,
    ...(lost.redone_steps > 0
      ? [`${formatPlural(lost.redone_steps, "step")} again ${formatDuration(lost.redone_s)}`]
      : []),
  ];
  return [
    `  ${number}`,
    `${new Date(started * 1000).toISOString().slice(0, 19)}Z`,
    job_id === null ? host : `${host} (job ${job_id})`,
    formatPlural(ranks, "rank"),
    steps,
    `${endOf(attempt)} after ${formatDuration(last_seen - started)}`,
    `lost: ${costs.join(", ")}`,
  ].map((cell) => printable(String(cell)));
}

function aligned(rows: readonly string[][]): string[] {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i].length)));
  return rows.map((row) => row.map((cell, i) => cell.padEnd(widths[i])).join("  ").trimEnd());
}

const field = (value: Json | undefined, key: string): Json | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value[key] : undefined;
