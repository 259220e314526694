// --sel takes a part of named dimensions by the values of their coordinates: time=1979..2012, level=850,500.
import type { Config } from "../../settings/settings.ts";
import { didYouMean } from "../../base/suggest.ts";
import { UserError } from "../../base/errors.ts";
import { isInPeriod, parsePeriod } from "./calendar.ts";
import { type Axis, axisOf, axisText, numberText } from "./coordinate.ts";
import { picked, type Picks } from "./picked.ts";
import type { Variable } from "./table.ts";

interface Selection {
  readonly name: string;
  readonly values: readonly string[];
}

interface SelectFrom {
  readonly path: string;
  readonly noun: string;
  readonly variables: readonly Variable[];
  /** Dimensions have names. */
  readonly named: boolean;
  /** Joined files keep their order along it. */
  readonly along?: string | null;
}

export function selected(from: SelectFrom, sel: Config["data"]["sel"]): readonly Variable[] {
  const selections = selectionsOf(sel);
  if (selections.length === 0) return from.variables;
  const picks = new Map<string, Picks>();
  const [curved, plain] = [true, false].map((is) =>
    selections.filter(({ name }) => isCurved(from, name) === is)
  );
  const rectangle = curved.length > 0 ? rectangleOf(from, curved) : new Map<string, Picks>();
  for (const [dimension, places] of rectangle) picks.set(dimension, places);
  for (const selection of plain) {
    const { dimension, size, axis } = dimensionOf(from, selection.name);
    if (picks.has(dimension)) {
      throw new UserError(
        "usage",
        `--sel chooses along ${dimension} twice: write it once, ${selection.name}=A,B.`,
      );
    }
    const places = axis ? placesOf(axis, selection, from) : indicesOf(dimension, size, selection, from);
    if (dimension === from.along) places.sort((a, b) => a - b);
    const isDate = axis !== null && axis.times !== null;
    const single = selection.values.length === 1 && !selection.values[0].includes("..") && !isDate;
    picks.set(dimension, { places: Int32Array.from(places), drop: single });
  }
  return from.variables.map((variable) => picked(variable, picks));
}

/** A latitude and a longitude of each point lie along two dimensions. */
const isCurved = ({ variables }: SelectFrom, name: string): boolean =>
  variables.some((own) =>
    own.name === name && own.dimensions.length === 2 && own.dtype !== null && !own.unusable && !own.conflict
  );

/** The smallest rectangle with all points at which every wish is fulfilled. */
function rectangleOf({ path, variables }: SelectFrom, selections: readonly Selection[]): Map<string, Picks> {
  const found = selections.map((selection) => {
    const own = variables.find(({ name }) => name === selection.name)!, axis = axisOf(own, path);
    const fits = selection.values.map((text) => {
      const test = isLongitude(axis) && eastwardIn(text) || numbersIn(text, areWhole(axis.values));
      if (test) return test;
      throw new UserError(
        "usage",
        `--sel ${selection.name}=${text} is no number: ${selection.name} has one for each point.`,
      );
    });
    return { own, holds: (i: number) => fits.some((fit) => fit(axis.values[i])) };
  });
  const { dimensions, shape: [height, width] } = found[0].own;
  const other = found.find(({ own }) => own.dimensions.join() !== dimensions.join());
  if (other) {
    throw new UserError(
      "data",
      `${path}: "${found[0].own.name}" and "${other.own.name}" (--sel) lie along (${
        dimensions.join(", ")
      }) and ` +
        `(${other.own.dimensions.join(", ")}): choose by one of them.`,
    );
  }
  let [top, bottom, left, right] = [height, -1, width, -1];
  for (let i = 0; i < height * width; i++) {
    if (!found.every(({ holds }) => holds(i))) continue;
    const y = Math.floor(i / width), x = i % width;
    [top, bottom, left, right] = [
      Math.min(top, y),
      Math.max(bottom, y),
      Math.min(left, x),
      Math.max(right, x),
    ];
  }
  if (bottom < 0) {
    const text = selections.map(({ name, values }) => `${name}=${values.join(",")}`).join(",");
    throw new UserError("data", `${path}: nothing lies at --sel ${text}: no point of the map is there.`);
  }
  const span = (first: number, last: number): Picks => ({
    places: Int32Array.from({ length: last - first + 1 }, (_, i) => first + i),
    drop: false,
  });
  return new Map([[dimensions[0], span(top, bottom)], [dimensions[1], span(left, right)]]);
}

/** From one longitude eastward to another; null where the text has not both. */
function eastwardIn(text: string): ((value: number) => boolean) | null {
  const [, from, to] = RANGE.exec(text) ?? [];
  if (!from?.trim() || !to?.trim()) return null;
  const west = Number(from), wide = Number(to) - west;
  if (!Number.isFinite(wide)) return null;
  const round = (degrees: number) => (degrees % 360 + 360) % 360;
  const most = Math.abs(wide) >= 360 ? 360 : round(wide);
  return (value) => round(value - west) <= most + CLOSE || round(value - west) >= 360 - CLOSE;
}

/** A list of settings is split at its commas: `level=850`, `500` belong together. */
function selectionsOf(sel: readonly string[]): Selection[] {
  const selections: { name: string; values: string[] }[] = [];
  for (const item of sel.flatMap((item) => item.split(","))) {
    const at = item.indexOf("="), last = selections.at(-1);
    if (at > 0) selections.push({ name: item.slice(0, at).trim(), values: [item.slice(at + 1).trim()] });
    else if (last && item.trim() !== "") last.values.push(item.trim());
    else throw parsedItem(item);
  }
  const empty = selections.find(({ values }) => values.includes(""));
  if (empty) throw parsedItem(`${empty.name}=`);
  return selections;
}

const parsedItem = (item: string) =>
  new UserError(
    "usage",
    `--sel ${item} chooses nothing: write NAME=VALUE, NAME=FROM..TO or NAME=VALUE,VALUE, such as ` +
      "time=1979..2012 or level=850,500.",
  );

function dimensionOf({ path, noun, variables, named }: SelectFrom, name: string) {
  if (!named) {
    throw new UserError(
      "data",
      `${path} has no names of dimensions, so --sel ${name} can't choose along one.`,
    );
  }
  const sizes = new Map(
    variables.flatMap(({ dimensions, shape }) => dimensions.map((name, d) => [name, shape[d]] as const)),
  );
  const own = variables.find((variable) => variable.name === name);
  if (own && own.dimensions.length === 1 && !own.unusable && !own.conflict) {
    const [dimension] = own.dimensions;
    return { dimension, size: own.shape[0], axis: axisOf(own, path) };
  }
  const size = sizes.get(name);
  if (size !== undefined && own === undefined) return { dimension: name, size, axis: null };
  if (own) {
    const why = own.conflict ?? own.unusable ??
      `lies along (${own.dimensions.join(", ")}), and not along one dimension`;
    throw new UserError("data", `${path}: the ${noun} "${name}" (--sel) ${why}.`);
  }
  throw new UserError(
    "data",
    `${path} has no dimension "${name}" (--sel).${didYouMean(name, [...sizes.keys()])} ` +
      `It has ${[...sizes].map(([name, size]) => `${name} (${size})`).join(", ") || "none"}.`,
  );
}

const RANGE = /^(.*?)\.\.(.*)$/;

function placesOf(axis: Axis, { name, values }: Selection, { path }: SelectFrom): number[] {
  const found = new Set<number>();
  for (const text of values) {
    const around = isLongitude(axis) ? placesAround(axis, text) : null;
    if (around !== null && around.length > 0) {
      for (const place of around) found.add(place);
      continue;
    }
    const fits = axis.times ? datesIn(axis, text) : numbersIn(text, areWhole(axis.values));
    if (fits === null) {
      throw new UserError(
        "usage",
        `--sel ${name}=${text} is no ${axis.times ? "date" : "number"}: ${name} goes ${rangeText(axis)}.`,
      );
    }
    const before = found.size;
    let any = false;
    axis.values.forEach((value, i) => {
      if (!fits(value)) return;
      any = true;
      found.add(i);
    });
    if (any || found.size > before) continue;
    throw new UserError(
      "data",
      `${path}: nothing lies at --sel ${name}=${text}: ${name} goes ${rangeText(axis)}${
        nearText(axis, text)
      }.`,
    );
  }
  return [...found];
}

function datesIn({ times }: Axis, text: string): ((value: number) => boolean) | null {
  const period = parsePeriod(text);
  if (period === null) return null;
  return (value) => {
    const date = times!.decode(value);
    return date !== null && isInPeriod(date, period);
  };
}

/** Single precision has 0.1 as 0.100000001. Whole numbers, such as those of stations, are what they are. */
const CLOSE = 1e-6;

const areWhole = (values: Float64Array): boolean => values.every(Number.isInteger);

function numbersIn(text: string, whole = false): ((value: number) => boolean) | null {
  const [, from, to] = RANGE.exec(text) ?? [];
  const number = (text: string, open: number) => text.trim() === "" ? open : Number(text);
  const [a, b] = from === undefined
    ? [Number(text), Number(text)]
    : [number(from, -Infinity), number(to, Infinity)];
  if (Number.isNaN(a) || Number.isNaN(b) || (from === "" && to === "")) return null;
  const near = (x: number) => Number.isFinite(x) && !whole ? CLOSE * Math.max(Math.abs(x), CLOSE) : 0;
  const low = Math.min(a, b), high = Math.max(a, b);
  return (value) => value >= low - near(low) && value <= high + near(high);
}

export const isLongitude = ({ name, attributes, times }: Axis): boolean => {
  const units = String(attributes.get("units") ?? "");
  return times === null && !/^radian/.test(units) &&
    (attributes.get("standard_name") === "longitude" || /^degrees?_?(east|E)$/.test(units) ||
      /^(|nav_|[ut])(lon|longitude)$/i.test(name.slice(name.lastIndexOf("/") + 1)));
};

/**
 * From one longitude eastward to another, across 0 or the date line where need be, in that order; 190 is -170.
 * Null where the text is no such range or number.
 */
function placesAround({ values }: Axis, text: string): number[] | null {
  const [, from, to] = RANGE.exec(text) ?? [undefined, text, text];
  if (from.trim() === "" || to.trim() === "") return null;
  const [west, east] = [Number(from), Number(to)];
  if (!Number.isFinite(west) || !Number.isFinite(east)) return null;
  const near = 360 * CLOSE, turn = (degrees: number) => ((degrees % 360) + 360) % 360;
  const width = west !== east && turn(east - west) === 0 ? 360 : turn(east - west);
  const places: { readonly place: number; readonly along: number }[] = [];
  values.forEach((value, place) => {
    const along = turn(value - west + near) - near;
    if (along <= width + near) places.push({ place, along });
  });
  places.sort((a, b) => a.along - b.along || a.place - b.place);
  const found = places.map(({ place }) => place);
  return values[0] > values[values.length - 1] ? found.reverse() : found;
}

/** Without a coordinate a dimension is counted from 0. */
function indicesOf(dimension: string, size: number, { values }: Selection, { path }: SelectFrom): number[] {
  const found = new Set<number>();
  for (const text of values) {
    const fits = numbersIn(text, true), before = found.size;
    for (let i = 0; fits && i < size; i++) if (fits(i)) found.add(i);
    if (fits && found.size > before) continue;
    throw new UserError(
      "data",
      `${path}: nothing lies at --sel ${dimension}=${text}: ${dimension} has no coordinate, so its ${size} places ` +
        `are counted from 0 to ${size - 1}.`,
    );
  }
  return [...found];
}

function rangeText(axis: Axis): string {
  const { values } = axis;
  const [first, last] = [values[0], values[values.length - 1]].map((value) => axisText(axis, value));
  return `from ${first} to ${last} (${values.length} in all)`;
}

function nearText({ values, times }: Axis, text: string): string {
  const wanted = Number(text);
  if (times || Number.isNaN(wanted)) return "";
  const near = values.reduce((a, b) => Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a);
  return `, and the nearest to it is ${numberText(near)}`;
}
