import {
  formatBytes,
  formatCount,
  formatDuration,
  formatLearningRate,
  formatPlural,
  formatRate,
  formatValue,
} from "../../base/format.ts";
import { EVENT_FIELDS, type EventField, type Unit } from "../../run/events.ts";
import type { RunData } from "../../run/run_data.ts";
import { machineRows, rankRows } from "./machines.ts";
import { bar, type Plot, plot, type PlotLine } from "./plot.ts";
import {
  clipText,
  type Colour,
  fitted,
  harmless,
  padded,
  painted,
  spreadText,
  terminalWidthOf,
  type TextStyle,
} from "../../base/terminal_text.ts";
import { percentages } from "../../run/account.ts";
import { hasEnded, type RunProgress, type RunState, type RunStatus } from "../../run/status.ts";

const PLOT_ROWS = 7;
const PLOT_COLUMNS = 48;
/** Losses and metrics come first, then these in order. */
const PLOTTED = ["lr", "grad_norm", "samples_per_s", "memory_bytes", "loss_scale"] as const;
type PlottedField = (typeof PLOTTED)[number];
const PLOT_FORMAT: Partial<Record<Unit, Plot["format"]>> = {
  rate: formatRate,
  bytes: formatBytes,
  count: formatRate,
};

function footText(state: RunState): string {
  if (hasEnded(state)) return "q leaves; the run has ended";
  return state === "silent" ? "q leaves" : "q leaves; the run goes on";
}

/** Returns exactly `height` lines of `width` columns. */
export function renderScreen(view: WatchView, width: number, height: number, style: TextStyle): string[] {
  const top = headRows(view, width, style);
  const foot = padded(painted(footText(view.status.state), "dim", style), width, style);
  const blank = padded("", width, style);
  const room = height - top.length - 2; // a blank line below the head, and the foot
  if (room < 1) return [...top, foot].slice(0, height);

  const below: string[] = [];
  // Curves get at least half of the space; warnings come first.
  let left = Math.max(Math.min(room, 4), Math.floor(room / 2));
  for (const [panel, most] of [[warningRows, 5], [rankRows, 17], [machineRows, 17]] as const) {
    // One line stays free for the machines.
    const kept = panel !== machineRows && view.data.system.size > 0 ? 1 : 0;
    const lines = panel(view, width, Math.min(left - kept, most), style);
    below.push(...lines);
    left -= lines.length;
  }

  const plots = curves(view.data, width, room - below.length, style);
  const used = plots.length + below.length;
  const fill = Array.from({ length: Math.max(0, room - used) }, () => blank);
  return [...top, blank, ...plots, ...below, ...fill, foot].slice(0, height);
}

function curves(data: RunData, width: number, height: number, style: TextStyle): string[] {
  const wanted = plotsOf(data);
  if (wanted.length === 0 || height < PLOT_ROWS - 1) return [];
  const across = Math.max(1, Math.min(3, Math.floor(width / PLOT_COLUMNS)));
  const down = Math.max(1, Math.min(Math.floor(height / PLOT_ROWS), Math.ceil(wanted.length / across)));
  const rows = Math.min(24, Math.floor(height / down));
  const lines: string[] = [];
  for (let row = 0; row < down; row++) {
    const rowPanels = wanted.slice(row * across, (row + 1) * across);
    if (rowPanels.length === 0) break;
    const size = Math.floor((width - 2 * (rowPanels.length - 1)) / rowPanels.length);
    const drawn = rowPanels.map((one) => plot(one, size, rows - 1, style));
    for (let i = 0; i < rows - 1; i++) {
      lines.push(padded(drawn.map((plot) => plot[i]).join("  "), width, style));
    }
    lines.push(padded("", width, style));
  }
  return lines;
}

export function plotsOf({ curves, metrics }: RunData): Plot[] {
  const line = (name: string, label: string, colour: PlotLine["colour"]): PlotLine[] => {
    const curve = curves.get(name);
    return curve && curve.length > 0 ? [{ name: label, curve, colour }] : [];
  };
  const one = (name: PlottedField): Plot => {
    const { label = name, short = label, unit, zero, log }: EventField = EVENT_FIELDS.step[name];
    const format = name === "lr" ? formatLearningRate : PLOT_FORMAT[unit] ?? formatValue;
    return { title: short, lines: line(name, "", "cyan"), format, fromZero: zero, logFrom: log };
  };
  return [
    {
      title: "Loss",
      lines: [...line("loss", "train", "cyan"), ...line("val_loss", "val", "yellow")],
      format: formatValue,
      logFrom: EVENT_FIELDS.step.loss.log,
    },
    ...[...metrics].slice(0, 3).map((metric): Plot => ({
      title: metric,
      lines: [...line(`train_${metric}`, "train", "cyan"), ...line(`val_${metric}`, "val", "yellow")],
      format: formatValue,
    })),
    ...PLOTTED.map(one),
  ].filter(({ lines }) => lines.length > 0);
}

export interface WatchView {
  readonly data: RunData;
  readonly status: RunStatus;
  readonly progress: RunProgress;
  readonly now: number;
}

export const STATE_COLOUR: Readonly<Record<RunState, Colour>> = {
  starting: "cyan",
  running: "green",
  silent: "yellow",
  gone: "red",
  done: "green",
  stopped: "yellow",
  requeued: "yellow",
  failed: "red",
};

function headRows({ data, status, progress, now }: WatchView, width: number, style: TextStyle): string[] {
  const { run, lineage } = data;
  const dot = style.unicode ? " · " : " - ";
  const state = painted(`${style.unicode ? "● " : ""}${status.state}`, STATE_COLOUR[status.state], style);
  const job = lineage?.attempts.at(-1)?.job_id;
  const facts = run === null ? [] : [
    `${harmless(String(run.model))}, ${formatCount(Number(run.parameters))} parameters`,
    `${formatPlural(Number(run.world_size), "rank")} on ${run.device === "cuda" ? "GPU" : "CPU"}`,
    `${harmless(String(run.host))}${job ? ` (job ${harmless(job)})` : ""}`,
  ];
  const between = painted(style.unicode ? " │ " : " | ", "dim", style);
  return [
    spreadText(painted(harmless(data.name), "bold", style), state, width, style),
    painted(fitted(facts, dot, width), "dim", style),
    "",
    progressBar(progress, width, style),
    measuresWithin(data, between, width, style),
    fitted(times(data, status, progress, now), between, width),
    fitted(timeIn(data), ", ", width),
  ].map((line) => padded(line, width, style));
}

function progressBar(progress: RunProgress, width: number, style: TextStyle): string {
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

/** Where loss, validation loss and learning rate would not fit, the best value goes first: it changes least. */
function measuresWithin(data: RunData, between: string, width: number, style: TextStyle): string {
  const whole = measures(data, style, true), first = whole.slice(0, 3).filter((part) => part !== "");
  const fits = terminalWidthOf(first.join(between)) <= width;
  return fitted(fits ? whole : measures(data, style, false), between, width);
}

function measures({ curves, best }: RunData, style: TextStyle, withBest: boolean): string[] {
  const last = (name: string) => curves.get(name)?.last;
  const shown = (
    name: string,
    value: number | undefined,
    format: (value: number) => string,
    colour: Colour | null,
  ) => value === undefined ? "" : `${name} ${painted(format(value), colour, style)}`;
  const at = best === null || !withBest ? "" : ` (best ${formatValue(best.loss)} at step ${best.step})`;
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
  status: RunStatus,
  progress: RunProgress,
  now: number,
) {
  const rate = curves.get("samples_per_s")?.last, memory = curves.get("memory_bytes")?.last;
  const over = exit !== null || status.state === "gone";
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

function timeIn({ time }: Pick<RunData, "time">): string[] {
  const shown = percentages(time);
  if (!shown.some(([name]) => name !== "rest")) return [];
  return shown.map(([name, share], i) => `${i === 0 ? "Time: " : ""}${name} ${share.toFixed(1)}%`);
}

function warningRows(
  { data, status, now }: WatchView,
  width: number,
  most: number,
  style: TextStyle,
): string[] {
  const lines: string[] = [];
  if (["gone", "silent", "failed", "stopped", "requeued"].includes(status.state)) {
    lines.push(painted(clipText(harmless(status.why), width, style), STATE_COLOUR[status.state], style));
  }
  if (data.lineageError !== null) {
    lines.push(painted(clipText(harmless(data.lineageError), width, style), "yellow", style));
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

/** A terminal that can't be drawn on has a width too. */
export function plainLine({ data, status, progress }: WatchView, width = Infinity): string {
  const { step, steps, epoch, epochs, secondsLeft } = progress;
  const last = (name: string) => data.curves.get(name)?.last;
  const part = (name: string, format: (value: number) => string, label = "", unit = "") => {
    const value = last(name);
    return value === undefined ? [] : [`${label}${format(value)}${unit}`];
  };
  const parts = [
    `${harmless(data.name)}: ${status.state}`,
    `Step ${step}${steps === null ? "" : `/${steps}`}`,
    `Epoch ${epoch}${epochs === null ? "" : `/${epochs}`}`,
    ...part("loss", formatValue, "Loss: "),
    ...part("val_loss", formatValue, "Val Loss: "),
    ...part("lr", formatLearningRate, "LR: "),
    ...part("samples_per_s", formatRate, "", " samples/s"),
    ...(secondsLeft === null ? [] : [`${formatDuration(secondsLeft)} left`]),
    ...slowest(data.ranks),
    ...[timeIn(data).join(", ")].filter((text) => text !== ""),
  ];
  return fitted(parts, " | ", width);
}

function slowest(ranks: WatchView["data"]["ranks"]): string[] {
  if (ranks === null || ranks.spread < 0.05) return [];
  return [`rank ${ranks.slowest} of ${ranks.data_s.length} slowest by ${(100 * ranks.spread).toFixed(0)}%`];
}

export function newWarnings({ data }: WatchView, shown: number): string[] {
  const fresh = Math.min(data.warnings.length, Math.max(0, data.warningCount - shown));
  const missed = data.warningCount - shown - fresh;
  return [
    ...(missed > 0 && !data.sampled ? [`${formatPlural(missed, "more warning")}`] : []),
    ...data.warnings.slice(data.warnings.length - fresh).map(({ message }) =>
      `warning: ${harmless(message)}`
    ),
  ];
}
