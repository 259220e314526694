// The most telling curves of runs as one picture, for slides. May import run_data (types), preview/png, format, chart_data,
// picture.
import { encodePng } from "../../data/preview/png.ts";
import { formatBytes, formatCount, formatRate, formatValue } from "../../format.ts";
import type { RunData } from "../run_data.ts";
import { type Chart, type ChartData, chartData, type ChartLine, type Unit } from "./chart_data.ts";
import { Canvas, type Rgb, textWidth } from "./picture/canvas.ts";

const WIDTH = 1600, HEIGHT = 900, MARGIN = 56, GAP = 48, TOP = 130;
const MOST_CHARTS = 4;
/** Values that span so many times their least are drawn to a logarithmic scale. */
const LOG_FROM = 30;

const PAPER: Rgb = [255, 255, 255],
  INK: Rgb = [23, 25, 29],
  FAINT: Rgb = [93, 102, 115],
  GRID: Rgb = [227, 230, 235];
/** As in the page of a report. */
const HUES: readonly Rgb[] = [
  [0, 114, 178],
  [213, 94, 0],
  [0, 158, 115],
  [168, 71, 138],
  [185, 135, 0],
  [58, 155, 220],
  [107, 79, 187],
  [77, 77, 77],
];

interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** A PNG file. */
export function slide(runs: readonly RunData[]): Uint8Array<ArrayBuffer> {
  const canvas = new Canvas(WIDTH, HEIGHT, PAPER);
  const data = chartData(runs);
  const title = runs.length === 1 ? runs[0].name : `${runs.length} runs`;
  canvas.text(cut(title, WIDTH - 2 * MARGIN, 30), MARGIN, 74, 30, INK, 0.15);
  canvas.text(cut(aboutOf(runs), WIDTH - 2 * MARGIN, 15), MARGIN, 108, 15, FAINT);
  const charts = data.charts.filter(({ machine }) => !machine).slice(0, MOST_CHARTS);
  const across = charts.length > 1 ? 2 : 1, down = charts.length > 2 ? 2 : 1;
  const width = (WIDTH - 2 * MARGIN - (across - 1) * GAP) / across;
  const height = (HEIGHT - TOP - MARGIN / 2 - (down - 1) * GAP / 2) / down;
  charts.forEach((chart, i) => {
    const left = MARGIN + (i % across) * (width + GAP),
      top = TOP + Math.floor(i / across) * (height + GAP / 2);
    draw(canvas, chart, data, { left, top, width, height });
  });
  return encodePng(canvas);
}

function aboutOf(runs: readonly RunData[]): string {
  if (runs.length > 1) return runs.map(({ name }) => name).join(", ");
  const [{ run, best, step, bestMetrics }] = runs;
  return [
    run === null ? "" : `${run.model}, ${formatCount(Number(run.parameters))} parameters`,
    run === null ? "" : `${run.world_size} x ${run.device}`,
    `${step} steps`,
    best === null ? "" : `best validation loss ${formatValue(best.loss)}`,
    ...Object.entries(bestMetrics).slice(0, 2).map(([name, value]) =>
      `${name} ${formatValue(Number(value))}`
    ),
  ].filter((part) => part !== "").join("  |  ");
}

function draw(canvas: Canvas, chart: Chart, data: ChartData, { left, top, width, height }: Box): void {
  canvas.text(cut(chart.title, width, 17), left, top + 30, 17, INK, 0.15);
  legend(canvas, chart, left, top + 58, width);
  const label = 84,
    plot: Box = { left: left + label, top: top + 78, width: width - label - 12, height: height - 122 };
  const steps = chart.lines.flatMap(({ x }) => [data.xs[x][0], data.xs[x].at(-1)!]);
  const from = Math.min(...steps), to = Math.max(...steps, from + 1);
  const scale = scaleOf(chart);
  const xOf = (step: number) => plot.left + (step - from) / (to - from) * plot.width;
  const yOf = (value: number) => plot.top + (1 - scale.shareOf(value)) * plot.height;
  for (const value of scale.ticks) {
    canvas.fill(plot.left, yOf(value), plot.width, 1, GRID);
    const words = write(value, chart.unit);
    canvas.text(words, plot.left - 10 - textWidth(words, 12), yOf(value) + 6, 12, FAINT);
  }
  for (const step of ticksOf(from, to, 5)) {
    const words = write(step, "count");
    canvas.text(words, xOf(step) - textWidth(words, 12) / 2, plot.top + plot.height + 24, 12, FAINT);
  }
  canvas.text("step", plot.left - 10 - textWidth("step", 12), plot.top + plot.height + 24, 12, FAINT);
  for (const line of chart.lines) trace(canvas, line, data.xs[line.x], xOf, yOf, scale.log);
}

function legend(canvas: Canvas, { lines, title }: Chart, left: number, y: number, width: number): void {
  if (lines.length === 1 && lines[0].label === title) return;
  let at = left;
  for (const { label, hue } of lines) {
    const words = cut(label, 260, 13), needs = 30 + textWidth(words, 13) + 20;
    if (at + needs > left + width) return;
    canvas.fill(at, y - 7, 20, 4, HUES[hue % HUES.length]);
    canvas.text(words, at + 28, y, 13, FAINT);
    at += needs;
  }
}

/** The range of values behind, their mean before it; a gap is where there was no number. */
function trace(
  canvas: Canvas,
  { y, lo, hi, hue }: ChartLine,
  steps: readonly number[],
  xOf: (step: number) => number,
  yOf: (value: number) => number,
  log: boolean,
): void {
  const colour = HUES[hue % HUES.length];
  const shown = (value: number | null): value is number => value !== null && (!log || value > 0);
  let part: [number, number][] = [];
  const finish = () => {
    canvas.line(part, 3, colour);
    part = [];
  };
  let before = -Infinity;
  steps.forEach((step, i) => {
    const value = y[i], x = xOf(step);
    if (!shown(value)) return finish();
    const low = lo?.[i] ?? null, high = hi?.[i] ?? null;
    // Once a pixel: what overlaps would be darker.
    if (shown(low) && shown(high) && x - before >= 1) {
      before = x;
      canvas.fill(x, yOf(high), 1, Math.max(1, yOf(low) - yOf(high)), colour, 0.22);
    }
    part.push([x, yOf(value)]);
  });
  finish();
}

interface Scale {
  readonly log: boolean;
  shareOf(value: number): number;
  readonly ticks: readonly number[];
}

function scaleOf({ lines, zero, log: mayLog }: Chart): Scale {
  let least = zero ? 0 : Infinity, most = -Infinity;
  for (const { y, lo = y, hi = y } of lines) {
    for (let i = 0; i < y.length; i++) {
      if (lo[i] !== null) least = Math.min(least, lo[i]!);
      if (hi[i] !== null) most = Math.max(most, hi[i]!);
    }
  }
  if (least > most) [least, most] = [0, 1];
  const log = mayLog === true && least > 0 && most / least >= LOG_FROM;
  if (log) {
    const [low, high] = [Math.log10(least), Math.log10(most)];
    const powers = Array.from(
      { length: Math.ceil(high) - Math.floor(low) + 1 },
      (_, i) => 10 ** (Math.floor(low) + i),
    );
    const all = powers.flatMap((power) => powers.length > 3 ? [power] : [power, 2 * power, 5 * power]);
    return {
      log,
      shareOf: (value) => (Math.log10(value) - low) / (high - low),
      ticks: all.filter((value) => value >= least && value <= most),
    };
  }
  const room = most - least > 1e-6 * Math.abs(most) ? 0.04 * (most - least) : Math.abs(most) * 0.1 || 1;
  const low = zero && least === 0 ? 0 : least - room, high = most + room;
  return { log, shareOf: (value) => (value - low) / (high - low), ticks: ticksOf(low, high, 5) };
}

/** Round numbers within a range: 1, 2 or 5 times a power of ten apart. */
function ticksOf(from: number, to: number, about: number): number[] {
  const rough = (to - from) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough) ?? 10 * power;
  const first = Math.ceil(from / step - 1e-9);
  const count = Math.floor(to / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, Math.min(50, count)) }, (_, i) => (first + i) * step);
}

function write(value: number, unit: Unit): string {
  switch (unit) {
    case "bytes":
      return formatBytes(value);
    case "seconds":
      return `${Number((1000 * value).toPrecision(3))} ms`;
    case "share":
      return `${Number((100 * value).toPrecision(3))}%`;
    case "percent":
      return `${Number(value.toPrecision(3))}%`;
    case "count":
    case "rate":
      return value < 10 && !Number.isInteger(value)
        ? formatRate(value)
        : formatCount(value).replace(/\.0(?=\D)/, "");
    default:
      return Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5 || value === 0
        ? String(Number(value.toPrecision(4)))
        : value.toExponential().replace("e+", "e").replace(/(\.\d{2})\d+/, "$1");
  }
}

/** As many letters as there is room for. */
function cut(words: string, width: number, size: number): string {
  if (textWidth(words, size) <= width) return words;
  let letters = [...words].slice(0, 300);
  while (letters.length > 0 && textWidth(letters.join("") + "...", size) > width) {
    letters = letters.slice(0, -1);
  }
  return letters.join("") + "...";
}
