// How a text table is written, found out from its first lines: what divides its cells, where its names are.
// May import errors, csv_cells.
import { UserError } from "../errors.ts";
import { cellText, plainNumber, scanCells, wordValue } from "./csv_cells.ts";

export interface Layout {
  readonly delimiter: string;
  readonly names: readonly string[];
  /** The first column has no name: what pandas writes there is the number of the row. */
  readonly numbered: boolean;
  /** Where the numbers begin, and how many lines are before them. */
  readonly start: number;
  readonly linesBefore: number;
  /** One line for the user. */
  readonly said: string;
}

interface Line {
  readonly cells: readonly string[];
  /** Where the line after it begins, and its number. */
  readonly next: number;
  readonly number: number;
}

/** Tried in this order: where something else divides cells, a comma may be in a number or a text. */
const DELIMITERS: readonly [mark: string, name: string][] = [
  [";", "semicolons"],
  ["\t", "tabs"],
  [",", "commas"],
  [" ", "spaces"],
];
const LOOKED_AT = 20;
const HASH = 35, NEWLINE = 10;

export function layoutOf(path: string, bytes: Uint8Array): Layout {
  refuseOther(path, bytes);
  let start = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0, linesBefore = 0;
  // Remarks, of which the last may be the names, as numpy.savetxt writes them.
  let remark = -1;
  while (bytes[start] === HASH) {
    remark = start + 1;
    const newline = bytes.indexOf(NEWLINE, start);
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
  const said = names
    ? `names in line ${linesBefore}`
    : `no names in it, so columns are called 0 to ${columns - 1}`;
  return {
    delimiter: mark,
    names: checkNames(path, names ?? lines[0].cells.map((_, i) => String(i)), linesBefore),
    numbered,
    start,
    linesBefore,
    said: `Read as text: ${name} between cells, ${said}${numbered ? ", column 0 without one left out" : ""}`,
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
 * Names are words, and stand above numbers: in no column is the first line a number and the second a word, and in
 * some it is the other way round. 0, 1, 2, ... are the names that pandas gives.
 */
function isHeader([first, second]: readonly Line[]): boolean {
  if (first.cells.length > 2 && first.cells.every((cell, i) => cell === String(i))) return true;
  const below = second?.cells ?? [];
  return first.cells.some((cell, i) => isWord(cell) && !isWord(below[i] ?? "")) || first.cells.every(isWord);
}

function isWord(cell: string): boolean {
  const bytes = new TextEncoder().encode(cell);
  return Number.isNaN(plainNumber(bytes, 0, bytes.length)) && wordValue(cell) === undefined;
}

/** A column without a name is called by its place. */
function checkNames(path: string, given: readonly string[], line: number): string[] {
  const names = given.map((name, i) => name || String(i));
  const twice = names.find((name, i) => names.indexOf(name) < i);
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
