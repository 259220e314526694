// The axes of a sweep's page: where a value lies, from 0 to 1, and the labels beside. Pure.
import { formatValue } from "../../base/format.ts";
import type { Sweep, SweepRow } from "./runs.ts";

export interface PageAxis {
  readonly name: string;
  readonly kind: "number" | "choice";
  /** It is the last one, which runs are compared by. */
  readonly metric: boolean;
  readonly low: number;
  readonly high: number;
  readonly log: boolean;
  readonly whole: boolean;
  readonly choices: readonly string[];
  readonly ticks: readonly { readonly at: number; readonly label: string }[];
}

/** A logarithmic axis is better where values span so many times their least. */
const WIDE = 20;

/** A setting that all runs share is no axis. */
export function pageAxesOf(sweep: Sweep, rows: readonly SweepRow[]): PageAxis[] {
  const names = [...new Set(rows.flatMap(({ values }) => Object.keys(values)))];
  const settings = names.map((name) => {
    const dimension = sweep.search?.space.find((one) => one.name === name);
    if (dimension && dimension.kind !== "choice") {
      return numberAxis(name, [dimension.low, dimension.high], {
        log: dimension.log,
        whole: dimension.kind === "int",
      });
    }
    const words = [...new Set(rows.flatMap(({ values }) => values[name] ?? []))];
    return axisOfWords(name, dimension?.kind === "choice" ? dimension.choices : words);
  });
  const metric = rows.map((row) => row.metric).filter((value) =>
    value !== null && Number.isFinite(value)
  ) as number[];
  if (metric.length === 0) return settings;
  return [...settings, { ...numberAxis(sweep.metric, metric), metric: true }];
}

function axisOfWords(name: string, words: readonly string[]): PageAxis {
  const numbers = words.map(Number);
  // A few numbers are better seen as choices, at equal distances.
  if (words.length > 8 && numbers.every(Number.isFinite)) return numberAxis(name, numbers);
  const choices = numbers.every(Number.isFinite) ? [...words].sort((a, b) => Number(a) - Number(b)) : words;
  const ticks = choices.map((label, i) => ({ at: (i + 0.5) / choices.length, label }));
  return { name, kind: "choice", metric: false, low: 0, high: 1, log: false, whole: false, choices, ticks };
}

function numberAxis(
  name: string,
  values: readonly number[],
  { log, whole = false }: { log?: boolean; whole?: boolean } = {},
): PageAxis {
  const least = Math.min(...values), most = Math.max(...values);
  const [low, high] = least < most ? [least, most] : [least - 0.5, most + 0.5];
  const axis = { name, kind: "number" as const, metric: false, low, high, whole, choices: [] };
  const scaled = { ...axis, log: log ?? (low > 0 && high / low >= WIDE), ticks: [] };
  const ticks = ticksOf(scaled).map((value) => ({ at: axisPlace(scaled, value)!, label: labelOf(value) }));
  return { ...scaled, ticks };
}

/** Null where a run has no value. */
export function axisPlace(
  { kind, choices, low, high, log }: PageAxis,
  value: string | number | null | undefined,
): number | null {
  if (value === null || value === undefined) return null;
  if (kind === "choice") {
    const at = choices.indexOf(String(value));
    return at < 0 ? null : (at + 0.5) / choices.length;
  }
  const number = Number(value);
  if (!Number.isFinite(number)) return null;
  const at = log ? Math.log(number / low) / Math.log(high / low) : (number - low) / (high - low);
  return Math.min(Math.max(at, 0), 1);
}

const labelOf = (value: number): string =>
  value !== 0 && (Math.abs(value) < 0.001 || Math.abs(value) >= 1e5)
    ? value.toExponential().replace("+", "")
    : String(value);

function ticksOf({ low, high, log }: Pick<PageAxis, "low" | "high" | "log">): number[] {
  const decades = Math.log10(high / low);
  if (log && decades >= 2) {
    const every = Math.ceil(decades / 5),
      first = Math.ceil(Math.log10(low) - 1e-9),
      last = Math.floor(Math.log10(high) + 1e-9);
    const powers = [];
    for (let power = first; power <= last; power += every) powers.push(Number(`1e${power}`));
    return powers;
  }
  if (log) {
    const found = [1, 2, 5].flatMap((digit) =>
      [-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6].map((power) => Number(`${digit}e${power}`))
    );
    const inside = found.filter((value) => value >= low && value <= high).sort((a, b) => a - b);
    if (inside.length >= 2) return inside.length <= 6 ? inside : inside.filter((_, i) => i % 2 === 0);
  }
  const raw = (high - low) / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= raw) ?? raw;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    ticks.push(Number((i * step).toPrecision(6)));
  }
  return ticks.length >= 2 ? ticks : [low, high].map((end) => Number(formatValue(end)));
}
