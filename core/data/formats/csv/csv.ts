// The first lines of a text table show its delimiter and names.
import { UserError } from "../../../base/errors.ts";
import { cellText, plainDouble, plainNumber, scanCells, wordValue } from "./cells.ts";
import { formatPlural } from "../../../base/format.ts";
import { firstTwice } from "../../tables/choose.ts";
import type { Column } from "../../arrays/table.ts";
import { fromColumns } from "../../tables/columns.ts";
import type { DataReader, DataRequest, Sources, TableFile } from "../../format.ts";
import { withFiles } from "../../arrays/files.ts";
import { WHOLE_FLOATS } from "../../arrays/numbers.ts";
import { checkFreeMemory } from "../../../base/memory.ts";

interface TableLayout {
  readonly delimiter: string;
  readonly names: readonly string[];
  /** pandas writes the row's number into a first column without a name. */
  readonly numbered: boolean;
  readonly start: number;
  readonly linesBefore: number;
  readonly text: string;
}

interface Line {
  readonly cells: readonly string[];
  readonly next: number;
  readonly number: number;
}

/** The order matters: where another mark divides cells, a comma may be in a number or a text. */
const DELIMITERS: readonly [mark: string, name: string][] = [
  [";", "semicolons"],
  ["\t", "tabs"],
  [",", "commas"],
  [" ", "spaces"],
];
const LOOKED_AT = 20;
const HASH = 35, LINE_FEED = 10;

function tableLayoutOf(path: string, bytes: Uint8Array): TableLayout {
  refuseOther(path, bytes);
  let start = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0, linesBefore = 0;
  // numpy.savetxt writes the names into the last remark.
  let remark = -1;
  while (bytes[start] === HASH) {
    remark = start + 1;
    const newline = bytes.indexOf(LINE_FEED, start);
    start = newline < 0 ? bytes.length : newline + 1;
    linesBefore++;
  }
  const tried = DELIMITERS.map(([mark, name]) => ({
    mark,
    name,
    lines: firstLines(path, bytes, mark, start),
  }));
  const { mark, name, lines } = tried.find(({ lines }) => areEven(lines)) ??
    tried.reduce((best, other) => width(other.lines) > width(best.lines) ? other : best);
  if (lines.length === 0) {
    throw new UserError("data", `${path} has nothing in it but ${linesBefore} remarks or blanks.`);
  }
  const columns = width(lines);
  const remarked = remark < 0 ? [] : firstLines(path, bytes.subarray(0, start), mark, remark)[0]?.cells ?? [];
  const names = remarked.length === columns ? remarked : isHeader(lines) ? lines[0].cells : null;
  if (names && names !== remarked) {
    start = lines[0].next;
    linesBefore += lines[0].number;
  }
  const numbered = names !== null && names[0] === "";
  const namesText = names
    ? `names in line ${linesBefore}`
    : `no names in it, so columns are called 0 to ${columns - 1}`;
  return {
    delimiter: mark,
    names: checkNames(path, names ?? lines[0].cells.map((_, i) => String(i)), linesBefore),
    numbered,
    start,
    linesBefore,
    text: `${name} between cells, ${namesText}${numbered ? ", column 0 without one left out" : ""}`,
  };
}

const width = (lines: readonly Line[]) => lines.length === 0 ? 0 : lines[0].cells.length;

const areEven = (lines: readonly Line[]) =>
  width(lines) > 1 && lines.every(({ cells }) => cells.length === width(lines));

function firstLines(path: string, bytes: Uint8Array, delimiter: string, start: number): Line[] {
  const lines: Line[] = [];
  let cells: string[] = [];
  scanCells(path, bytes, delimiter, start, {
    cell: (_, from, to) => void cells.push(cellText(bytes, from, to)),
    line(number, _, next) {
      lines.push({ cells, next, number });
      cells = [];
      return lines.length < LOOKED_AT;
    },
  });
  return lines;
}

/**
 * Names are words above numbers, in some column. Below a missing value comes the one that counts.
 * pandas gives the names 0, 1, 2, ...
 */
function isHeader([first, ...others]: readonly Line[]): boolean {
  if (first.cells.length > 2 && first.cells.every((cell, i) => cell === String(i))) return true;
  const below = (i: number) => others.map(({ cells }) => cells[i] ?? "").find((cell) => !isMissing(cell));
  return first.cells.every(isWord) || first.cells.some((cell, i) => isWord(cell) && !isWord(below(i) ?? ""));
}

const isMissing = (cell: string): boolean => Number.isNaN(wordValue(cell));

function isWord(cell: string): boolean {
  const bytes = new TextEncoder().encode(cell);
  return Number.isNaN(plainNumber(bytes, 0, bytes.length)) && wordValue(cell) === undefined;
}

function checkNames(path: string, given: readonly string[], line: number): string[] {
  const names = given.map((name, i) => name || String(i));
  const twice = firstTwice(names);
  if (twice === undefined) return names;
  throw new UserError(
    "data",
    `${path}: line ${line} names two columns "${twice}". Give each a name of its own.`,
  );
}

function refuseOther(path: string, bytes: Uint8Array): void {
  const [a, b] = bytes;
  const found = bytes.length === 0
    ? "is empty"
    : a === 0x1f && b === 0x8b
    ? "is a gzip file: unpack it first (gunzip)"
    : a === 0x50 && b === 0x4b
    ? "is a zip file (xlsx is one too): write it as csv"
    : (a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff)
    ? "is UTF-16 text: write it as UTF-8 (iconv -f utf-16 -t utf-8)"
    : bytes.subarray(0, 4096).includes(0)
    ? "is no text: it has zero bytes in it. Name its kind with --data-type"
    : null;
  if (found) throw new UserError("data", `${path} ${found}.`);
}

function openCsv(request: DataRequest): Sources {
  return withTable(request.data.data_path, (table) => {
    const { layout } = table.facts;
    const opened = fromColumns(table, request);
    return { ...opened, notes: [`Read as text: ${layout}`, ...opened.notes] };
  });
}

export const withTable = <R>(
  path: string,
  use: (table: TableFile & { readonly facts: { readonly layout: string } }) => R,
): R =>
  withFiles((open) => {
    const file = open(path);
    const room = (bytes: number, samples: number | null) =>
      checkFreeMemory(path, bytes, samples, "Write what is used of it as npz: that takes less.");
    room(file.size, null);
    const bytes = file.read(0, file.size);
    const layout = tableLayoutOf(path, bytes);
    const lines = countLines(bytes, layout.start);
    room(file.size + 4 * lines * layout.names.length, lines);
    const columns = readColumns(path, bytes, layout, lines);
    return use({ path, kind: "text table", noun: "column", columns, facts: { layout: layout.text } });
  });

const NEWLINE = 10;

function countLines(bytes: Uint8Array, at: number): number {
  let lines = 1;
  for (; at < bytes.length; at++) if (bytes[at] === NEWLINE) lines++;
  return lines;
}

interface Reading {
  readonly values: Float32Array;
  numbers: number;
  fraction: boolean;
  /** Some whole number is beyond those that floats of 32 bits tell apart. */
  large: boolean;
  /** It is the first cell that is neither a number nor missing. */
  text: { readonly cell: string; readonly line: number } | null;
}

function readColumns(path: string, bytes: Uint8Array, layout: TableLayout, lines: number): Column[] {
  const { delimiter, names, start, linesBefore } = layout;
  const readings = names.map((): Reading => ({
    values: new Float32Array(lines),
    numbers: 0,
    fraction: false,
    large: false,
    text: null,
  }));
  const width = names.length;
  let row = 0;
  scanCells(path, bytes, delimiter, start, {
    cell(column, from, to, line) {
      if (column < width) readCell(readings[column], row, bytes, from, to, line + linesBefore);
    },
    behind(line) {
      throw unquoted(path, line + linesBefore);
    },
    line(line, cells) {
      if (cells !== width) throw ragged(path, line + linesBefore, cells, width);
      row++;
    },
  });
  const ofNumbers = [...names.keys()].filter((i) => !readings[i].text);
  const all = once(() => doubles(path, bytes, layout, ofNumbers, row)); // who wants one in 64 bits mostly wants each
  return names.map((name, i) => ({
    ...toColumn(name, readings[i], row, {
      texts: () => texts(path, bytes, layout, i, row),
      doubles: () => doubles(path, bytes, layout, [i], row).get(i)!,
      ofAll: () => all().get(i)!,
    }),
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
  } else if (!reading.fraction) {
    reading.fraction = !Number.isInteger(value) || hasPoint(bytes, from, to);
    if (value > WHOLE_FLOATS || value < -WHOLE_FLOATS) reading.large = true;
  }
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
  { values, numbers, fraction, large, text }: Reading,
  rows: number,
  again: { texts(): Texts; doubles(): Float64Array; ofAll(): Float64Array },
): Column {
  const plain = { name, shape: [rows], dtype: "f32", read: () => values.subarray(0, rows) } as const;
  const whole = numbers > 0 && !fraction;
  // Numbers of patients and seconds since 1970 tell samples apart, whatever a batch has room for.
  if (!text && whole && large) return { ...plain, whole, dtype: "f64", read: once(again.doubles) };
  if (!text) return { ...plain, whole, doubles: again.ofAll };
  const example = `${JSON.stringify(text.cell.slice(0, 60))} in line ${text.line}`;
  if (numbers > 0) return { ...plain, unusable: `has ${example} among its numbers${hint(text.cell)}` };
  const found = once(again.texts);
  return { ...plain, text: { example, classes: () => found().classes }, read: () => found().codes };
}

/** Most columns are numbers that floats have. Others are read again from the file, when they are asked for. */
function once<T>(read: () => T): () => T {
  let found: T | undefined;
  return () => found ??= read();
}

const hint = (cell: string) =>
  /^-?\d+,\d+$/.test(cell) ? " (numbers have a point where others write a comma)" : "";

function doubles(
  path: string,
  bytes: Uint8Array,
  { delimiter, start }: TableLayout,
  wanted: readonly number[],
  rows: number,
): ReadonlyMap<number, Float64Array> {
  const found = new Map(wanted.map((column) => [column, new Float64Array(rows)]));
  let row = 0;
  scanCells(path, bytes, delimiter, start, {
    cell(column, from, to) {
      const into = found.get(column);
      if (!into) return;
      const value = plainDouble(bytes, from, to);
      into[row] = Number.isNaN(value) ? wordValue(cellText(bytes, from, to)) ?? NaN : value;
    },
    line: () => void row++,
  });
  return found;
}

interface Texts {
  readonly classes: readonly string[];
  /** Each row's code is its text's place among the sorted classes. */
  readonly codes: Float32Array;
}

function texts(
  path: string,
  bytes: Uint8Array,
  { delimiter, start }: TableLayout,
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

const unquoted = (path: string, line: number): UserError =>
  new UserError(
    "data",
    `${path}: line ${line} has text behind the closing quote of a cell. Write a quote within a cell twice ("").`,
  );

function ragged(path: string, line: number, found: number, expected: number): UserError {
  return new UserError(
    "data",
    `${path}: line ${line} has ${formatPlural(found, "cell")}, but the lines before it have ${expected}. ` +
      "Mend it; a text with the mark between cells in it has to stand in quotes.",
  );
}

export const reader: DataReader = { open: openCsv, table: withTable };
