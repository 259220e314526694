// Divides a table's samples into those to train, to validate and to test with, so that no row is in two parts.
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { key, permutation } from "../../base/random.ts";
import { didYouMean } from "../../base/suggest.ts";
import { isInPeriod, parsePeriod } from "../arrays/calendar.ts";
import type { Table } from "../arrays/table.ts";
import {
  axisText,
  type Coordinate,
  coordinateNamed,
  coordinateValue,
  isTimeColumn,
  timeCoordinate,
  unitsInDay,
} from "../arrays/coordinate.ts";
import { FILE_COLUMN } from "../arrays/variables.ts";
import { divide, heldOut, someOf, splitIndices, unusedNote } from "../source/order.ts";
import { weightsColumn } from "../source/sampling.ts";
import type { Windows } from "./windows.ts";

export interface Split {
  readonly train: Int32Array;
  readonly val: Int32Array;
  /** Null where nothing is kept for a test. */
  readonly test: Int32Array | null;
}

/** Rows of a part, of so many that it could have. */
interface Part {
  readonly rows: Int32Array;
  readonly of: number;
}

interface Splitting {
  readonly table: Table;
  readonly samples: number;
  /** Rows without bad values; null means all. */
  readonly kept: Int32Array | null;
  readonly data: Config["data"];
  readonly seed: number;
  /** A sample is one row, or several. */
  readonly windows: Windows | null;
  /** The class of each row. */
  readonly labels: (() => ArrayLike<number>) | null;
  /** All samples are taken, as for a prediction. */
  readonly unsplit: boolean;
}

// A row's mark says which part it is in.
const TRAIN = 0, VAL = 1, TEST = 2, LEFT_OUT = 3;

/** `COLUMN=VALUE,...`, or values of the time. */
const NAMED = /^([^=]+)=(.*)$/;

/** `group:COLUMN` */
const GROUP = /^group:(.*)$/;

/** `fold:2/5` is the second of five parts of the time, for cross-validation. */
const FOLD = /^fold:(\d+)\/(\d+)$/;

const methodOf = ({ split }: Config["data"]): string => split || "auto";

/** Columns that tell samples apart are no features unless they are named as such. */
export function withoutSplitColumns(table: Table, data: Config["data"]): Table {
  const { validate_on, test_on, history, lead } = data, how = methodOf(data);
  const weights = weightsColumn(data);
  const named = [NAMED.exec(validate_on), NAMED.exec(test_on), GROUP.exec(how)]
    .flatMap((found) => found ? [found[1].trim()] : []).concat(weights ?? []);
  const byTime = how === "time" || how === "blocks" || FOLD.test(how) || history > 1 || lead !== "" ||
    [validate_on, test_on].some((text) => text !== "" && !NAMED.test(text));
  const columns = table.columns.map((column) =>
    named.includes(column.name) || (byTime && isTimeColumn(column)) ? { ...column, onlyByName: true } : column
  );
  return { ...table, columns };
}

/** The split of before there were others: at random, row by row. */
const isPlainSplit = ({ data, windows, unsplit }: Splitting): boolean =>
  windows === null && !unsplit && data.folds === 0 && data.validate_on === "" && data.test_on === "" &&
  ["auto", "random"].includes(methodOf(data));

function plainSplit({ kept, samples, data, seed }: Splitting, notes: string[]): Split {
  const total = kept?.length ?? samples;
  const { train, val } = divide(total, data, seed);
  notes.push(...unusedNote(total - train.length - val.length, data));
  const rows = (ids: Int32Array) => kept ? ids.map((id) => kept[id]) : ids;
  return { train: rows(train), val: rows(val), test: null };
}

export function splitRows(request: Splitting, notes: string[]): Split {
  if (isPlainSplit(request)) return plainSplit(request, notes);
  const { table, samples, kept, data, seed, windows, unsplit } = request;
  const marks = new Uint8Array(samples);
  if (kept) {
    marks.fill(LEFT_OUT);
    for (const row of kept) marks[row] = TRAIN;
  }
  const validates = data.val_samples > 0 && !unsplit;
  if (!unsplit) markNamed(request, marks, data.test_on, TEST, "--test-on");
  if (validates) markNamed(request, marks, data.validate_on, VAL, "--validate-on");
  const share = data.validation_split > 0 || data.folds > 0 || FOLD.test(methodOf(data));
  if (validates && data.validate_on === "" && share) markShare(request, marks);
  const isUniform = kept === null && data.test_on === "" && !validates;
  const all = windows ? windows.bases(marks, isUniform) : marks;
  const part = (mark: number, most: number): Part => {
    const count = countMarked(all, mark);
    if (count <= most) return { rows: rowsWith(all, mark), of: count };
    const places = someOf(count, most, seed);
    return { rows: someRowsWith(all, mark, places), of: count };
  };
  const found = {
    train: part(TRAIN, data.train_samples),
    val: part(VAL, data.val_samples),
    test: data.test_on === "" ? null : part(TEST, Infinity),
  };
  const split = { train: found.train.rows, val: found.val.rows, test: found.test?.rows ?? null };
  if (split.train.length === 0) throw nothingLeft(table, "to train with", windows);
  if (unsplit) return { ...split, test: null };
  if (validates && data.validate_on !== "" && split.val.length === 0) {
    throw nothingLeft(table, `to validate with (--validate-on ${data.validate_on})`, windows);
  }
  if (split.test?.length === 0) throw nothingLeft(table, `to test with (--test-on ${data.test_on})`, windows);
  notes.push(...notesOf(request, found));
  return split;
}

function nothingLeft({ path }: Table, what: string, windows: Windows | null): UserError {
  const why = windows
    ? ` A sample takes ${windows.says}, and all of its steps have to be in one part, without a gap: ` +
      "give longer parts, or less --history and --lead."
    : " Give other values, or leave more samples to that part.";
  return new UserError("data", `${path} leaves no samples ${what}.${why}`);
}

/** The parts' times, for people. */
function notesOf(
  { table, samples }: Splitting,
  found: Record<"train" | "val", Part> & { test: Part | null },
): string[] {
  const time = timeCoordinate(table, samples);
  const part = (name: string, one: Part | null) => {
    if (one === null) return [];
    const { rows, of } = one, limited = rows.length < of ? ` of ${of}` : "";
    const count = `${name} ${rows.length}${limited}`;
    const times = time && rows.length > 0 ? rangeOf(time, rows) : "";
    return [times === "" ? count : `${count} (${times})`];
  };
  const parts = [
    ...part("training", found.train),
    ...part("validation", found.val),
    ...part("test", found.test),
  ];
  return [`Split of samples: ${parts.join(", ")}`];
}

function rangeOf(time: Coordinate, rows: Int32Array): string {
  let least = Infinity, most = -Infinity;
  for (const row of rows) {
    const value = coordinateValue(time, row);
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return least > most ? "" : `${time.name} ${axisText(time, least)}..${axisText(time, most)}`;
}

function markNamed(
  { table, samples }: Splitting,
  marks: Uint8Array,
  text: string,
  mark: typeof VAL | typeof TEST,
  setting: string,
): void {
  if (text === "") return;
  const [, name, values = text] = NAMED.exec(text) ?? [];
  const coordinate = name === undefined
    ? timeCoordinate(table, samples)
    : coordinateNamed(table, name.trim(), samples, setting);
  if (coordinate === null) {
    throw new UserError(
      "data",
      `${table.path} has no time along its samples, so ${setting} ${text} means nothing there. ` +
        `Name a ${table.noun} with one value for each sample: ${setting} NAME=VALUE,VALUE.`,
    );
  }
  const chosen = matches(table, coordinate, values, setting);
  for (let row = 0; row < samples; row++) {
    if (!chosen[Math.floor(row / coordinate.each) % chosen.length] || marks[row] === LEFT_OUT) continue;
    if (marks[row] !== TRAIN) {
      throw new UserError(
        "usage",
        `--validate-on and --test-on both take sample ${row} (counted from 0), whose ${coordinate.name} is ` +
          `${axisText(coordinate, coordinateValue(coordinate, row))}: let them have no value in common.`,
      );
    }
    marks[row] = mark;
  }
}

/** 1 for each value of the coordinate that is one of the named values or in one of the named ranges. */
function matches(table: Table, coordinate: Coordinate, text: string, setting: string): Uint8Array {
  const { values, name } = coordinate;
  const chosen = new Uint8Array(values.length);
  for (const item of text.split(",").map((item) => item.trim())) {
    const test = testOf(table, coordinate, item, setting);
    let found = false;
    values.forEach((value, i) => {
      if (!test(value)) return;
      found = true;
      chosen[i] = 1;
    });
    if (!found) {
      const present = values.filter((value) => !Number.isNaN(value));
      const [least, most] = present.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [
        Infinity,
        -Infinity,
      ]);
      const has = coordinate.texts
        ? `It has ${coordinate.texts.slice(0, 10).join(", ")}.${didYouMean(item, coordinate.texts)}`
        : present.length === 0
        ? "All of its values are missing."
        : `It goes from ${axisText(coordinate, least)} to ${axisText(coordinate, most)}.`;
      throw new UserError(
        "data",
        `${table.path}: no sample's ${name} is ${item} (${setting} ${text}). ${has}`,
      );
    }
  }
  return chosen;
}

function testOf(
  { path }: Table,
  { name, times, texts }: Coordinate,
  item: string,
  setting: string,
): (value: number) => boolean {
  if (texts) {
    const at = texts.indexOf(item);
    return (value) => value === at;
  }
  if (times) {
    const period = parsePeriod(item);
    if (period === null) {
      throw new UserError(
        "usage",
        `${setting}: "${item}" is no time: write it as 2010, 2010-05, 2010-05-03, 2010..2014 or 2015.. ` +
          `(${name} of ${path} is a time).`,
      );
    }
    return (value) => {
      const date = times.decode(value);
      return date !== null && isInPeriod(date, period);
    };
  }
  const ends = item.split("..").map((end) => end.trim());
  const [from, to] = ends.length === 1
    ? [Number(item || NaN), Number(item || NaN)]
    : [Number(ends[0] || -Infinity), Number(ends[1] || Infinity)];
  if (Number.isNaN(from) || Number.isNaN(to) || ends.length > 2) {
    throw new UserError(
      "usage",
      `${setting}: "${item}" is no number and no range such as 3..7 (${name} of ${path} holds numbers).`,
    );
  }
  // Columns of 32 bits have 0.3 as 0.300000012.
  const isAt = (end: number, value: number) => !Number.isInteger(end) && value === Math.fround(end);
  return (value) => (value >= from || isAt(from, value)) && (value <= to || isAt(to, value));
}

// Without --validate-on, a share of what is left is held out.

function markShare(request: Splitting, marks: Uint8Array): void {
  const { table, samples, data, seed, windows } = request;
  const method = methodOf(data), how = method === "auto" ? windows ? "time" : "random" : method;
  if (windows && (how === "random" || how === "stratified")) {
    throw new UserError(
      "usage",
      `--split ${how} can't divide samples that take ${windows.says}: a step would be in several parts. ` +
        "Use --split time or --split blocks, or --validate-on with years.",
    );
  }
  const open = rowsWith(marks, TRAIN);
  const fold = foldOf(data), order = (count: number) => permutation(count, key(seed, "split", how));
  const hold = (rows: Int32Array) => {
    if (fold) return inFold(rows.length, fold, order(rows.length)).forEach((i) => marks[rows[i]] = VAL);
    const held = { val: heldOut(rows.length, data.validation_split), train: 0 };
    for (const i of splitIndices(rows.length, held, seed).val) marks[rows[i]] = VAL;
  };
  if (how === "random") return hold(open);
  if (how === "stratified") return rowsByClass(request, open).forEach(hold);
  const group = how === "file" ? FILE_COLUMN : GROUP.exec(how)?.[1].trim();
  if (how === "file" && table.columns.every(({ name }) => name !== FILE_COLUMN)) {
    throw new UserError(
      "usage",
      `--split file divides files that are joined, and ${table.path} is not several.`,
    );
  }
  const along = group === undefined
    ? stepsOf(table, samples)
    : coordinateNamed(table, group, samples, `--split ${how}`);
  const values = new Float64Array(new Set(Array.from(open, (row) => coordinateValue(along, row)))).sort();
  if (fold && fold.of > values.length) {
    throw new UserError(
      "usage",
      `${table.path}: ${fold.says} asks for ${fold.of} parts, and there are ${
        formatPlural(values.length, "value")
      } of ${along.name}: give at most as many.`,
    );
  }
  const unordered = group !== undefined; // groups have no order in time
  const units = fold && !unordered
    ? fold.of
    : how === "blocks"
    ? Math.min(BLOCKS, values.length)
    : values.length;
  if (units < 2) {
    throw new UserError(
      "data",
      `${table.path}: all samples have one ${along.name}, so --split ${how} can hold none out. Use --split random.`,
    );
  }
  const count = heldOut(units, data.validation_split), at = order(units);
  const held = new Set(fold ? unordered ? inFold(units, fold, at) : [fold.at] : []);
  for (let i = 0; !fold && i < count; i++) held.add(how === "time" ? units - 1 - i : at(i));
  const unitOf = new Map(Array.from(values, (value, i) => [value, Math.floor(i * units / values.length)]));
  for (const row of open) if (held.has(unitOf.get(coordinateValue(along, row))!)) marks[row] = VAL;
}

interface Fold {
  /** It validates, counted from 0. */
  readonly at: number;
  readonly of: number;
  readonly says: string;
}

function foldOf(data: Config["data"]): Fold | null {
  const how = methodOf(data), found = FOLD.exec(how), { folds, fold } = data;
  if (found && folds > 0) {
    throw new UserError("usage", `--split ${how} and --folds ${folds} both name a part: give one of them.`);
  }
  if (!found && folds === 0) return null;
  const [at, of] = found ? [Number(found[1]), Number(found[2])] : [fold, folds];
  const says = found ? `--split ${how}` : `--folds ${folds} --fold ${fold}`;
  if (at <= of && of >= 2) return { at: at - 1, of, says };
  throw new UserError("usage", `${says}: give at least 2 parts, and a part from 1 to their number.`);
}

/** The folds of a permutation are disjoint, and together they have every place. */
const inFold = (count: number, { at, of }: Fold, order: (i: number) => number): number[] => {
  const from = Math.floor(count * at / of), end = Math.floor(count * (at + 1) / of);
  return Array.from({ length: end - from }, (_, i) => order(from + i));
};

/** Each is long beside what two neighbours have in common, and there are enough to draw from. */
const BLOCKS = 20;

/** The time, or the places along the first dimension. */
function stepsOf(table: Table, samples: number): Coordinate {
  const time = timeCoordinate(table, samples);
  if (time) return time;
  const { name, size } = table.grid?.[0] ?? { name: "place", size: samples };
  const values = Float64Array.from({ length: size }, (_, i) => i);
  return { name, values, each: samples / size, texts: null, times: null };
}

function rowsByClass({ table, labels }: Splitting, open: Int32Array): Int32Array[] {
  if (labels === null) {
    throw new UserError(
      "usage",
      `--split stratified keeps each class's share, and the target of ${table.path} is no class of a sample: ` +
        "use --split random, or --split group:COLUMN.",
    );
  }
  const of = labels();
  const found = [...new Set(Array.from(open, (row) => of[row]))].sort((a, b) => a - b);
  return found.map((label) => open.filter((row) => of[row] === label));
}

/** Neighbouring points of one map are nearly the same: a validation by them says nothing about another day. */
export function leakWarning({ table, samples, data, windows, unsplit }: Splitting): string[] {
  const { grid = [], path } = table;
  const random = methodOf(data) === "auto" && data.validate_on === "" && windows === null;
  const none = data.val_samples === 0 || (data.validation_split === 0 && data.folds === 0);
  if (unsplit || !random || none) return [];
  if (grid.length < 2) return neighbourWarning(table, samples);
  const remedy = grid[0].size > 1
    ? `hold out whole steps of ${grid[0].name} with --split time, --split blocks or --validate-on`
    : "hold out another file or a region, such as --validate-on lat=60..70";
  return [
    `Training and validation share each map of ${path}: its points are divided at random (${
      formatPlural(grid.length, "dimension")
    }: ${
      grid.map(({ name }) => name).join(", ")
    }), and neighbours are nearly alike, so the validation loss is too good. ` +
    `To be told the truth, ${remedy}; --split random means it.`,
  ];
}

/** Neighbours that are further apart, such as months, are no copies of each other. */
const ALIKE_DAYS = 10;

function neighbourWarning(table: Table, samples: number): string[] {
  const time = timeCoordinate(table, samples);
  if (!time?.times || time.values.length < 3) return [];
  const values = time.values.filter(Number.isFinite).sort(), steps = new Set(values).size - 1;
  const days = (values[values.length - 1] - values[0]) / steps / unitsInDay(time.times);
  if (!(steps > 1 && days <= ALIKE_DAYS)) return [];
  const distance = days >= 0.95
    ? formatPlural(Math.round(days), "day")
    : formatPlural(Math.round(24 * days), "hour");
  return [
    `Training and validation share neighbouring times of ${table.path}: its samples, ${distance} apart in ${time.name}, are ` +
    "divided at random, so the validation loss is too good if neighbours are alike. To be told the truth, hold out a " +
    "stretch with --split time, --split blocks or --validate-on; --split random means it.",
  ];
}

export function countMarked(marks: Uint8Array, mark: number): number {
  let count = 0;
  if (!marks.includes(mark)) return count; // which takes a quarter of the time
  for (let row = 0; row < marks.length; row++) count += Number(marks[row] === mark);
  return count;
}

/** Rows with the mark, in their order. */
export function rowsWith(marks: Uint8Array, mark: number): Int32Array {
  const rows = new Int32Array(countMarked(marks, mark));
  if (rows.length === 0) return rows;
  for (let row = 0, at = 0; row < marks.length; row++) if (marks[row] === mark) rows[at++] = row;
  return rows;
}

/** Some of the rows with the mark, by their places among these, which ascend. */
function someRowsWith(marks: Uint8Array, mark: number, places: Int32Array): Int32Array {
  const rows = new Int32Array(places.length);
  for (let row = 0, at = 0, place = 0; at < places.length; row++) {
    if (marks[row] === mark && place++ === places[at]) rows[at++] = row;
  }
  return rows;
}
