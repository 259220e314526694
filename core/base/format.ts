/** Powers of 1024, as memory tools count: "512 B", "1.5 KiB", "92.3 MiB", "2.1 GiB". */
export function formatBytes(bytes: number): string {
  return scaled(bytes, 1024, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
}

/** "812", "9999", "12.3K", "124.4M", "1.5B". */
export function formatCount(count: number): string {
  return scaled(count, 1000, 10_000, ["", "K", "M", "B", "T"]);
}

/** "19,329". `toLocaleString` does the same and takes 10 ms the first time, since it reads the language's rules. */
export const formatWhole = (count: number): string =>
  Number.isFinite(count) ? String(count).replace(/\B(?=(\d{3})+$)/g, ",") : String(count);

/** Rates below 100 keep three digits: "0.35", "12.3", "1234". */
export function formatRate(perSecond: number): string {
  if (!Number.isFinite(perSecond)) return spelled(perSecond);
  return perSecond.toFixed(perSecond < 9.995 ? 2 : perSecond < 99.95 ? 1 : 0);
}

/** "0.35 s", "12 s", "3m 07s", "1h 04m", "2d 03h": two units at most. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return "?";
  if (seconds < 9.995) return `${Number(seconds.toFixed(2))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  // Hours drop the seconds, so minutes are rounded before they are split (59m 59.9s is 1h 00m).
  const minutes = Math.floor(whole / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
  const hours = Math.floor(minutes / 60);
  return `${Math.floor(hours / 24)}d ${two(hours % 24)}h`;
}

/** Three digits, and all of a second and more: "0.0812 ms", "12.3 ms", "1250 ms". */
export const formatMilliseconds = (ms: number): string =>
  `${ms < 999.5 ? ms.toPrecision(3) : ms.toFixed(0)} ms`;

/** "3.0e-4", and "0" for zero. */
export function formatLearningRate(rate: number): string {
  return rate === 0 ? "0" : Number.isFinite(rate) ? rate.toExponential(1) : spelled(rate);
}

/** Values have four decimals, or an exponent where four decimals would hide the value. */
export function formatValue(value: number): string {
  if (!Number.isFinite(value)) return spelled(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) : value.toFixed(4);
}

/** "a, b or c" */
export const formatChoices = (words: readonly string[]): string =>
  words.length < 2 ? words.join() : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;

export function formatPlural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function scaled(value: number, base: number, plainBelow: number, units: string[]): string {
  if (!Number.isFinite(value)) return spelled(value);
  let size = Math.abs(value);
  let unit = 0;
  if (size >= plainBelow) {
    // A value that rounds up to a full next unit takes that unit ("1024.0 MiB" is 1.0 GiB).
    while (unit < units.length - 1 && (size >= base || Number(size.toFixed(1)) >= base)) {
      size /= base;
      unit++;
    }
  }
  const digits = unit === 0 ? String(Number(size.toFixed(1))) : size.toFixed(1);
  return `${value < 0 ? "-" : ""}${digits}${units[unit]}`;
}

const two = (n: number) => String(n).padStart(2, "0");

/** Log scrapers know the spelling of Python and C: "nan", "inf", "-inf". */
const spelled = (value: number) => Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";

/** Cells in line; the columns named are numbers, and end in line. */
export function inColumns(rows: readonly (readonly string[])[], numbers: readonly number[] = []): string[] {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i].length)));
  return rows.map((row) =>
    row.map((cell, i) => numbers.includes(i) ? cell.padStart(widths[i]) : cell.padEnd(widths[i])).join("  ")
      .trimEnd()
  );
}
