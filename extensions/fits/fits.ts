// Images and binary tables of FITS files become columns; their numbers lie in the file as they are, row by row.
import { type DType, dtypeBytes } from "../../ffi/dtype.ts";
import type { FileBytes } from "../../core/base/file_bytes.ts";
import type { Column, Variable } from "../../core/data/arrays/table.ts";
import { fromColumns } from "../../core/data/tables/columns.ts";
import type { FileRows } from "../../core/data/arrays/rows.ts";
import { product } from "../../core/data/arrays/numbers.ts";
import { toColumn } from "../../core/data/arrays/variables.ts";
import type { DataReader, DataRequest, Sources, TableFile } from "../../core/data/format.ts";
import { markOf, readAllRows, withFiles } from "../../core/data/arrays/files.ts";
import { UserError } from "../../core/base/errors.ts";

export const withFits = <R>(path: string, use: (table: TableFile) => R): R =>
  withFiles((open) => use({ path, kind: "FITS file", noun: "column", columns: columnsOf(open(path)) }));

const openFits = (request: DataRequest): Sources =>
  withFits(request.data.data_path, (table) => fromColumns(table, request));

function columnsOf(file: FileBytes): Column[] {
  const units = readUnits(file), tables = units.filter(isTable);
  const columns = units.flatMap((unit) =>
    isTable(unit) ? tableColumns(file, unit, tables.length > 1) : imageColumns(file, unit)
  );
  const seen = new Map<string, number>();
  return columns.map((column) => {
    const count = (seen.get(column.name) ?? 0) + 1;
    seen.set(column.name, count);
    return count === 1 ? column : { ...column, name: `${column.name}#${count}` };
  });
}

const isTable = ({ cards }: HeaderDataUnit): boolean =>
  cardText(cards, "XTENSION") === "BINTABLE" && cards.get("ZIMAGE") !== true;

const nameOf = ({ cards, index }: HeaderDataUnit): string =>
  cardText(cards, "EXTNAME") || (index === 0 ? "PRIMARY" : `part${index}`);

const IMAGES: Readonly<Record<number, DType>> = {
  8: "u8",
  16: "i16",
  32: "i32",
  64: "i64",
  [-32]: "f32",
  [-64]: "f64",
};

function imageColumns(file: FileBytes, unit: HeaderDataUnit): Column[] {
  const { cards, axes, begin } = unit, kind = cardText(cards, "XTENSION"), name = nameOf(unit);
  if (cards.get("ZIMAGE") === true) {
    return [unusable(name, "is a packed image: unpack it with funpack, or astropy's")];
  }
  if (kind === "TABLE") {
    return [unusable(name, "is a table of text: write it as a binary table, Table.read(OLD).write(NEW)")];
  }
  if (axes.length === 0) return []; // a header for the parts that follow
  if (cards.get("GROUPS") === true) {
    return [unusable(name, "has random groups: write it as an image or a table")];
  }
  const dtype = IMAGES[number(cards, "BITPIX", 0)];
  if (!dtype) return [unusable(name, `has numbers of ${number(cards, "BITPIX", 0)} bits`)];
  const shape = axes.toReversed(), row = product(shape.slice(1)) * dtypeBytes(dtype);
  const scale = scaleOf(number(cards, "BSCALE", 1), number(cards, "BZERO", 0), number(cards, "BLANK", NaN));
  return [
    columnOf(file, { name, shape, dtype, begin, row, step: row, scale, units: cardText(cards, "BUNIT") }),
  ];
}

interface Place {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly begin: number;
  readonly row: number;
  readonly step: number;
  readonly scale: ReadonlyMap<string, readonly number[]>;
  readonly units: string;
}

/** FITS scales stored numbers, and marks missing ones by a stored number, as NetCDF does. */
function scaleOf(scale: number, zero: number, blank: number): ReadonlyMap<string, readonly number[]> {
  const found = new Map<string, readonly number[]>();
  if (scale !== 1) found.set("scale_factor", [scale]);
  if (zero !== 0) found.set("add_offset", [zero]);
  if (!Number.isNaN(blank)) found.set("_FillValue", [blank]);
  return found;
}

function columnOf(
  { path }: FileBytes,
  { name, shape, dtype, begin, row, step, scale, units }: Place,
): Column {
  const width = dtypeBytes(dtype);
  const rows = (lead: number): FileRows => {
    const bytes = lead === 1 ? row : product(shape.slice(lead)) * width;
    return {
      layout: "file",
      file: markOf(path),
      begin,
      bytes,
      step: lead === 1 ? step : bytes,
      swapped: width > 1,
    };
  };
  const floats = dtype === "f32" || dtype === "f64";
  const variable: Variable = {
    name,
    shape,
    dimensions: shape.map((size) => `size ${size}`),
    dtype,
    attributes: new Map<string, readonly number[] | string>([
      // The standard has marks of missing values for whole numbers only.
      ...[...scale].filter(([key]) => !(floats && key === "_FillValue")),
      ...(units === "" ? [] : [["units", units] as const]),
    ]),
    auxiliary: false,
    read: () => readAllRows(rows(1), shape[0], width),
    rows,
  };
  return toColumn(variable, false);
}

function unusable(name: string, reason: string): Column {
  const nothing = () => {
    throw new Error("internal: something unusable is read");
  };
  return { name, shape: [], dtype: "f32", unusable: reason, onlyByName: true, read: nothing };
}

const FIELDS: Readonly<Record<string, DType>> = { B: "u8", I: "i16", J: "i32", K: "i64", E: "f32", D: "f64" };
/** The bytes of an element, or of a pair that says where a row's list lies. */
const SIZES: Readonly<Record<string, number>> = {
  B: 1,
  I: 2,
  J: 4,
  K: 8,
  E: 4,
  D: 8,
  L: 1,
  A: 1,
  C: 8,
  M: 16,
  P: 8,
  Q: 16,
};
const OTHERS: Readonly<Record<string, string>> = {
  X: "holds bits: write it as bytes, numpy.packbits",
  L: "holds logical values: write it as bytes, t['x'].astype('u1')",
  C: "holds complex numbers: write their real and imaginary parts",
  M: "holds complex numbers: write their real and imaginary parts",
  P: "holds lists of unequal length: write as many numbers in each row",
  Q: "holds lists of unequal length: write as many numbers in each row",
};

function tableColumns(file: FileBytes, unit: HeaderDataUnit, withTable: boolean): Column[] {
  const { cards, axes: [step = 0, rows = 0], begin } = unit;
  const columns: Column[] = [];
  let at = 0;
  for (let i = 1; i <= number(cards, "TFIELDS", 0) && i <= MOST_FIELDS; i++) {
    const own = cardText(cards, `TTYPE${i}`) || `column${i}`,
      name = withTable ? `${nameOf(unit)}/${own}` : own;
    const [, repeated, code] = /^\s*(\d*)([A-Z])/.exec(cardText(cards, `TFORM${i}`)) ?? [];
    const count = repeated === "" ? 1 : Number(repeated), dtype = FIELDS[code];
    const bytes = code === "X" ? Math.ceil(count / 8) : count * (SIZES[code] ?? NaN);
    if (!(at + bytes <= step)) {
      columns.push(
        unusable(
          name,
          `is said to be of the form ${JSON.stringify(cardText(cards, `TFORM${i}`))}, which is damaged`,
        ),
      );
      break;
    }
    const place = { begin: begin + at, row: bytes, step };
    at += bytes;
    if (code === "A") columns.push(textColumn(file, name, rows, place));
    else if (!dtype) columns.push(unusable(name, OTHERS[code] ?? "holds no numbers"));
    else if (count === 0) columns.push(unusable(name, "is empty"));
    else {
      const scale = scaleOf(
        number(cards, `TSCAL${i}`, 1),
        number(cards, `TZERO${i}`, 0),
        number(cards, `TNULL${i}`, NaN),
      );
      const sides = sidesOf(cardText(cards, `TDIM${i}`), count);
      columns.push(
        columnOf(file, {
          ...place,
          name,
          shape: [rows, ...sides],
          dtype,
          scale,
          units: cardText(cards, `TUNIT${i}`),
        }),
      );
    }
  }
  return columns;
}

const MOST_FIELDS = 999;

/** The first side varies fastest. */
function sidesOf(dimensions: string, count: number): number[] {
  const sides = dimensions.replace(/[()\s]/g, "").split(",").filter((side) => side !== "").map(Number)
    .reverse();
  return sides.length > 1 && product(sides) === count ? sides : count > 1 ? [count] : [];
}

type Span = Pick<Place, "begin" | "row" | "step">;

/** Texts of one length are padded with blanks or zeros. */
function textColumn(file: FileBytes, name: string, rows: number, { begin, row, step }: Span): Column {
  const span = (count: number) =>
    readAllRows(
      { layout: "file", file: markOf(file.path), begin, bytes: row, step, swapped: false },
      count,
      1,
    );
  const decoder = new TextDecoder("latin1");
  const textsIn = (bytes: Uint8Array, count: number) =>
    Array.from(
      { length: count },
      (_, i) => decoder.decode(bytes.subarray(i * row, (i + 1) * row)).replace(/\0[^]*$/, "").trimEnd(),
    );
  let found: { classes: string[]; codes: Float32Array } | undefined;
  const all = () => {
    if (found) return found;
    const texts = textsIn(span(rows), rows), classes = [...new Set(texts)].sort();
    const place = new Map(classes.map((text, i) => [text, i]));
    return found = { classes, codes: Float32Array.from(texts, (text) => place.get(text)!) };
  };
  return {
    name,
    shape: [rows],
    dtype: "f32",
    read: () => all().codes,
    text: {
      get example() {
        return rows > 0 ? JSON.stringify(textsIn(span(1), 1)[0]) : '""';
      },
      classes: () => all().classes,
    },
  };
}

export const reader: DataReader = { open: openFits, table: withFits };

type Cards = ReadonlyMap<string, string | number | boolean>;

export interface HeaderDataUnit {
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

function readUnits(file: FileBytes): HeaderDataUnit[] {
  const { path, size } = file, units: HeaderDataUnit[] = [];
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

export const cardText = (cards: Cards, key: string): string => {
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
