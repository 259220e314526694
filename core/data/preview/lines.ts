// A summary as lines for a person. May import checkpoint's printable, format, summary (types).
import { printable } from "../../checkpoint/file_bytes.ts";
import { formatBytes, formatPlural } from "../../format.ts";
import type { FieldSummary, Range, Summary } from "./summary.ts";

const MOST_FIELDS = 60, MOST_CLASSES = 30;

export function summaryLines(summary: Summary): string[] {
  const { path, kind, bytes, samples, facts, fields, classes, noun } = summary;
  const rows = fields.slice(0, MOST_FIELDS).map((field) => fieldCells(field));
  const more = fields.length - rows.length;
  return [
    `${printable(path)}: ${kind}` + (bytes === null ? "" : `, ${formatBytes(bytes)}`) +
    (samples === null ? "" : `, ${formatPlural(samples, "sample")}`),
    ...Object.entries(facts).map(([name, value]) => `  ${name}: ${printable(value)}`),
    ...(rows.length > 0 ? aligned([[noun, "type", "shape", "range", ""], ...rows]) : []),
    ...(more > 0 ? [`  ... and ${more} more (--json lists all)`] : []),
    ...rows.flatMap((_, i) => countLines(fields[i])),
    ...(classes ? classLines(classes) : []),
    ...exampleLines(summary),
  ];
}

function fieldCells({ name, dtype, shape, dimensions, units, remark, range }: FieldSummary): string[] {
  const named = shape.map((size, i) => dimensions?.[i] ? `${dimensions[i]}=${size}` : String(size));
  const [from, of] = range ? rangeCells(range, shape[0] ?? 1) : ["", ""];
  const told = [of, remark ?? ""].filter(Boolean).join("; ");
  const span = dtype === "text" || !from ? "" : `${from}${units ? ` ${units}` : ""}`;
  return [name, dtype, `[${named.join(", ")}]`, span, told].map(printable);
}

function rangeCells({ min, max, missing, infinite, rows }: Range, total: number): [string, string] {
  const from = min === null ? "no number" : `${number(min)} to ${number(max!)}`;
  const told = [
    ...(missing > 0 ? [`${missing} missing`] : []),
    ...(infinite > 0 ? [`${infinite} infinite`] : []),
  ].join(", ");
  if (rows >= total) return [from, told];
  return [from, `${told}${told ? " " : ""}in the first ${rows} of ${total}`];
}

function countLines({ name, range }: FieldSummary): string[] {
  if (!range?.counts) return [];
  const told = range.counts.map(({ value, count }) => `${printable(text(value))} (${count})`);
  return [`  ${printable(name)} has ${formatPlural(told.length, "value")}: ${told.join(", ")}`];
}

function classLines(classes: NonNullable<Summary["classes"]>): string[] {
  const shown = classes.slice(0, MOST_CLASSES).map(({ name, samples }) => `${printable(name)} (${samples})`);
  const more = classes.length > shown.length ? `, ... (--json lists all)` : "";
  return [`  ${classes.length} ${classes.length === 1 ? "class" : "classes"}: ${shown.join(", ")}${more}`];
}

const MOST_WIDTH = 100;

/** One line a field, one column a sample: as many as fit beside each other, and one at least. */
function exampleLines({ row, examples: { first, values } }: Summary): string[] {
  const most = Math.max(0, ...Object.values(values).map((rows) => rows.length));
  if (most === 0) return [];
  const samples = Array.from({ length: most }, (_, i) => String(first + i));
  const fields = Object.entries(values).map(([name, rows]) => [printable(name), ...rows.map(exampleCell)]);
  const table = [[row, ...samples], ...fields];
  let width = 0;
  const widths = table[0].map((_, i) => width += 2 + widest(table, i));
  const fitting = widths.filter((width) => width <= MOST_WIDTH).length;
  return aligned(table.map((cells) => cells.slice(0, Math.max(2, fitting))));
}

function exampleCell(values: Summary["examples"]["values"][string][number]): string {
  const shown = values.length <= 5 ? values : values.slice(0, 3);
  return printable(shown.map(brief).join(" ")) + (shown.length < values.length ? " ..." : "");
}

const brief = (value: number | string | null) =>
  typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(4))) : text(value);

const text = (value: number | string | null) =>
  value === null ? "missing" : typeof value === "number" ? number(value) : shortened(value);

const shortened = (value: string) => value.length > 24 ? `${value.slice(0, 23)}…` : value;

/** Six figures are enough to see what a number is. */
const number = (value: number) =>
  Number.isInteger(value) && Math.abs(value) < 1e15 ? String(value) : String(Number(value.toPrecision(6)));

/** Cells in columns, indented; the spaces at the ends of lines are left out. */
function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0].map((_, i) => widest(rows, i));
  return rows.map((row) => `  ${row.map((cell, i) => cell.padEnd(widths[i])).join("  ")}`.trimEnd());
}

const widest = (rows: readonly (readonly string[])[], i: number) =>
  Math.max(...rows.map((row) => row[i]?.length ?? 0));
