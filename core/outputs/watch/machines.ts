// The rows of ranks and of machines: who is slow, and how each GPU or processor is.
import { formatBytes } from "../../base/format.ts";
import { type Colour, harmless, padded, painted, type TextStyle } from "../../base/terminal_text.ts";
import { ownWork, spentOfRank } from "../../run/account.ts";
import type { SystemEvent } from "../../run/events.ts";
import type { RunData } from "../../run/run_data.ts";
import { bar } from "./plot.ts";

type Rows = (view: { readonly data: RunData }, width: number, most: number, style: TextStyle) => string[];

/** The slowest rank of the last steps has a mark. */
export const rankRows: Rows = ({ data }, width, most, style) => {
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
};

export const machineRows: Rows = ({ data }, width, most, style) => {
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
};

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
