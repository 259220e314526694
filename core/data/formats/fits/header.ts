// Headers of FITS files: cards of 80 characters in blocks of 2,880 bytes, each header before its data.
import { UserError } from "../../../base/errors.ts";
import type { FileBytes } from "../../../base/file_bytes.ts";

export type Cards = ReadonlyMap<string, string | number | boolean>;

export interface Unit {
  /** Its place in the file; the first is 0. */
  readonly index: number;
  readonly cards: Cards;
  /** Numbers along each axis; the first axis varies fastest. */
  readonly axes: readonly number[];
  readonly begin: number;
  readonly bytes: number;
}

const CARD = 80, BLOCK = 2880, MOST_BLOCKS = 4096, MOST_UNITS = 10_000, MOST_AXES = 999;

const padded = (bytes: number) => Math.ceil(bytes / BLOCK) * BLOCK;

export function readUnits(file: FileBytes): Unit[] {
  const { path, size } = file, units: Unit[] = [];
  const start = size >= CARD ? new TextDecoder("latin1").decode(file.read(0, 9)) : "";
  if (start !== "SIMPLE  =") {
    const packed = size > 2 && file.read(0, 2).join() === "31,139";
    throw new UserError(
      "data",
      packed
        ? `${path} is a gzip file: unpack it first (gunzip).`
        : `${path} is no FITS file: it doesn't begin with SIMPLE. Check that it was copied as a whole.`,
    );
  }
  for (let at = 0; at + BLOCK <= size && units.length < MOST_UNITS;) {
    const { cards, end } = readCards(file, at);
    const axes = axesOf(path, cards, units.length), width = Math.abs(number(cards, "BITPIX", 8)) / 8;
    const elements = axes.length === 0 ? 0 : axes.reduce((total, size) => total * size, 1);
    const bytes = width * number(cards, "GCOUNT", 1) * (number(cards, "PCOUNT", 0) + elements);
    if (!(Number.isSafeInteger(bytes) && bytes >= 0)) throw damaged(path, units.length);
    if (end + bytes > size) {
      throw new UserError(
        "data",
        `${path} is truncated: its part ${units.length} should end at ${
          end + bytes
        }, and the file ends at ${size}. ` +
          "Copy it again from where it came from.",
      );
    }
    units.push({ index: units.length, cards, axes, begin: end, bytes });
    at = end + padded(bytes);
  }
  return units;
}

const damaged = (path: string, index: number) =>
  new UserError(
    "data",
    `${path} is damaged: the header of its part ${index} can't be understood. Copy it again from where it came from.`,
  );

export const number = (cards: Cards, key: string, usual: number): number => {
  const value = cards.get(key);
  return typeof value === "number" ? value : usual;
};

export const text = (cards: Cards, key: string): string => {
  const value = cards.get(key);
  return typeof value === "string" ? value : "";
};

function axesOf(path: string, cards: Cards, index: number): number[] {
  const count = number(cards, "NAXIS", 0);
  if (!(Number.isInteger(count) && count >= 0 && count <= MOST_AXES)) throw damaged(path, index);
  return Array.from({ length: count }, (_, i) => {
    const size = number(cards, `NAXIS${i + 1}`, NaN);
    if (!(Number.isSafeInteger(size) && size >= 0)) throw damaged(path, index);
    return size;
  });
}

function readCards(file: FileBytes, begin: number): { cards: Cards; end: number } {
  const cards = new Map<string, string | number | boolean>(), decoder = new TextDecoder("latin1");
  for (let block = 0; block < MOST_BLOCKS && begin + (block + 1) * BLOCK <= file.size; block++) {
    const page = decoder.decode(file.read(begin + block * BLOCK, BLOCK));
    for (let at = 0; at < BLOCK; at += CARD) {
      const key = page.slice(at, at + 8).trimEnd();
      if (key === "END") return { cards, end: begin + (block + 1) * BLOCK };
      if (page.slice(at + 8, at + 10) !== "= ") continue;
      const value = valueOf(page.slice(at + 10, at + CARD));
      if (value !== null && !cards.has(key)) cards.set(key, value);
    }
  }
  throw new UserError(
    "data",
    `${file.path} is damaged: a header in it has no end. Copy it again from where it came from.`,
  );
}

function valueOf(card: string): string | number | boolean | null {
  const quoted = /^\s*'((?:[^']|'')*)'/.exec(card);
  if (quoted) return quoted[1].replaceAll("''", "'").trimEnd();
  const [plain] = card.split("/", 1), word = plain.trim();
  if (word === "T" || word === "F") return word === "T";
  const found = Number(word.replace(/[dD]/, "e"));
  return word === "" || Number.isNaN(found) ? null : found;
}
