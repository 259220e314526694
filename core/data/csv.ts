// Text tables (csv and its relatives) -> columns. May import errors, csv_cells, csv_layout, columns, files, room.
import { UserError } from "../errors.ts";
import { formatPlural } from "../format.ts";
import { type Column, type ColumnSettings, type FromColumns, fromColumns } from "./columns.ts";
import { cellText, plainNumber, scanCells, wordValue } from "./csv_cells.ts";
import { type Layout, layoutOf } from "./csv_layout.ts";
import { withFiles } from "./files.ts";
import { checkRoom } from "./room.ts";

export function csv(settings: ColumnSettings): FromColumns {
  const path = settings.data.data_path;
  const { layout, columns } = readTable(path);
  const opened = fromColumns({ path, noun: "column", columns }, settings);
  return { ...opened, notes: [layout.said, ...opened.notes] };
}

export function readTable(path: string): { readonly layout: Layout; readonly columns: readonly Column[] } {
  return withFiles((open) => {
    const file = open(path);
    const room = (bytes: number, samples: number | null) =>
      checkRoom(path, bytes, samples, "Write what is used of it as npz: that takes less.");
    room(file.size, null);
    const bytes = file.read(0, file.size);
    const layout = layoutOf(path, bytes);
    const lines = countLines(bytes, layout.start);
    room(file.size + 4 * lines * layout.names.length, lines);
    return { layout, columns: readColumns(path, bytes, layout, lines) };
  });
}

const NEWLINE = 10;

/** At least as many as there are samples. */
function countLines(bytes: Uint8Array, at: number): number {
  let lines = 1;
  for (; at < bytes.length; at++) if (bytes[at] === NEWLINE) lines++;
  return lines;
}

interface Reading {
  readonly values: Float32Array;
  numbers: number;
  /** A number was written with a point or an exponent. */
  fraction: boolean;
  /** The first cell that is neither a number nor missing, and its line. */
  text: { readonly cell: string; readonly line: number } | null;
}

function readColumns(path: string, bytes: Uint8Array, layout: Layout, lines: number): Column[] {
  const { delimiter, names, start, linesBefore } = layout;
  const readings = names.map((): Reading => ({
    values: new Float32Array(lines),
    numbers: 0,
    fraction: false,
    text: null,
  }));
  const width = names.length;
  let row = 0;
  scanCells(path, bytes, delimiter, start, {
    cell(column, from, to, line) {
      if (column < width) readCell(readings[column], row, bytes, from, to, line + linesBefore);
    },
    line(line, cells) {
      if (cells !== width) throw ragged(path, line + linesBefore, cells, width);
      row++;
    },
  });
  return names.map((name, i) => ({
    ...toColumn(name, readings[i], row, () => texts(path, bytes, layout, i, row)),
    onlyByName: i === 0 && layout.numbered,
  }));
}

function readCell(
  reading: Reading,
  row: number,
  bytes: Uint8Array,
  from: number,
  to: number,
  line: number,
): void {
  let value = plainNumber(bytes, from, to);
  if (Number.isNaN(value)) {
    const text = cellText(bytes, from, to);
    const word = wordValue(text);
    if (word === undefined) reading.text ??= { cell: text, line };
    value = word ?? NaN;
  } else if (!reading.fraction) reading.fraction = !Number.isInteger(value) || hasPoint(bytes, from, to);
  reading.values[row] = value;
  if (!Number.isNaN(value)) reading.numbers++;
}

/** "5.0" is a quantity where "5" may be a class. */
function hasPoint(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (bytes[at] === POINT || (bytes[at] | 32) === LETTER_E) return true;
  return false;
}

const POINT = 46, LETTER_E = 101;

function toColumn(
  name: string,
  { values, numbers, fraction, text }: Reading,
  rows: number,
  all: () => Texts,
): Column {
  const plain = { name, shape: [rows], dtype: "f32", read: () => values.subarray(0, rows) } as const;
  if (!text) return { ...plain, whole: numbers > 0 && !fraction };
  const example = `${JSON.stringify(text.cell.slice(0, 60))} in line ${text.line}`;
  if (numbers > 0) return { ...plain, unusable: `has ${example} among its numbers${hint(text.cell)}` };
  let found: Texts | undefined;
  const once = () => found ??= all();
  return { ...plain, text: { example, classes: () => once().classes }, read: () => once().codes };
}

const hint = (cell: string) =>
  /^-?\d+,\d+$/.test(cell) ? " (numbers have a point where others write a comma)" : "";

interface Texts {
  /** Sorted. */
  readonly classes: readonly string[];
  /** For each row the place of its text among them. */
  readonly codes: Float32Array;
}

/** The file is read again for it: most columns are numbers, and their texts need not be kept. */
function texts(
  path: string,
  bytes: Uint8Array,
  { delimiter, start }: Layout,
  wanted: number,
  rows: number,
): Texts {
  const seen = new Map<string, number>(), found = new Int32Array(rows);
  let row = 0;
  scanCells(path, bytes, delimiter, start, {
    cell(column, from, to) {
      if (column !== wanted) return;
      const text = cellText(bytes, from, to);
      if (wordValue(text) !== undefined) found[row] = -1;
      else {
        let code = seen.get(text);
        if (code === undefined) seen.set(text, code = seen.size);
        found[row] = code;
      }
    },
    line: () => void row++,
  });
  const classes = [...seen.keys()].sort();
  const place = new Map(classes.map((text, i) => [seen.get(text), i]));
  return { classes, codes: Float32Array.from(found, (code) => place.get(code) ?? NaN) };
}

function ragged(path: string, line: number, found: number, expected: number): UserError {
  return new UserError(
    "data",
    `${path}: line ${line} has ${formatPlural(found, "cell")}, but the lines before it have ${expected}. ` +
      "Mend it; a text with the mark between cells in it has to stand in quotes.",
  );
}
