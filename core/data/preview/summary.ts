// A summary has ranges, missing values, counts and the first samples, in numbers and as lines.
import type { VariableValues } from "../arrays/numbers.ts";
import type { PreviewField } from "./axes.ts";
import { printable } from "../../base/file_bytes.ts";
import { formatBytes, formatPlural } from "../../base/format.ts";
import { dimensionNotes, type DimensionSummary } from "./dimensions.ts";
import { type Histogram, histogramOf, type Preview, spreadOf } from "./preview.ts";

export interface Summary {
  readonly path: string;
  readonly kind: string;
  readonly bytes: number | null;
  readonly samples: number | null;
  readonly row: string;
  readonly noun: string;
  readonly facts: Readonly<Record<string, string>>;
  /** Those that have names. */
  readonly dimensions: readonly DimensionSummary[];
  readonly fields: readonly FieldSummary[];
  readonly classes: Preview["classes"];
  readonly examples: Examples;
}

export interface FieldSummary {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly dimensions?: readonly string[];
  readonly units?: string;
  readonly remark?: string;
  readonly range: FieldRange | null;
}

export interface FieldRange {
  readonly min: number | null;
  readonly max: number | null;
  /** NaN, or marked as missing. */
  readonly missing: number;
  readonly infinite: number;
  readonly rows: number;
  /** It is null for texts, and where no value is finite. */
  readonly mean: number | null;
  readonly std: number | null;
  readonly histogram: Histogram | null;
  /** Counts exist for few distinct values, the smallest first; texts count by their text. */
  readonly counts?: readonly { readonly value: number | string; readonly count: number }[];
}

interface Examples {
  readonly first: number;
  /** Each field has the beginnings of its samples; null is a missing value. */
  readonly values: Readonly<Record<string, readonly (readonly (number | string | null)[])[]>>;
}

/** These limit the values of all fields, of one field, and of one read. */
const MOST_VALUES = 2 ** 25, MOST_OF_FIELD = 2 ** 21, AT_ONCE = 2 ** 18;

const LARGEST_ROW = 2 ** 26;

const MOST_COUNTED = 20;

const BINS = 16;

const EXAMPLES = 5, EXAMPLE_VALUES = 6, EXAMPLE_FIELDS = 16;

export function summarise(preview: Preview, sample: number | null): Summary {
  const { path, kind, bytes, samples, row = "sample", noun, facts, dimensions = [], fields, classes } =
    preview;
  const readable = fields.filter(({ read }) => read !== null).length;
  const budget = Math.min(MOST_OF_FIELD, Math.floor(MOST_VALUES / Math.max(1, readable)));
  return {
    path,
    kind,
    bytes,
    samples,
    row,
    noun,
    facts,
    dimensions,
    classes,
    fields: fields.map((field) => {
      const { name, dtype, shape, dimensions, units, remark } = field;
      return { name, dtype, shape, dimensions, units, remark, range: fieldRange(field, budget) };
    }),
    examples: examplesOf(fields, sample),
  };
}

const rowSize = ({ shape }: Pick<PreviewField, "shape">) =>
  shape.slice(1).reduce((product, size) => product * size, 1);

const rowsOf = ({ shape }: PreviewField) => shape.length === 0 ? 1 : shape[0];

export function fieldRange(field: PreviewField, budget: number): FieldRange | null {
  const size = rowSize(field), total = rowsOf(field);
  if (!field.read || size === 0 || total === 0 || size > LARGEST_ROW) return null;
  const rows = Math.min(total, Math.max(1, Math.floor(budget / size)));
  const together = Math.max(1, Math.floor(AT_ONCE / size));
  const found = { min: Infinity, max: -Infinity, missing: 0, infinite: 0 };
  const counts: Map<number, number> | null = size === 1 ? new Map() : null;
  const pieces: VariableValues[] = [];
  for (let first = 0; first < rows; first += together) {
    const values = field.read(first, Math.min(together, rows - first));
    sampleValues(values, found);
    pieces.push(values);
    if (counts && counts.size <= MOST_COUNTED) count(values, counts);
  }
  const any = found.min <= found.max, numbers = any && !field.texts;
  return {
    ...found,
    min: any ? found.min : null,
    max: any ? found.max : null,
    rows,
    ...(numbers ? spreadOf(pieces) : { mean: null, std: null }),
    histogram: numbers ? histogramOf(pieces, found.min, found.max, BINS) : null,
    ...(counts && areFew(counts, rows) ? { counts: inOrder(counts, field.texts) } : {}),
  };
}

function sampleValues(
  values: VariableValues,
  found: { min: number; max: number; missing: number; infinite: number },
): void {
  let { min, max } = found;
  for (let i = 0; i < values.length; i++) {
    const value = Number(values[i]);
    if (value !== value) found.missing++;
    else if (value === Infinity || value === -Infinity) found.infinite++;
    else {
      if (value < min) min = value;
      if (value > max) max = value;
    }
  }
  found.min = min;
  found.max = max;
}

function count(values: VariableValues, counts: Map<number, number>): void {
  for (let i = 0; i < values.length && counts.size <= MOST_COUNTED; i++) {
    const value = Number(values[i]);
    if (value === value) counts.set(value, (counts.get(value) ?? 0) + 1);
  }
}

/** Quantities seldom repeat, so their counts mean nothing. */
const areFew = (counts: Map<number, number>, rows: number) =>
  counts.size > 0 && counts.size <= Math.min(MOST_COUNTED, rows / 2) && counts.keys().every(Number.isInteger);

const inOrder = (counts: Map<number, number>, texts?: readonly string[]) =>
  [...counts].sort(([a], [b]) => a - b).map(([value, count]) => ({ value: texts?.[value] ?? value, count }));

function examplesOf(fields: readonly PreviewField[], sample: number | null): Examples {
  const first = sample ?? 0, most = sample === null ? EXAMPLES : 1;
  // A few values of an image mean nothing.
  const shown = fields.filter(({ read, shape, remark }) =>
    read && !remark && (shape.length === 1 || shape.length === 2)
  );
  const values = shown.slice(0, EXAMPLE_FIELDS).map((field) => {
    const size = rowSize(field), rows = Math.max(0, Math.min(most, rowsOf(field) - first));
    const of = (value: number) =>
      Number.isFinite(value) ? field.texts?.[value] ?? value : Number.isNaN(value) ? null : String(value);
    const read = Array.from({ length: rows }, (_, i) => {
      const row = field.read!(first + i, 1);
      return Array.from({ length: Math.min(size, EXAMPLE_VALUES) }, (_, j) => of(Number(row[j])));
    });
    return [field.name, read] as const;
  });
  return { first, values: Object.fromEntries(values) };
}

const MOST_FIELDS = 60, MOST_CLASSES = 30;

export function summaryLines(summary: Summary): string[] {
  const { path, kind, bytes, samples, facts, dimensions, fields, classes, noun } = summary;
  // A dimension's own coordinate has been described.
  const described = new Set(dimensions.filter(({ range }) => range).map(({ name }) => name));
  const others = fields.filter(({ name }) => !described.has(name));
  const rows = others.slice(0, MOST_FIELDS).map((field) => fieldCells(field));
  const more = others.length - rows.length;
  return [
    `${printable(path)}: ${kind}` + (bytes === null ? "" : `, ${formatBytes(bytes)}`) +
    (samples === null ? "" : `, ${formatPlural(samples, "sample")}`),
    ...Object.entries(facts).map(([name, value]) => `  ${name}: ${printable(value)}`),
    ...(dimensions.length > 0
      ? aligned([
        ["dimension", "size", "range", ""],
        ...dimensions.map((one) => dimensionCells(one).map(printable)),
      ])
      : []),
    ...(rows.length > 0
      ? aligned([[noun, "type", "shape", "range", "mean ± std", "histogram", ""], ...rows])
      : []),
    ...(more > 0 ? [`  ... and ${more} more (--json lists all)`] : []),
    ...rows.flatMap((_, i) => countLines(others[i])),
    ...(classes ? classLines(classes) : []),
    ...exampleLines(summary),
  ];
}

function dimensionCells({ name, size, units, calendar, range }: DimensionSummary): string[] {
  if (!range) return [name, String(size), "", ""];
  const { from, to } = range;
  const about = calendar ? ` (${calendar})` : units ? ` ${units}` : "";
  const span = size === 1 ? `${from}` : `${from} to ${to}`;
  return [name, String(size), span + about, dimensionNotes(size, range).join("; ")];
}

function fieldCells({ name, dtype, shape, dimensions, units, remark, range }: FieldSummary): string[] {
  const named = shape.map((size, i) => dimensions?.[i] ? `${dimensions[i]}=${size}` : String(size));
  const [from, of] = range ? rangeCells(range, shape[0] ?? 1, rowSize({ shape })) : ["", ""];
  const notes = [of, remark ?? ""].filter(Boolean).join("; ");
  const span = dtype === "text" || !from ? "" : `${from}${units && units !== "1" ? ` ${units}` : ""}`;
  const spread = range && !remark ? spreadCells(range) : ["", ""];
  return [name, dtype, `[${named.join(", ")}]`, span, ...spread, notes].map(printable);
}

/** Counted values stand in a line of their own. */
function spreadCells({ mean, std, histogram, counts }: FieldRange): string[] {
  if (mean === null || std === null) return ["", ""];
  const short = (value: number) => number(Number(value.toPrecision(4)));
  return [`${short(mean)} ± ${short(std)}`, histogram && !counts ? histogramLine(histogram) : ""];
}

const BARS = "▁▂▃▄▅▆▇█";

/** An empty bin is a space. */
function histogramLine({ counts }: Histogram): string {
  const most = Math.max(...counts);
  return counts.map((count) => count === 0 ? " " : BARS[Math.ceil(count / most * BARS.length) - 1]).join("");
}

function rangeCells(
  { min, max, missing, infinite, rows }: FieldRange,
  total: number,
  each: number,
): [string, string] {
  const from = min === null || max === null ? "no number" : `${number(min)} to ${number(max)}`;
  const notes = [
    ...(missing > 0
      ? [`${missing} missing (${Number((100 * missing / (rows * each)).toPrecision(2))}%)`]
      : []),
    ...(infinite > 0 ? [`${infinite} infinite`] : []),
  ].join(", ");
  if (rows >= total) return [from, notes];
  return [from, `${notes}${notes ? " " : ""}in the first ${rows} of ${total}`];
}

function countLines({ name, range }: FieldSummary): string[] {
  if (!range?.counts) return [];
  const notes = range.counts.map(({ value, count }) => `${printable(text(value))} (${count})`);
  return [`  ${printable(name)} has ${formatPlural(notes.length, "value")}: ${notes.join(", ")}`];
}

function classLines(classes: NonNullable<Summary["classes"]>): string[] {
  const shown = classes.slice(0, MOST_CLASSES).map(({ name, samples }) => `${printable(name)} (${samples})`);
  const more = classes.length > shown.length ? `, ... (--json lists all)` : "";
  return [`  ${classes.length} ${classes.length === 1 ? "class" : "classes"}: ${shown.join(", ")}${more}`];
}

const MOST_WIDTH = 100;

/** A line is a field, a column a sample; at least one fits. */
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

const number = (value: number) =>
  Number.isInteger(value) && Math.abs(value) < 1e15 ? String(value) : String(Number(value.toPrecision(6)));

function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0].map((_, i) => widest(rows, i));
  return rows.map((row) => `  ${row.map((cell, i) => cell.padEnd(widths[i])).join("  ")}`.trimEnd());
}

const widest = (rows: readonly (readonly string[])[], i: number) =>
  Math.max(...rows.map((row) => row[i]?.length ?? 0));
