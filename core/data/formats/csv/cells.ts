// A scan finds the cells of a text table and their numbers.
import { UserError } from "../../../base/errors.ts";

interface Visitor {
  /** The cell's bytes are `from` up to `to`, without its quotes. */
  cell(column: number, from: number, to: number, line: number): void;
  /** Something stands behind a cell's closing quote, in this line. */
  behind?(line: number): void;
  /** The line began as the `line`th of the file. False ends the scan. */
  line(line: number, cells: number, next: number): boolean | void;
}

const QUOTE = 34, NEWLINE = 10, RETURN = 13, SPACE = 32, TAB = 9;

export function scanCells(
  path: string,
  bytes: Uint8Array,
  delimiter: string,
  at: number,
  visitor: Visitor,
): void {
  const mark = delimiter.charCodeAt(0), end = bytes.length, spaced = mark === SPACE;
  const isBlank = (byte: number) => byte === SPACE || byte === RETURN || (byte === TAB && mark !== TAB);
  let line = 1;
  while (at < end) {
    const began = line;
    let column = 0, more = true;
    while (at < end && isBlank(bytes[at])) at++;
    if (at < end && bytes[at] === NEWLINE) {
      at++;
      line++;
      continue;
    }
    if (at >= end) return;
    while (more) {
      while (at < end && isBlank(bytes[at])) at++;
      let from = at, to: number;
      if (bytes[at] === QUOTE) {
        from = ++at;
        for (; at < end && !(bytes[at] === QUOTE && bytes[at + 1] !== QUOTE); at++) {
          if (bytes[at] === NEWLINE) line++;
          if (bytes[at] === QUOTE) at++;
        }
        if (at >= end) throw new UserError("data", `${path}: the quote in line ${began} is never closed.`);
        to = at++;
        for (; at < end && bytes[at] !== mark && bytes[at] !== NEWLINE; at++) {
          if (!isBlank(bytes[at])) visitor.behind?.(line);
        }
      } else {
        while (at < end && bytes[at] !== mark && bytes[at] !== NEWLINE) at++;
        to = at;
        while (to > from && isBlank(bytes[to - 1])) to--;
      }
      visitor.cell(column++, from, to, began);
      if (spaced) { while (at < end && isBlank(bytes[at])) at++; }
      // With words, several spaces count as one mark, and trailing ones as none.
      more = at < end && (spaced ? bytes[at] !== NEWLINE : bytes[at] === mark);
      if (more && !spaced) at++;
    }
    if (at < end) at++;
    line++;
    if (visitor.line(began, column, at) === false) return;
  }
}

export function cellText(bytes: Uint8Array, from: number, to: number): string {
  return decoder.decode(bytes.subarray(from, to)).replaceAll('""', '"');
}

const decoder = new TextDecoder();

const POWERS = Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));

/** Ten times this, and a digit, is a whole number below 2^53. */
const ENOUGH = 9e14;
/** Left-out digits and two roundings amount to less. */
const DOUBT = 4e-15;

/**
 * Plain numbers have digits, a point and an exponent; all else is NaN. The result rounds correctly to 32
 * bits: a whole number below 2^53 times or over a power of ten up to 22 is rounded once, and digits beyond
 * that matter only where they could change the 32-bit number.
 */
export function plainNumber(bytes: Uint8Array, from: number, to: number): number {
  let at = from, whole = 0, digits = 0, scale = 0, dropped = 0;
  const negative = bytes[at] === 45;
  if (negative || bytes[at] === 43) at++;
  for (let point = false; at < to; at++) {
    const digit = bytes[at] - 48;
    if (digit >= 0 && digit <= 9) {
      digits++;
      if (whole < ENOUGH) {
        whole = whole * 10 + digit;
        if (point) scale--;
      } else {
        dropped++;
        if (!point) scale++;
      }
    } else if (digit === POINT && !point) point = true;
    else break;
  }
  if (digits === 0) return NaN;
  if (at < to) {
    if ((bytes[at] | 32) !== 101) return NaN;
    const minus = bytes[++at] === 45;
    if (minus || bytes[at] === 43) at++;
    if (at === to) return NaN;
    let exponent = 0;
    for (; at < to; at++) {
      const digit = bytes[at] - 48;
      if (digit < 0 || digit > 9) return NaN;
      exponent = exponent * 10 + digit;
    }
    scale += minus ? -exponent : exponent;
  }
  const size = scale < 0 ? whole / POWERS[-scale] : whole * POWERS[scale];
  const unsure = scale > 22 || scale < -22 ||
    (dropped > 0 && Math.fround(size * (1 - DOUBT)) !== Math.fround(size * (1 + DOUBT)));
  if (unsure) return Number(decoder.decode(bytes.subarray(from, to)));
  return negative ? -size : size;
}

/** The same, rounded to 64 bits alone. */
export const plainDouble = (bytes: Uint8Array, from: number, to: number): number =>
  Number.isNaN(plainNumber(bytes, from, to)) ? NaN : Number(decoder.decode(bytes.subarray(from, to)));

/** The point is at this place after "0". */
const POINT = 46 - 48;

const WORDS: Readonly<Record<string, number>> = {
  "": NaN,
  "?": NaN,
  "na": NaN,
  "n/a": NaN,
  "nan": NaN,
  "null": NaN,
  "none": NaN,
  "inf": Infinity,
  "+inf": Infinity,
  "infinity": Infinity,
  "-inf": -Infinity,
  "-infinity": -Infinity,
  "true": 1,
  "false": 0,
};

/** NaN is a missing value, undefined plain text. */
export function wordValue(text: string): number | undefined {
  const word = text.trim().toLowerCase();
  return Object.hasOwn(WORDS, word) ? WORDS[word] : undefined;
}
