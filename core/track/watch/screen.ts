// The whole screen as a pure function of what is known and of its size. May import format, run_data (types), its siblings.
import { formatBytes, formatLearningRate, formatRate, formatValue } from "../../format.ts";
import type { RunData } from "../run_data.ts";
import { machines } from "./gpus.ts";
import { head, ranks, type View, warnings } from "./panels.ts";
import { type Line, type Plot, plot } from "./plot.ts";
import { padded, painted, type Style } from "./text.ts";

/** A plot is worth its place from so many rows and columns on. */
const PLOT_ROWS = 7;
const PLOT_COLUMNS = 48;
/** Values that span so many times their least are drawn to a logarithmic scale. */
const LOG_FROM = 20;

/** Exactly `height` lines of exactly `width` columns. */
export function render(view: View, width: number, height: number, style: Style): string[] {
  const top = head(view, width, style);
  const foot = padded(painted("q leaves; the run goes on", "dim", style), width, style);
  const blank = padded("", width, style);
  const room = height - top.length - 2; // a blank line below the head, and the foot
  if (room < 1) return [...top, foot].slice(0, height);

  const below: string[] = [];
  // Curves get at least half of what is left; what must not be missed comes first.
  let left = Math.max(Math.min(room, 4), Math.floor(room / 2));
  for (const [panel, most] of [[warnings, 5], [ranks, 17], [machines, 17]] as const) {
    // One line is kept for the machines.
    const kept = panel !== machines && view.data.system.size > 0 ? 1 : 0;
    const lines = panel(view, width, Math.min(left - kept, most), style);
    below.push(...lines);
    left -= lines.length;
  }

  const plots = curves(view.data, width, room - below.length, style);
  const used = plots.length + below.length;
  const fill = Array.from({ length: Math.max(0, room - used) }, () => blank);
  return [...top, blank, ...plots, ...below, ...fill, foot].slice(0, height);
}

/** As many plots as fit, the most telling first. */
function curves(data: RunData, width: number, height: number, style: Style): string[] {
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
  const line = (name: string, label: string, colour: Line["colour"]): Line[] => {
    const curve = curves.get(name);
    return curve && curve.length > 0 ? [{ name: label, curve, colour }] : [];
  };
  const one = (title: string, name: string, format: Plot["format"], more: Partial<Plot> = {}): Plot => ({
    title,
    lines: line(name, "", "cyan"),
    format,
    ...more,
  });
  return [
    {
      title: "Loss",
      lines: [...line("loss", "train", "cyan"), ...line("val_loss", "val", "yellow")],
      format: formatValue,
      logFrom: LOG_FROM,
    },
    ...[...metrics].slice(0, 3).map((metric): Plot => ({
      title: metric,
      lines: [...line(`train_${metric}`, "train", "cyan"), ...line(`val_${metric}`, "val", "yellow")],
      format: formatValue,
    })),
    one("Learning rate", "lr", formatLearningRate),
    one("Gradient norm", "grad_norm", formatValue, { logFrom: LOG_FROM }),
    one("Samples/s", "samples_per_s", formatRate, { fromZero: true }),
    one("Memory", "memory_bytes", formatBytes, { fromZero: true }),
    one("Loss scale", "loss_scale", formatRate, { logFrom: 4 }),
  ].filter(({ lines }) => lines.length > 0);
}
