// The part of the screen for machines: GPUs where there are some, else processors and memory of each rank. Pure. May import
// run_data (types), format, panels, text.
import { formatBytes } from "../../format.ts";
import { bar, type View } from "./panels.ts";
import { type Colour, harmless, padded, painted, type Style } from "./text.ts";

type Fields = Readonly<Record<string, unknown>>;

/** A row a rank, in their order; where there is no room for all, what is true of most and the first ones. */
export function machines({ data }: View, width: number, most: number, style: Style): string[] {
  const ranks = [...data.system].sort(([a], [b]) => a - b) as unknown as [number, Fields][];
  if (ranks.length === 0 || most < 1) return [];
  const gpus = ranks.filter(([, fields]) => number(fields, "gpu_percent") !== null);
  const rows = gpus.length > 0 ? gpus : ranks;
  const shown = rows.slice(0, most - 1);
  const name = gpus.length > 0 ? "GPUs" : rows.length > 1 ? "Machines" : "Machine";
  const title = painted(name, "bold", style) +
    (shown.length < rows.length ? `  ${summary(rows, style)}` : "");
  const digits = String(rows.at(-1)![0]).length;
  const row = gpus.length > 0 ? gpuRow : processorRow;
  return [
    title,
    ...shown.map(([rank, fields]) => `  ${String(rank).padStart(digits)}  ${row(fields, width, style)}`),
  ]
    .map((line) => padded(line, width, style));
}

/** Of ranks that can't all be shown. */
function summary(rows: readonly (readonly [number, Fields])[], style: Style): string {
  const all = (name: string) =>
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

function gpuRow(fields: Fields, width: number, style: Style): string {
  const busy = number(fields, "gpu_percent") ?? 0;
  const used = number(fields, "gpu_memory_bytes"), all = number(fields, "gpu_memory_total_bytes");
  const throttle = Array.isArray(fields.gpu_throttle) ? fields.gpu_throttle.map(String) : [];
  const words = [
    `${busy.toFixed(0)}%`.padStart(4),
    used === null ? "" : memory(used, all),
    said(fields, "gpu_power_w", (watts) => `${watts.toFixed(0)} W`),
    said(fields, "gpu_temperature_c", (degrees) => `${degrees.toFixed(0)} °C`),
    throttle.length > 0 ? painted(`throttled: ${harmless(throttle.join(", "))}`, "red", style) : "",
  ].filter((word) => word !== "");
  return `${bar([[busy / 100, load(busy)]], size(width), style)} ${words.join("  ")}`;
}

function processorRow(fields: Fields, width: number, style: Style): string {
  const busy = number(fields, "host_cpu_percent"), own = number(fields, "cpu_percent");
  const words = [
    busy === null ? "" : `${busy.toFixed(0)}% of the CPU`.padStart(16),
    own === null ? "" : `${(own / 100).toFixed(1)} cores`,
    said(fields, "rss_bytes", (bytes) => `${formatBytes(bytes)} resident`),
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

/** A GPU that is paid for and idle is what to look at. */
const load = (percent: number): Colour => percent >= 70 ? "green" : percent >= 30 ? "yellow" : "red";

const size = (width: number) => Math.max(8, Math.min(30, width - 50));

const number = (fields: Fields, name: string): number | null =>
  typeof fields[name] === "number" ? fields[name] : null;

/** Nothing at all is not worth its columns. */
const rate = (fields: Fields, name: string, way: string): string =>
  (number(fields, name) ?? 0) < 1 ? "" : `${formatBytes(number(fields, name)!)}/s ${way}`;

function said(fields: Fields, name: string, format: (value: number) => string): string {
  const value = number(fields, name);
  return value === null ? "" : format(value);
}
