import {
  formatBytes,
  formatCount,
  formatDuration,
  formatLearningRate,
  formatPlural,
  formatRate,
  formatValue,
} from "../../base/format.ts";
import { EVENT_FIELDS, type EventField, type SystemEvent, type Unit } from "../../run/events.ts";
import type { RunData } from "../../run/run_data.ts";
import { type Plot, plot, type PlotLine } from "./plot.ts";
import {
  clipText,
  type Colour,
  fitted,
  harmless,
  padded,
  painted,
  spread,
  type TextStyle,
} from "./terminal.ts";
import { ownWork, percentages, spentOfRank } from "../../run/account.ts";
import type { RunProgress, RunState, RunStatus } from "../../run/status.ts";

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

/** Returns exactly `height` lines of `width` columns. */
export function renderScreen(view: WatchView, width: number, height: number, style: TextStyle): string[] {
  const top = headRows(view, width, style);
  const foot = padded(painted("q leaves; the run goes on", "dim", style), width, style);
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
    const here = wanted.slice(row * across, (row + 1) * across);
    if (here.length === 0) break;
    const size = Math.floor((width - 2 * (here.length - 1)) / here.length);
    const drawn = here.map((one) => plot(one, size, rows - 1, style));
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

const STATE_COLOUR: Readonly<Record<RunState, Colour>> = {
  starting: "cyan",
  running: "green",
  silent: "yellow",
  gone: "red",
  done: "green",
  stopped: "yellow",
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
    spread(painted(harmless(data.name), "bold", style), state, width, style),
    painted(fitted(facts, dot, width), "dim", style),
    "",
    progressBar(progress, width, style),
    fitted(measures(data, style), between, width),
    fitted(times(data, status, progress, now), between, width),
    fitted(timeIn(data), between, width),
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

function bar(shares: readonly (readonly [number, Colour])[], width: number, style: TextStyle): string {
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

function measures({ curves, best }: RunData, style: TextStyle): string[] {
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
  return [`Time: ${shown.map(([name, share]) => `${name} ${share.toFixed(1)}%`).join(", ")}`];
}

/** The slowest rank of the last steps has a mark. */
function rankRows({ data }: WatchView, width: number, most: number, style: TextStyle): string[] {
  const event = data.ranks;
  if (event === null || most < 2) return [];
  const rows = event.data_s.map((loader, rank) => {
    const spent = spentOfRank(event, rank), own = ownWork(spent), wait = spent.communication_s;
    return { rank, loader, compute: own - loader, wait, all: Math.max(1e-9, own + wait), own };
  });
  const room = most - 1;
  // Where space is short, the ranks that the others wait for come first.
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

function warningRows(
  { data, status, now }: WatchView,
  width: number,
  most: number,
  style: TextStyle,
): string[] {
  const lines: string[] = [];
  if (["gone", "silent", "failed", "stopped"].includes(status.state)) {
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

function machineRows({ data }: WatchView, width: number, most: number, style: TextStyle): string[] {
  const ranks = [...data.system].sort(([a], [b]) => a - b);
  if (ranks.length === 0 || most < 1) return [];
  const gpus = ranks.filter(([, fields]) => number(fields, "gpu_percent") !== null);
  const rows = gpus.length > 0 ? gpus : ranks;
  const shown = rows.slice(0, most - 1);
  const name = gpus.length > 0 ? "GPUs" : rows.length > 1 ? "Machines" : "Machine";
  const title = painted(name, "bold", style) +
    (shown.length < rows.length ? `  ${summary(rows, style)}` : "");
  const digits = String(rows[rows.length - 1][0]).length;
  const row = gpus.length > 0 ? gpuRow : processorRow;
  return [
    title,
    ...shown.map(([rank, fields]) => `  ${String(rank).padStart(digits)}  ${row(fields, width, style)}`),
  ]
    .map((line) => padded(line, width, style));
}

function summary(rows: readonly (readonly [number, SystemEvent])[], style: TextStyle): string {
  const all = (name: keyof SystemEvent) =>
    rows.map(([, fields]) => number(fields, name)).filter((value) => value !== null);
  const busy = all("gpu_percent").length > 0 ? all("gpu_percent") : all("host_cpu_percent");
  const throttled = rows.filter(([, { gpu_throttle }]) =>
    Array.isArray(gpu_throttle) && gpu_throttle.length > 0
  );
  const mean = busy.reduce((sum, value) => sum + value, 0) / Math.max(1, busy.length);
  const range = `${Math.min(...busy).toFixed(0)}% to ${Math.max(...busy).toFixed(0)}%`;
  return [
    `${rows.length} ranks`,
    busy.length > 0 ? `${mean.toFixed(0)}% busy (${range})` : "",
    throttled.length > 0 ? painted(`${throttled.length} throttled`, "red", style) : "",
  ].filter((word) => word !== "").join(", ");
}

function gpuRow(fields: SystemEvent, width: number, style: TextStyle): string {
  const busy = number(fields, "gpu_percent") ?? 0;
  const used = number(fields, "gpu_memory_bytes"), all = number(fields, "gpu_memory_total_bytes");
  const throttle = Array.isArray(fields.gpu_throttle) ? fields.gpu_throttle.map(String) : [];
  const words = [
    `${busy.toFixed(0)}%`.padStart(4),
    used === null ? "" : memory(used, all),
    labelled(fields, "gpu_power_w", (watts) => `${watts.toFixed(0)} W`),
    labelled(fields, "gpu_temperature_c", (degrees) => `${degrees.toFixed(0)} °C`),
    throttle.length > 0 ? painted(`throttled: ${harmless(throttle.join(", "))}`, "red", style) : "",
  ].filter((word) => word !== "");
  return `${bar([[busy / 100, load(busy)]], size(width), style)} ${words.join("  ")}`;
}

function processorRow(fields: SystemEvent, width: number, style: TextStyle): string {
  const busy = number(fields, "host_cpu_percent"), own = number(fields, "cpu_percent");
  const words = [
    busy === null ? "" : `${busy.toFixed(0)}% of the CPU`.padStart(16),
    own === null ? "" : `${(own / 100).toFixed(1)} cores`,
    labelled(fields, "rss_bytes", (bytes) => `${formatBytes(bytes)} resident`),
    rate(fields, "disk_read_bytes_per_s", "read"),
    rate(fields, "disk_write_bytes_per_s", "written"),
    rate(fields, "network_in_bytes_per_s", "in"),
    rate(fields, "network_out_bytes_per_s", "out"),
  ].filter((word) => word !== "");
  const drawn = busy === null ? "" : `${bar([[Math.min(1, busy / 100), "green"]], size(width), style)} `;
  return drawn + words.join("  ");
}

const memory = (used: number, all: number | null) =>
  all === null ? formatBytes(used) : `${formatBytes(used)} of ${formatBytes(all)}`;

/** An idle GPU is red. */
const load = (percent: number): Colour => percent >= 70 ? "green" : percent >= 30 ? "yellow" : "red";

const size = (width: number) => Math.max(8, Math.min(30, width - 50));

function number(fields: SystemEvent, name: keyof SystemEvent): number | null {
  const value = fields[name];
  return typeof value === "number" ? value : null;
}

/** Rates below one byte a second are left out. */
function rate(fields: SystemEvent, name: keyof SystemEvent, way: string): string {
  const value = number(fields, name) ?? 0;
  return value < 1 ? "" : `${formatBytes(value)}/s ${way}`;
}

function labelled(fields: SystemEvent, name: keyof SystemEvent, format: (value: number) => string): string {
  const value = number(fields, name);
  return value === null ? "" : format(value);
}

export function plainLine({ data, status, progress }: WatchView): string {
  const { step, steps, epoch, epochs, secondsLeft } = progress;
  const last = (name: string) => data.curves.get(name)?.last;
  const part = (name: string, format: (value: number) => string, label = "", unit = "") => {
    const value = last(name);
    return value === undefined ? [] : [`${label}${format(value)}${unit}`];
  };
  return [
    `${harmless(data.name)}: ${status.state}`,
    `Step ${step}${steps === null ? "" : `/${steps}`}`,
    `Epoch ${epoch}${epochs === null ? "" : `/${epochs}`}`,
    ...part("loss", formatValue, "Loss: "),
    ...part("val_loss", formatValue, "Val Loss: "),
    ...part("lr", formatLearningRate, "LR: "),
    ...part("samples_per_s", formatRate, "", " samples/s"),
    ...(secondsLeft === null ? [] : [`${formatDuration(secondsLeft)} left`]),
    ...slowest(data.ranks),
    ...timeIn(data),
  ].join(" | ");
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
