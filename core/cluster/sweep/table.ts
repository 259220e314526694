// How the runs of a sweep stand, from their own files. May import track, format, manifest (types), @std/path.
import { join } from "../../../deps/path.ts";
import { formatValue } from "../../format.ts";
import { openRun, type RunData } from "../../track/run_data.ts";
import { progressOf, standingOf, type State } from "../../track/standing.ts";
import type { Sweep, SweepRun } from "./manifest.ts";

export interface Row {
  readonly run: string;
  readonly values: SweepRun["values"];
  readonly state: State | "waiting";
  readonly step: number;
  readonly steps: number | null;
  /** The sweep's metric, of the step with the best validation loss. */
  readonly metric: number | null;
  readonly epoch: number | null;
  readonly folder: string;
  readonly why: string;
}

export function rowsOf(sweep: Sweep, now = Date.now() / 1000): Row[] {
  return sweep.runs.map(({ run, values }) => {
    const folder = join(sweep.saveDir, "logs", run);
    const data = read(folder);
    if (data === null) {
      return {
        run,
        values,
        state: "waiting",
        step: 0,
        steps: null,
        metric: null,
        epoch: null,
        folder,
        why: "Not begun",
      };
    }
    const { state, why } = standingOf(data, now);
    const { step, steps } = progressOf(data);
    const metric = metricOf(data, sweep.metric);
    return { run, values, state, step, steps, metric, epoch: data.best?.epoch ?? null, folder, why };
  });
}

function read(folder: string): RunData | null {
  try {
    Deno.statSync(join(folder, "events.jsonl"));
  } catch {
    return null;
  }
  const reader = openRun(folder);
  try {
    reader.poll();
    return reader.data;
  } finally {
    reader.close();
  }
}

function metricOf({ best, bestMetrics }: RunData, metric: string): number | null {
  const name = metric.replace(/^val_/, "");
  return name === "loss" ? best?.loss ?? null : bestMetrics[name] ?? null;
}

const LARGER_IS_BETTER = /^(val_)?(acc|accuracy|top5|r2|f1|auc|iou|mean_iou|dice|precision|recall)/i;

export const wantsLargest = (metric: string): boolean => LARGER_IS_BETTER.test(metric);

/** Those with a number for the metric, best first. */
export function ranked(rows: readonly Row[], metric: string): Row[] {
  const sign = wantsLargest(metric) ? -1 : 1;
  return rows.filter((row) => row.metric !== null && Number.isFinite(row.metric))
    .sort((a, b) => sign * (a.metric! - b.metric!));
}

export function table(rows: readonly Row[], metric: string): string[] {
  const names = [...new Set(rows.flatMap(({ values }) => Object.keys(values)))];
  const head = ["run", ...names, "state", "step", metric];
  const lines = rows.map(({ run, values, state, step, steps, metric: value }) => [
    run,
    ...names.map((name) => values[name] ?? ""),
    state,
    steps === null ? String(step) : `${step}/${steps}`,
    value === null ? "" : formatValue(value),
  ]);
  const all = [head, ...lines];
  const widths = head.map((_, i) => Math.max(...all.map((line) => line[i].length)));
  return all.map((line) => line.map((cell, i) => cell.padEnd(widths[i])).join("  ").trimEnd());
}
