// The parts of the screen that are not curves: what run, how far, its ranks, its GPUs, its warnings. Pure. May import
// run_data and standing (types), lineage, format, text.
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatLearningRate,
  formatPlural,
  formatRate,
  formatValue,
} from "../../format.ts";
import { ownWork, percentages, spentOfRank } from "../account.ts";
import type { RunData } from "../run_data.ts";
import type { Progress, Standing, State } from "../standing.ts";
import { clip, type Colour, fitted, harmless, padded, painted, spread, type Style } from "./text.ts";

export interface View {
  readonly data: RunData;
  readonly standing: Standing;
  readonly progress: Progress;
  /** Unix seconds. */
  readonly now: number;
}

export const STATE_COLOUR: Readonly<Record<State, Colour>> = {
  starting: "cyan",
  running: "green",
  silent: "yellow",
  gone: "red",
  done: "green",
  stopped: "yellow",
  failed: "red",
};

export function head({ data, standing, progress, now }: View, width: number, style: Style): string[] {
  const { run, lineage } = data;
  const dot = style.unicode ? " · " : " - ";
  const state = painted(`${style.unicode ? "● " : ""}${standing.state}`, STATE_COLOUR[standing.state], style);
  const job = lineage?.attempts.at(-1)?.job_id;
  const facts = run === null ? [] : [
    `${harmless(String(run.model))}, ${formatCount(Number(run.parameters))} parameters`,
    `${formatPlural(Number(run.world_size), "rank")} on ${run.device === "cuda" ? "GPU" : "CPU"}`,
    `${harmless(String(run.host))}${job ? ` (job ${harmless(job)})` : ""}`,
  ];
  const between = painted(style.unicode ? " │ " : " | ", "dim", style);
  return [
    spread(painted(harmless(data.name), "bold", style), state, width, style),
    painted(fitted(facts, dot, width), "dim", style),
    "",
    progressBar(progress, width, style),
    fitted(measures(data, style), between, width),
    fitted(times(data, standing, progress, now), between, width),
    fitted(timeIn(data), between, width),
  ].map((line) => padded(line, width, style));
}

function progressBar(progress: Progress, width: number, style: Style): string {
  const { step, steps, epoch, epochs, secondsLeft } = progress;
  const share = steps === null ? null : Math.min(1, step / steps);
  const words = fitted(
    [
      share === null ? "" : `${(100 * share).toFixed(0)}%`.padStart(4),
      `step ${step}${steps === null ? "" : `/${steps}`}`,
      `epoch ${epoch}${epochs === null ? "" : `/${epochs}`}`,
      secondsLeft === null ? "" : `${formatDuration(secondsLeft)} left`,
    ],
    "  ",
    width,
  );
  const room = Math.min(60, width - words.length - 2);
  if (share === null || room < 10) return words;
  return `${bar([[share, "cyan"]], room, style)}  ${words}`;
}

/** Shares of a width, one after another; what is left is faint. */
export function bar(shares: readonly (readonly [number, Colour])[], width: number, style: Style): string {
  const glyphs = style.unicode ? ["█", "▒", "▚"] : ["#", "+", "o"];
  let out = "", used = 0, sum = 0;
  shares.forEach(([share, colour], i) => {
    sum += Math.max(0, share);
    const cells = Math.min(width, Math.round(sum * width)) - used;
    used += Math.max(0, cells);
    out += painted(glyphs[i % glyphs.length].repeat(Math.max(0, cells)), colour, style);
  });
  return out + painted((style.unicode ? "░" : ".").repeat(width - used), "dim", style);
}

function measures({ curves, best }: RunData, style: Style): string[] {
  const last = (name: string) => curves.get(name)?.last;
  const shown = (
    name: string,
    value: number | undefined,
    format: (value: number) => string,
    colour: Colour | null,
  ) => value === undefined ? "" : `${name} ${painted(format(value), colour, style)}`;
  const at = best === null ? "" : ` (best ${formatValue(best.loss)} at step ${best.step})`;
  const validation = shown("val loss", last("val_loss"), formatValue, "yellow");
  return [
    shown("loss", last("loss"), formatValue, "cyan"),
    validation && validation + at,
    shown("LR", last("lr"), formatLearningRate, null),
    shown("grad norm", last("grad_norm"), formatValue, null),
    shown("loss scale", last("loss_scale"), formatCount, null),
  ];
}

function times(
  { curves, lineage, exit, begunAt, lastAt, stallSeconds }: RunData,
  standing: Standing,
  progress: Progress,
  now: number,
) {
  const rate = curves.get("samples_per_s")?.last, memory = curves.get("memory_bytes")?.last;
  const over = exit !== null || standing.state === "gone";
  const attempts = lineage?.attempts.length ?? 0;
  const goodput = lineage?.goodput_percent ?? null;
  return [
    rate === undefined ? "" : `${formatRate(rate)} samples/s`,
    progress.stepsPerSecond === null ? "" : `${formatRate(progress.stepsPerSecond)} steps/s`,
    memory === undefined ? "" : formatBytes(memory),
    begunAt === null
      ? ""
      : `${formatDuration((over ? lastAt! : now) - begunAt)} ${over ? "in all" : "so far"}`,
    attempts > 1 ? `attempt ${attempts}` : "",
    goodput === null ? "" : `goodput ${goodput.toFixed(1)}%`,
    stallSeconds > 0 ? `saves held ${formatDuration(stallSeconds)}` : "",
  ];
}

/** Where the run's time went so far, the parts that make most of it. */
export function timeIn({ time }: Pick<RunData, "time">): string[] {
  const shown = percentages(time);
  if (!shown.some(([name]) => name !== "rest")) return [];
  return [`Time: ${shown.map(([name, share]) => `${name} ${share.toFixed(1)}%`).join(", ")}`];
}

/** Of the last steps, where each rank's time went; the slowest is marked. */
export function ranks({ data }: View, width: number, most: number, style: Style): string[] {
  const event = data.ranks;
  if (event === null || most < 2) return [];
  const rows = event.data_s.map((loader, rank) => {
    const spent = spentOfRank(event, rank), own = ownWork(spent), wait = spent.communication_s;
    return { rank, loader, compute: own - loader, wait, all: Math.max(1e-9, own + wait), own };
  });
  const room = most - 1;
  // Where not all can be shown, those that the others wait for.
  const shown = rows.length <= room ? rows : rows.toSorted((a, b) => b.own - a.own).slice(0, room);
  const hidden = rows.length - shown.length;
  const glyphs = style.unicode ? ["█", "▒", "▚"] : ["#", "+", "o"];
  const key = `${painted(glyphs[0], "cyan", style)} own work  ${painted(glyphs[1], "yellow", style)} data  ${
    painted(glyphs[2], "magenta", style)
  } waiting for others`;
  const title = `${painted("Ranks", "bold", style)}  ${key}${
    hidden > 0 ? `  (${hidden} faster ones not shown)` : ""
  }`;
  const digits = String(rows.length - 1).length;
  return [
    title,
    ...shown.map((row) => {
      const percent = (part: number) => `${Math.round(100 * part / row.all)}%`.padStart(4);
      const slowest = row.rank === event.slowest && event.spread >= 0.05
        ? painted(
          `${style.unicode ? "◀ " : "<- "}slowest by ${(100 * event.spread).toFixed(0)}%`,
          "yellow",
          style,
        )
        : "";
      const parts = bar(
        [[row.compute / row.all, "cyan"], [row.loader / row.all, "yellow"], [row.wait / row.all, "magenta"]],
        Math.max(8, Math.min(40, width - 54)),
        style,
      );
      const words = `${percent(row.compute)} work${percent(row.loader)} data${percent(row.wait)} wait`;
      return `  ${String(row.rank).padStart(digits)}  ${parts} ${words}  ${slowest}`;
    }),
  ].map((line) => padded(line, width, style));
}

export function warnings({ data, standing, now }: View, width: number, most: number, style: Style): string[] {
  const lines: string[] = [];
  if (["gone", "silent", "failed", "stopped"].includes(standing.state)) {
    lines.push(painted(clip(harmless(standing.why), width, style), STATE_COLOUR[standing.state], style));
  }
  if (data.lineageError !== null) {
    lines.push(painted(clip(harmless(data.lineageError), width, style), "yellow", style));
  }
  if (data.sampled) lines.push("The run has said very much: a sample of it is shown.");
  const left = most - lines.length;
  if (data.warnings.length > 0 && left >= 2) {
    const shown = data.warnings.slice(-(left - 1));
    const all = data.sampled ? "those that were read" : data.warningCount;
    const count = data.warningCount > shown.length ? ` (the last of ${all})` : "";
    lines.push(`${painted("Warnings", "bold", style)}${count}`);
    for (const { t, message } of shown) {
      const age = `${formatDuration(Math.max(0, Math.round(now - t)))} ago`.padStart(12);
      lines.push(`${painted(age, "dim", style)}  ${harmless(message)}`);
    }
  }
  return lines.slice(0, Math.max(0, most)).map((line) => padded(line, width, style));
}
