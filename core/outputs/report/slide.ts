// The most telling curves of runs as one PNG for slides (report --png), with the canvas and the stroke font that draw
// it. Loaded only for --png.
import { encodePng, type Picture } from "../../data/preview/picture.ts";
import { formatBytes, formatCount, formatRate, formatValue } from "../../base/format.ts";
import type { RunData } from "../../run/run_data.ts";
import { type Chart, type ChartData, chartData, type ChartLine, type ChartUnit } from "./chart_data.ts";

// The most telling curves of runs as one picture, for slides.

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

function write(value: number, unit: ChartUnit): string {
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

// A picture to draw lines and words on, with smooth edges.

type Rgb = readonly [red: number, green: number, blue: number];
type Point = readonly [x: number, y: number];

export class Canvas implements Picture {
  readonly rgb: Uint8Array;
  /** How much of each pixel the line that is being drawn covers. */
  readonly #cover: Float32Array;

  constructor(readonly width: number, readonly height: number, paper: Rgb) {
    this.rgb = new Uint8Array(3 * width * height);
    this.#cover = new Float32Array(width * height);
    for (let i = 0; i < this.rgb.length; i++) this.rgb[i] = paper[i % 3];
  }

  /** Whole pixels. */
  fill(left: number, top: number, width: number, height: number, colour: Rgb, opacity = 1): void {
    const right = Math.min(this.width, Math.round(left + width)),
      bottom = Math.min(this.height, Math.round(top + height));
    for (let y = Math.max(0, Math.round(top)); y < bottom; y++) {
      for (let x = Math.max(0, Math.round(left)); x < right; x++) {
        this.#blend(y * this.width + x, colour, opacity);
      }
    }
  }

  /** A line through points, with round ends; where it crosses itself it is no darker. */
  line(points: readonly Point[], width: number, colour: Rgb, opacity = 1): void {
    if (points.length === 0) return;
    const reach = width / 2 + 1;
    const box = { left: this.width, top: this.height, right: 0, bottom: 0 };
    for (let i = 0; i < points.length; i++) this.#segment(points[Math.max(0, i - 1)], points[i], reach, box);
    for (let y = box.top; y < box.bottom; y++) {
      for (let x = box.left; x < box.right; x++) {
        const at = y * this.width + x;
        if (this.#cover[at] > 0) this.#blend(at, colour, opacity * this.#cover[at]);
        this.#cover[at] = 0;
      }
    }
  }

  #segment(
    [ax, ay]: Point,
    [bx, by]: Point,
    reach: number,
    box: { left: number; top: number; right: number; bottom: number },
  ): void {
    const left = Math.max(0, Math.floor(Math.min(ax, bx) - reach)),
      top = Math.max(0, Math.floor(Math.min(ay, by) - reach));
    const right = Math.min(this.width, Math.ceil(Math.max(ax, bx) + reach));
    const bottom = Math.min(this.height, Math.ceil(Math.max(ay, by) + reach));
    const dx = bx - ax, dy = by - ay, square = dx * dx + dy * dy;
    for (let y = top; y < bottom; y++) {
      for (let x = left; x < right; x++) {
        const px = x + 0.5 - ax, py = y + 0.5 - ay;
        const share = square === 0 ? 0 : Math.min(1, Math.max(0, (px * dx + py * dy) / square));
        const cover = reach - 0.5 - Math.hypot(px - share * dx, py - share * dy);
        const at = y * this.width + x;
        if (cover > this.#cover[at]) this.#cover[at] = Math.min(1, cover);
      }
    }
    box.left = Math.min(box.left, left);
    box.top = Math.min(box.top, top);
    box.right = Math.max(box.right, right);
    box.bottom = Math.max(box.bottom, bottom);
  }

  /** `size` is the height of a large letter; `y` the base line. What it takes is returned. */
  text(words: string, x: number, y: number, size: number, colour: Rgb, weight = 0.13): number {
    let at = x;
    for (const character of words) {
      const { strokes, advance } = glyphOf(character);
      for (const stroke of strokes) {
        this.line(stroke.map(([dx, dy]): Point => [at + dx * size, y + dy * size]), size * weight, colour);
      }
      at += advance * size;
    }
    return at - x;
  }

  #blend(at: number, colour: Rgb, opacity: number): void {
    for (let i = 0; i < 3; i++) {
      const old = this.rgb[3 * at + i];
      this.rgb[3 * at + i] = Math.round(old + (colour[i] - old) * opacity);
    }
  }
}

export function textWidth(words: string, size: number): number {
  let width = 0;
  for (const character of words) width += glyphOf(character).advance * size;
  return width;
}

// Letters as strokes, so that a picture can be labelled in any size without a font file.

/**
 * Each stroke begins with how it runs: "-" straight from point to point, "~" a curve from the first to the last, "o" a closed
 * curve within the points. The base line is at 2, small letters reach 6, large ones 8, and tails 0.
 */
const STROKES: Readonly<Record<string, string>> = {
  A: "-0,2 2.5,8 5,2|-0.9,4 4.1,4",
  B: "-0,2 0,8|~0,8 4.2,8 4.2,5.2 0,5.2|~0,5.2 4.9,5.2 4.9,2 0,2",
  C: "~5,6.8 4.6,8 0,8 0,2 4.6,2 5,3.2",
  D: "-0,2 0,8|~0,8 5,8 5,2 0,2",
  E: "-4,8 0,8 0,2 4,2|-0,5.1 3.5,5.1",
  F: "-4,8 0,8 0,2|-0,5.1 3.5,5.1",
  G: "~5,6.8 4.6,8 0,8 0,2 4.4,2 5,3|-5,3 5,4.9 3,4.9",
  H: "-0,2 0,8|-4.8,2 4.8,8|-0,5.1 4.8,5.1",
  I: "-0,2 0,8",
  J: "-3,8 3,4|~3,4 3,2 0,2 0,3.6",
  K: "-0,2 0,8|-4.3,8 0,4.4|-1.4,5.6 4.6,2",
  L: "-0,8 0,2 4,2",
  M: "-0,2 0,8 3,4 6,8 6,2",
  N: "-0,2 0,8 4.8,2 4.8,8",
  O: "o0,2 5.6,2 5.6,8 0,8",
  P: "-0,2 0,8|~0,8 4.6,8 4.6,4.7 0,4.7",
  Q: "o0,2 5.6,2 5.6,8 0,8|-3.4,3.6 5.6,1.6",
  R: "-0,2 0,8|~0,8 4.6,8 4.6,4.8 0,4.8|-2.2,4.8 4.7,2",
  S: "~4.4,6.9 4.2,8 0.1,8 0.1,5.3 4.6,4.9 4.6,2 0.2,2 0,3.2",
  T: "-0,8 5,8|-2.5,8 2.5,2",
  U: "-0,8 0,4|~0,4 0,2 4.8,2 4.8,4|-4.8,4 4.8,8",
  V: "-0,8 2.5,2 5,8",
  W: "-0,8 1.6,2 3.5,7.4 5.4,2 7,8",
  X: "-0,2 4.8,8|-0,8 4.8,2",
  Y: "-0,8 2.5,5 5,8|-2.5,5 2.5,2",
  Z: "-0,8 4.8,8 0,2 4.8,2",
  a: "o0,2 4,2 4,6 0,6|-4,6 4,2",
  b: "-0,2 0,8|o0,2 4,2 4,6 0,6",
  c: "~3.9,5 3.6,6 0,6 0,2 3.6,2 3.9,3",
  d: "-4,2 4,8|o0,2 4,2 4,6 0,6",
  e: "-0,4 4,4|~4,4 4,6 0,6 0,2 3.6,2 3.9,2.8",
  f: "~3,8 1,8.2 1,6.4|-1,6.5 1,2|-0,6 2.8,6",
  g: "o0,2 4,2 4,6 0,6|-4,6 4,2|~4,2 4,0 0.4,0 0.2,0.8",
  h: "-0,2 0,8|~0,4 0,6 3.8,6 3.8,4|-3.8,4 3.8,2",
  i: "-0,2 0,6|-0,7.7 0,7.8",
  j: "-1.5,6 1.5,2|~1.5,2 1.5,0 0,0|-1.5,7.7 1.5,7.8",
  k: "-0,2 0,8|-3.5,6 0,3.5|-1.3,4.4 3.7,2",
  l: "-0,8 0,3.4|~0,3.4 0,2 1.4,2",
  m: "-0,2 0,6|~0,4 0,6 3,6 3,4|-3,4 3,2|~3,4 3,6 6,6 6,4|-6,4 6,2",
  n: "-0,2 0,6|~0,4 0,6 3.8,6 3.8,4|-3.8,4 3.8,2",
  o: "o0,2 4.2,2 4.2,6 0,6",
  p: "-0,0 0,6|o0,2 4,2 4,6 0,6",
  q: "-4,0 4,6|o0,2 4,2 4,6 0,6",
  r: "-0,2 0,6|~0,4 0,6 2.6,6",
  s: "~3.5,5.1 3.4,6 0.1,6 0.1,4.2 3.7,4 3.7,2 0.2,2 0,2.9",
  t: "-1,7.6 1,3.5|~1,3.5 1,2 2.8,2|-0,6 2.6,6",
  u: "-0,6 0,4|~0,4 0,2 3.8,2 3.8,4|-3.8,6 3.8,2",
  v: "-0,6 2,2 4,6",
  w: "-0,6 1.3,2 2.8,5.6 4.3,2 5.6,6",
  x: "-0,2 3.8,6|-0,6 3.8,2",
  y: "-0,6 2,2|-4,6 2,2 1.2,0.3 0,0",
  z: "-0,6 3.8,6 0,2 3.8,2",
  0: "o0,2 4.4,2 4.4,8 0,8",
  1: "-0.4,6.7 2.4,8 2.4,2",
  2: "~0.1,6.6 0.1,8 4.3,8 4.3,5.5 2.2,4|-2.2,4 0,2 4.4,2",
  3: "~0.2,7.1 0.4,8 4,8 4,5.1 1.6,5.1|~1.6,5.1 4.4,5.1 4.4,2 0.2,2 0,3.1",
  4: "-3.2,2 3.2,8 0,3.8 4.4,3.8",
  5: "-4,8 0.6,8 0.3,5.2|~0.3,5.2 1,5.9 4.4,5.9 4.4,2 0.2,2 0,3.1",
  6: "~3.9,7.4 3.2,8 0,8 0,3.8|o0,2 4.4,2 4.4,5.8 0,5.8",
  7: "-0,8 4.4,8 1.5,2",
  8: "o0.3,5.1 4.1,5.1 4.1,8 0.3,8|o0,2 4.4,2 4.4,5.1 0,5.1",
  9: "o0,4.2 4.4,4.2 4.4,8 0,8|~4.4,6.2 4.4,2 1.2,2 0.5,2.6",
  ".": "-0,2 0,2.1",
  ",": "-0.6,2.2 0,0.9",
  ":": "-0,2.2 0,2.3|-0,5.4 0,5.5",
  ";": "-0.6,2.2 0,0.9|-0.5,5.4 0.5,5.5",
  "-": "-0,4.4 2.4,4.4",
  "_": "-0,1.2 4,1.2",
  "+": "-0,4.6 4,4.6|-2,2.6 2,6.6",
  "=": "-0,3.7 3.8,3.7|-0,5.5 3.8,5.5",
  "/": "-0,1.2 3,8.6",
  "\\": "-0,8.6 3,1.2",
  "|": "-0,0.5 0,9",
  "(": "~1.6,9 0,7.5 0,2.5 1.6,0.8",
  ")": "~0,9 1.6,7.5 1.6,2.5 0,0.8",
  "[": "-1.4,9 0,9 0,0.8 1.4,0.8",
  "]": "-0,9 1.4,9 1.4,0.8 0,0.8",
  "{": "~2,9 0.8,9 1.2,5 0,4.9|~0,4.9 1.2,4.8 0.8,0.8 2,0.8",
  "}": "~0,9 1.2,9 0.8,5 2,4.9|~2,4.9 0.8,4.8 1.2,0.8 0,0.8",
  "<": "-3.6,6.8 0,4.6 3.6,2.4",
  ">": "-0,6.8 3.6,4.6 0,2.4",
  "%": "o0,5.6 2,5.6 2,8 0,8|o4,2 6,2 6,4.4 4,4.4|-1.2,2 4.8,8",
  "#": "-0.8,2 1.6,8|-2.8,2 3.6,8|-0,4 4,4|-0.4,6 4.4,6",
  "*": "-2,5 2,8|-0.6,5.7 3.4,7.3|-0.6,7.3 3.4,5.7",
  "&": "~4.8,2 1,6.4 1,8 3.4,8 3.4,6.2 0,4.6 0,2 3,2 4.8,4.4",
  "@": "~4.6,3.2 3,3.2 3,6 1.8,6 1.8,3 4,3.4 5.8,3 5.8,8 0,8 0,1.4 4.4,1.4",
  "!": "-0,8 0,4|-0,2 0,2.1",
  "?": "~0,6.8 0.2,8 3.8,8 3.8,5.6 1.8,5.6 1.8,4|-1.8,2 1.8,2.1",
  "'": "-0,8 0,6.6",
  '"': "-0,8 0,6.6|-1.5,8 1.5,6.6",
  "^": "-0,5.8 1.6,8 3.2,5.8",
  "`": "-0,8.4 1,7.2",
  "~": "~0,4.2 1,5.6 2.6,3.6 3.8,5",
  "$": "~4,6.7 3.8,7.6 0.1,7.6 0.1,5.2 4.2,4.8 4.2,2.4 0.2,2.4 0,3.3|-2.1,1.4 2.1,8.6",
};
/** What there is no letter for. */
const MISSING = "-0,2 3.6,2 3.6,7 0,7 0,2";

type StrokePoint = readonly [x: number, y: number];
export interface Glyph {
  /** Each from point to point, its y growing downwards from the base line, in units of a large letter's height. */
  readonly strokes: readonly (readonly StrokePoint[])[];
  readonly advance: number;
}

const GLYPH_HEIGHT = 6, BASE = 2, GLYPH_GAP = 1.7, SPACE = 2.6, DIGIT = 4.4;
const known = new Map<string, Glyph>();

export function glyphOf(character: string): Glyph {
  let glyph = known.get(character);
  if (!glyph) known.set(character, glyph = make(character));
  return glyph;
}

function make(character: string): Glyph {
  if (character === " ") return { strokes: [], advance: SPACE / GLYPH_HEIGHT };
  const text = Object.hasOwn(STROKES, character) ? STROKES[character] : MISSING;
  const strokes = text.split("|").map((stroke) => {
    const points = stroke.slice(1).split(" ").map((pair) =>
      pair.split(",").map(Number) as unknown as StrokePoint
    );
    return stroke[0] === "-" ? points : curve(points, stroke[0] === "o");
  });
  // Digits are all as wide, so that numbers stand below each other.
  const width = /\d/.test(character) ? DIGIT : Math.max(...strokes.flat().map(([x]) => x));
  return {
    strokes: strokes.map((points) =>
      points.map(([x, y]): StrokePoint => [x / GLYPH_HEIGHT, (BASE - y) / GLYPH_HEIGHT])
    ),
    advance: (width + GLYPH_GAP) / GLYPH_HEIGHT,
  };
}

/** Cutting every corner, again and again, ends in a smooth curve. */
function curve(points: readonly StrokePoint[], closed: boolean): StrokePoint[] {
  let now = [...points];
  for (let round = 0; round < 4; round++) {
    const next: StrokePoint[] = closed ? [] : [now[0]];
    for (let i = 0; i < now.length - (closed ? 0 : 1); i++) {
      const [ax, ay] = now[i], [bx, by] = now[(i + 1) % now.length];
      next.push([0.75 * ax + 0.25 * bx, 0.75 * ay + 0.25 * by], [
        0.25 * ax + 0.75 * bx,
        0.25 * ay + 0.75 * by,
      ]);
    }
    if (!closed) next.push(now[now.length - 1]);
    now = next;
  }
  return closed ? [...now, now[0]] : now;
}
