// Curves as characters: eight dots a character, or ASCII where the terminal has no Unicode.
import type { Curve } from "../../run/curve.ts";
import {
  clipText,
  type Colour,
  padded,
  painted,
  spreadText,
  type TextStyle,
} from "../../base/terminal_text.ts";

export interface PlotLine {
  readonly name: string;
  readonly curve: Curve;
  readonly colour: Colour;
}

export interface Plot {
  readonly title: string;
  readonly lines: readonly PlotLine[];
  readonly format: (value: number) => string;
  /** The axis is logarithmic where the values span this many times their least. */
  readonly logFrom?: number;
  readonly fromZero?: boolean;
}

const LABEL = 10;
const FEWEST_ROWS = 3;

/** Returns exactly `height` lines of `width` columns. */
export function plot(
  { title, lines, format, logFrom, fromZero }: Plot,
  width: number,
  height: number,
  style: TextStyle,
): string[] {
  const across = Math.max(1, width - LABEL - 1), rows = height - 2;
  if (rows < FEWEST_ROWS || across < 8) return Array.from({ length: height }, () => " ".repeat(width));
  const from = Math.min(...lines.map(({ curve }) => curve.length > 0 ? curve.first[0] : Infinity));
  const to = Math.max(...lines.map(({ curve }) => curve.lastStep));
  const traces = lines.map(({ curve }) => columnsOfCurve(curve, from, to, 2 * across));
  const scale = plotScale(traces, logFrom, fromZero);
  const cells = new Uint8Array(across * rows), owner = new Int8Array(across * rows).fill(-1);
  traces.forEach((trace, line) => draw(trace, scale, cells, owner, across, rows, line));

  const legend = lines.map(({ name, curve, colour }) =>
    `${name} ${painted(format(curve.last), colour, style)}`
  );
  const note = scale.log ? painted("log scale", "dim", style) : "";
  const head = spreadText(`${painted(title, "bold", style)}  ${legend.join("  ")}`, note, width, style);
  const middle = Math.floor((rows - 1) / 2);
  const body = Array.from({ length: rows }, (_, row) => {
    const share = 1 - row / Math.max(1, rows - 1);
    const label = row === 0 || row === middle || row === rows - 1 ? format(scale.valueAt(share)) : "";
    const bar = style.unicode ? "│" : "|";
    return painted(clipText(label, LABEL - 1, style).padStart(LABEL - 1) + bar, "dim", style) +
      " " + rowOf(cells, owner, row, across, lines, style);
  });
  return [head, ...body, painted(axis(from, to, across, width, style), "dim", style)];
}

function axis(from: number, to: number, across: number, width: number, style: TextStyle): string {
  if (!Number.isFinite(from) || !Number.isFinite(to)) return padded("", width, style);
  const ends = `${" ".repeat(LABEL + 1)}${String(from)}`;
  const last = `step ${to}`;
  return across < last.length + String(from).length + 2
    ? padded(`${" ".repeat(LABEL + 1)}${last}`, width, style)
    : ends + last.padStart(width - ends.length);
}

/** NaN means no steps. */
export function columnsOfCurve(curve: Curve, from: number, to: number, columns: number): Float64Array {
  const sum = new Float64Array(columns), count = new Float64Array(columns);
  const span = Math.max(1e-9, to - from);
  for (let i = 0; i < curve.length; i++) {
    if (curve.count[i] === 0) continue;
    const middle = (curve.first[i] + curve.step[i]) / 2;
    const column = Math.min(columns - 1, Math.max(0, Math.round((middle - from) / span * (columns - 1))));
    sum[column] += curve.sum[i];
    count[column] += curve.count[i];
  }
  return sum.map((total, i) => count[i] === 0 ? NaN : total / count[i]);
}

interface Scale {
  readonly log: boolean;
  /** 0 at the bottom, 1 at the top. */
  shareOf(value: number): number;
  valueAt(share: number): number;
}

export function plotScale(traces: readonly Float64Array[], logFrom = Infinity, fromZero = false): Scale {
  let least = fromZero ? 0 : Infinity, most = -Infinity;
  for (const trace of traces) {
    for (const value of trace) {
      if (value < least) least = value;
      if (value > most) most = value;
    }
  }
  if (least > most) [least, most] = [0, 1];
  const log = least > 0 && most / least >= logFrom;
  let [low, high] = log ? [Math.log(least), Math.log(most)] : [least, most];
  // A constant is in the middle, and rounding makes no difference.
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low <= size * 1e-9) [low, high] = size === 0 ? [-1, 1] : [low - size * 0.1, high + size * 0.1];
  return {
    log,
    shareOf: (value) => ((log ? Math.log(value) : value) - low) / (high - low),
    valueAt: (share) => log ? Math.exp(low + share * (high - low)) : low + share * (high - low),
  };
}

/** Unicode orders the dots of a character by column, then by row from the top. */
const DOTS = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

function draw(
  trace: Float64Array,
  scale: Scale,
  cells: Uint8Array,
  owner: Int8Array,
  across: number,
  rows: number,
  line: number,
): void {
  const tall = 4 * rows;
  const dot = (x: number, y: number) => {
    const cell = (y >> 2) * across + (x >> 1);
    cells[cell] |= DOTS[x & 1][y & 3];
    owner[cell] = line;
  };
  let before: { x: number; y: number } | null = null;
  for (let x = 0; x < trace.length; x++) {
    if (Number.isNaN(trace[x])) continue;
    const y = Math.min(tall - 1, Math.max(0, Math.round((1 - scale.shareOf(trace[x])) * (tall - 1))));
    const from = before ?? { x, y };
    const steps = Math.max(1, x - from.x, Math.abs(y - from.y));
    for (let i = 0; i <= steps; i++) {
      dot(Math.round(from.x + (x - from.x) * i / steps), Math.round(from.y + (y - from.y) * i / steps));
    }
    before = { x, y };
  }
}

function rowOf(
  cells: Uint8Array,
  owner: Int8Array,
  row: number,
  across: number,
  lines: readonly PlotLine[],
  style: TextStyle,
): string {
  let out = "", run = "", last = -1;
  for (let x = 0; x <= across; x++) {
    const own = x < across ? owner[row * across + x] : -2;
    if (own !== last) {
      out += last >= 0 ? painted(run, lines[last].colour, style) : run;
      run = "";
      last = own;
    }
    if (x < across) run += characterOf(cells[row * across + x], style);
  }
  return out;
}

function characterOf(dots: number, style: TextStyle): string {
  if (dots === 0) return " ";
  if (style.unicode) return String.fromCharCode(0x2800 + dots);
  const upper = (dots & 0x1b) !== 0, lower = (dots & 0xe4) !== 0;
  return upper && lower ? ":" : upper ? "'" : ".";
}

/** Shares beside each other, each in its colour, and what is left of the width faint. */
export function bar(shares: readonly (readonly [number, Colour])[], width: number, style: TextStyle): string {
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
