// A preview in numbers: ranges, missing values, how often each value occurs, the first samples. May import preview (types).
import type { Preview, PreviewField, Values } from "./preview.ts";

/** Plain data, as --json prints it. */
export interface Summary {
  readonly path: string;
  readonly kind: string;
  readonly bytes: number | null;
  readonly samples: number | null;
  readonly row: string;
  readonly noun: string;
  readonly facts: Readonly<Record<string, string>>;
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
  readonly range: Range | null;
}

export interface Range {
  /** Null where no value is finite. */
  readonly min: number | null;
  readonly max: number | null;
  /** NaN, or marked as missing. */
  readonly missing: number;
  readonly infinite: number;
  /** How many rows were looked at, from the first on. */
  readonly rows: number;
  /** How often each value occurs, the smallest first, where they are few; texts by their text. */
  readonly counts?: readonly { readonly value: number | string; readonly count: number }[];
}

export interface Examples {
  readonly first: number;
  /** For each field the beginnings of the samples' values; null is a missing one. */
  readonly values: Readonly<Record<string, readonly (readonly (number | string | null)[])[]>>;
}

/** Values that are looked at: of all fields together, of one field, and at once. */
const MOST_VALUES = 2 ** 25, MOST_OF_FIELD = 2 ** 21, AT_ONCE = 2 ** 18;
/** A single row of more is not looked at. */
const LARGEST_ROW = 2 ** 26;
const MOST_COUNTED = 20;
const EXAMPLES = 5, EXAMPLE_VALUES = 6, EXAMPLE_FIELDS = 16;

/** Of the first samples, or of one. */
export function summarise(preview: Preview, sample: number | null): Summary {
  const { path, kind, bytes, samples, row = "sample", noun, facts, fields, classes } = preview;
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
    classes,
    fields: fields.map((field) => {
      const { name, dtype, shape, dimensions, units, remark } = field;
      return { name, dtype, shape, dimensions, units, remark, range: rangeOf(field, budget) };
    }),
    examples: examplesOf(fields, sample),
  };
}

const rowSize = ({ shape }: PreviewField) => shape.slice(1).reduce((product, size) => product * size, 1);
/** A single number is a row of one. */
const rowsOf = ({ shape }: PreviewField) => shape.length === 0 ? 1 : shape[0];

export function rangeOf(field: PreviewField, budget: number): Range | null {
  const size = rowSize(field), total = rowsOf(field);
  if (!field.read || size === 0 || total === 0 || size > LARGEST_ROW) return null;
  const rows = Math.min(total, Math.max(1, Math.floor(budget / size)));
  const together = Math.max(1, Math.floor(AT_ONCE / size));
  const found = { min: Infinity, max: -Infinity, missing: 0, infinite: 0 };
  const counts: Map<number, number> | null = size === 1 ? new Map() : null;
  for (let first = 0; first < rows; first += together) {
    const values = field.read(first, Math.min(together, rows - first));
    look(values, found);
    if (counts && counts.size <= MOST_COUNTED) count(values, counts);
  }
  const any = found.min <= found.max;
  return {
    ...found,
    min: any ? found.min : null,
    max: any ? found.max : null,
    rows,
    ...(counts && areFew(counts, rows) ? { counts: inOrder(counts, field.texts) } : {}),
  };
}

function look(
  values: Values,
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

function count(values: Values, counts: Map<number, number>): void {
  for (let i = 0; i < values.length && counts.size <= MOST_COUNTED; i++) {
    const value = Number(values[i]);
    if (value === value) counts.set(value, (counts.get(value) ?? 0) + 1);
  }
}

/** Quantities seldom repeat, and their counts say nothing. */
const areFew = (counts: Map<number, number>, rows: number) =>
  counts.size > 0 && counts.size <= Math.min(MOST_COUNTED, rows / 2) && counts.keys().every(Number.isInteger);

const inOrder = (counts: Map<number, number>, texts?: readonly string[]) =>
  [...counts].sort(([a], [b]) => a - b).map(([value, count]) => ({ value: texts?.[value] ?? value, count }));

function examplesOf(fields: readonly PreviewField[], sample: number | null): Examples {
  const first = sample ?? 0, most = sample === null ? EXAMPLES : 1;
  // Of images and maps a few values say nothing.
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
