// Columns are chosen by name; their lengths and shapes are checked before any is read.
import { weightsDtype } from "../../settings/precision.ts";
import type { Config } from "../../settings/settings.ts";
import { didYouMean } from "../../base/suggest.ts";
import { UserError } from "../../base/errors.ts";
import type { Column, Table } from "../arrays/table.ts";
import { formatPlural } from "../../base/format.ts";
import { MOST_POSITIONS } from "../../base/random.ts";
import { isForecast } from "./windows.ts";
import type { DataRequest } from "../format.ts";
import { isExported } from "../../models/user/file.ts";
import { climateWanted } from "../source/climate.ts";
import { withoutSplitColumns } from "./splits.ts";
import type { Pair, Vectors } from "../source/vectors.ts";

interface Chosen<C extends Column = Column> {
  readonly features: readonly C[];
  readonly targets: readonly C[];
}

type Names = Pick<Config["data"], "features" | "targets"> & Partial<Pick<Config["data"], "lead">>;

/** Tables have many names, so each is looked up and none is searched for among the others. */
export function firstTwice(names: readonly string[]): string | undefined {
  const seen = new Set<string>();
  return names.find((name) => seen.size === seen.add(name).size);
}

/**
 * Targets are the last column unless named, features all others. `withoutTargets` accepts none. The targets of
 * a forecast are later, so their columns are also among the features.
 */
export function chooseColumns<C extends Column>(
  table: Table<C>,
  names: Names,
  withoutTargets = false,
): Chosen<C> {
  const { path, noun, columns } = table;
  const offered = columns.filter((column) => !column.onlyByName);
  if (columns.length === 0) throw new UserError("data", `${path} has no ${noun} in it.`);
  const named = (list: readonly string[], setting: string) => {
    const twice = firstTwice(list);
    if (twice !== undefined) {
      throw new UserError("usage", `${setting} names "${twice}" twice: leave one of them out.`);
    }
    return list.map((name) => find(table, name, setting));
  };
  const forecast = isForecast({ lead: names.lead ?? "" });
  const wanted = named(names.features, "--features");
  const targets = withoutTargets
    ? offered.filter(({ name }) =>
      !forecast && names.targets.includes(name) && !names.features.includes(name)
    )
    : names.targets.length > 0
    ? named(names.targets, "--targets")
    : offered.filter((column) => !wanted.includes(column)).slice(-1);
  const free = forecast ? offered : offered.filter((column) => !targets.includes(column));
  const features = wanted.length > 0 ? wanted : free;
  const both = forecast ? undefined : features.find((column) => targets.includes(column));
  if (both) {
    throw new UserError(
      "usage",
      `"${both.name}" is among the features and the targets, so the model would be shown what it has to predict: ` +
        "leave it out of one of them, or predict a later step of it with --lead 1.",
    );
  }
  if (features.length === 0 || (targets.length === 0 && !withoutTargets)) {
    throw new UserError(
      "data",
      `${path} leaves no ${noun} to ${features.length === 0 ? "learn from" : "predict"}: ` +
        `it has ${columnList(columns)}. Name some with --features and --targets.`,
    );
  }
  for (const { name, unusable } of [...features, ...(withoutTargets ? [] : targets)]) {
    if (unusable) {
      throw new UserError(
        "data",
        `${path}: the ${noun} "${name}" ${unusable}. Leave it out by naming the others: --features and --targets ` +
          `(there: ${columnList(columns)}).`,
      );
    }
  }
  return { features, targets: withoutTargets ? [] : targets };
}

/** True means that all columns are features; a column that is named as a target is a target. */
function leavesNothing({ columns }: Table, { features, targets }: Names): boolean {
  const offered = columns.filter(({ onlyByName }) => !onlyByName);
  return targets.length === 0 &&
    (offered.length === 1 || offered.length > 0 && offered.every(({ name }) => features.includes(name)));
}

function find<C extends Column>({ path, noun, columns }: Table<C>, name: string, setting: string): C {
  const found = columns.find((column) => column.name === name);
  if (found) return found;
  const known = columns.map((column) => column.name);
  throw new MissingColumnError(
    setting,
    `${path} has no ${noun} "${name}" (${setting}).${didYouMean(name, known)} It has ${columnList(columns)}.`,
  );
}

/** A setting, such as --targets, names a column that the data lacks. */
export class MissingColumnError extends UserError {
  constructor(readonly setting: string, sentence: string) {
    super("data", sentence);
  }
}

const MOST = 20;

export function columnList(columns: readonly Column[]): string {
  const names = columns.slice(0, MOST).map((column) => column.name).join(", ");
  return columns.length > MOST ? `${names}, ... (${columns.length} in all)` : names;
}

function sampleCount({ path, noun }: Table, columns: readonly Column[]): number {
  const flat = columns.find((column) => column.shape.length === 0);
  if (flat) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${flat.name}" is a single number, not one value a sample. ` +
        "Leave it out by naming the others with --features and --targets.",
    );
  }
  const samples = columns[0].shape[0];
  const other = columns.find((column) => column.shape[0] !== samples);
  if (other) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${columns[0].name}" has ${
        formatPlural(samples, "sample")
      }, but "${other.name}" ` +
        `has ${other.shape[0]} (their shapes: ${sizes(columns[0])} and ${sizes(other)}). ` +
        "Choose some of one length with --features and --targets.",
    );
  }
  if (samples === 0 || columns.some((column) => column.shape.includes(0))) {
    throw new UserError("data", `${path} holds no samples: the ${noun} "${columns[0].name}" is empty.`);
  }
  if (samples > MOST_POSITIONS) {
    throw new UserError(
      "data",
      `${path} has ${samples} samples, more than the ${MOST_POSITIONS} that can be put in order.`,
    );
  }
  return samples;
}

function checkTexts(
  { path, noun }: Table,
  features: readonly Column[],
  targets: readonly Column[],
): void {
  const found = [...features, ...(targets.length > 1 ? targets : [])].find((column) => column.text);
  if (found?.text) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${found.name}" holds text (${found.text.example}), and only a single target may: ` +
        "its texts are then classes. Leave it out by naming the others with --features, or put numbers in its place.",
    );
  }
}

const sizes = ({ shape }: Column) => `[${shape.join(", ")}]`;

/** A number becomes a row of one; a map becomes an image of one channel. */
export function channelLayout(shape: readonly number[]): readonly number[] {
  const [samples, ...rest] = shape;
  return rest.length === 0 ? [samples, 1] : rest.length === 2 ? [samples, 1, ...rest] : shape;
}

/** Images with channels last have at most four, and far fewer than rows or columns. */
export const channelsAreLast = (shape: readonly number[]): boolean => {
  const [, a, b, c] = shape;
  return shape.length === 4 && c <= 4 && a > 4 && b > 4;
};

export const channelsNote = (name: string, shape: readonly number[]): string =>
  `${name} of shape [${shape.join(", ")}] is taken for images with channels last`;

export const columnLayoutOf = ({ shape }: Pick<Column, "shape">): readonly number[] =>
  channelsAreLast(shape) ? [shape[0], shape[3], shape[1], shape[2]] : channelLayout(shape);

/** It is the first column that does not fit the ones before it. */
const odd = (layouts: readonly (readonly number[])[]): number =>
  layouts.findIndex((shape) => shape.slice(2).join() !== layouts[0].slice(2).join());

const canBeJoined = (columns: readonly Column[]): boolean => odd(columns.map(columnLayoutOf)) < 0;

export function joinedShape(table: Table, columns: readonly Column[], flat = false): number[] {
  const layouts = columns.map(columnLayoutOf);
  if (flat) {
    return [
      layouts.reduce((sum, [, ...shape]) => sum + shape.reduce((product, side) => product * side, 1), 0),
    ];
  }
  const [, , ...rest] = layouts[0];
  const other = odd(layouts);
  if (other >= 0) throw unlike(table, columns[0], columns[other]);
  return [layouts.reduce((sum, [, channels]) => sum + channels, 0), ...rest];
}

function unlike({ path, noun }: Table, a: Column, b: Column): UserError {
  return new UserError(
    "data",
    `${path}: the ${noun} "${a.name}" has the shape [${a.shape.join(", ")}] and "${b.name}" [${
      b.shape.join(", ")
    }], ` +
      "which don't go together in one sample. Choose some of one shape with --features and --targets.",
  );
}

/** The columns of a table that samples are made of. */
export interface Choice {
  readonly table: Table;
  readonly rows: number;
  readonly features: readonly Column[];
  readonly targets: readonly Column[];
  /** The model takes several inputs apart itself. */
  readonly separateInputs: boolean;
  /** It takes columns that do not fit each other, so they lie one after the other. */
  readonly flat: boolean;
  /** The table has nothing to predict, and the model needs nothing. */
  readonly targetless: boolean;
  /** Quantities are of this type to the model. */
  readonly floats: "f32" | "f64";
}

export function choiceOf(all: Table, { data, training, model }: DataRequest): Choice {
  const { withoutTargets = false } = training;
  const table = withoutSplitColumns(all, data), apart = isExported(model.name);
  const targetless = !withoutTargets && apart && leavesNothing(table, data);
  const { features, targets } = chooseColumns(table, data, withoutTargets || targetless);
  const rows = sampleCount(table, [...features, ...targets]);
  checkTexts(table, features, targets);
  const flat = apart && features.length > 1 && !canBeJoined(features);
  if (flat) refuseSeveralShapes(table, data);
  const floats = weightsDtype(training);
  return { table, rows, features, targets, separateInputs: apart, flat, targetless, floats };
}

function refuseSeveralShapes({ path }: Table, data: Config["data"]): void {
  if (data.history > 1) {
    throw new UserError(
      "usage",
      `${path}: features of several shapes can't have a --history: choose some of one shape with --features.`,
    );
  }
  const climates = climateWanted(data);
  if (climates) {
    throw new UserError(
      "usage",
      `${path}: ${climates} is for features of one shape: choose such with --features.`,
    );
  }
}

interface Named {
  readonly path: string;
  readonly features: readonly Pick<Column, "name" | "shape">[];
  readonly targets: readonly Pick<Column, "name" | "shape">[];
  /** Inputs have so many steps of time, and targets so many leads, one after the other. */
  readonly steps: number;
  readonly leads: number;
}

/** Null where no vectors are named. */
export function vectorsIn(named: readonly string[], chosen: Named): Vectors | null {
  if (named.length === 0) return null;
  const { path, features, targets, steps, leads } = chosen;
  const refuse = (why: string) =>
    new UserError(
      "usage",
      `--vectors ${
        named.join(",")
      }: ${why}. It names pairs of components, such as u10,v10 or u10,v10,taux,tauy.`,
    );
  if (named.length % 2 !== 0) throw refuse(`${named.at(-1)} has no other component`);
  const found = { input: [] as Pair[], target: [] as Pair[] };
  for (let i = 0; i < named.length; i += 2) {
    const pair = named.slice(i, i + 2);
    const input = channelsOf(features, pair, steps), target = channelsOf(targets, pair, leads);
    for (const pairs of [input, target]) if (typeof pairs === "string") throw refuse(`in ${path} ${pairs}`);
    if (input.length + target.length === 0) {
      throw refuse(`${pair.join(" and ")} are neither among the features of ${path} nor among the targets`);
    }
    found.input.push(...input as Pair[]);
    found.target.push(...target as Pair[]);
  }
  return { ...found, sense: 1 };
}

/** A string says why they are no pair; without any of the two there are none. */
function channelsOf(columns: Named["features"], pair: readonly string[], times: number): Pair[] | string {
  let all = 0;
  const places = new Map<string, { readonly from: number; readonly count: number }>();
  for (const { name, shape } of columns) {
    const count = columnLayoutOf({ shape })[1];
    if (pair.includes(name)) places.set(name, { from: all, count });
    all += count;
  }
  if (places.size === 0) return [];
  const [u, v] = pair.map((name) => places.get(name));
  if (!u || !v) return `${u ? pair[0] : pair[1]} is without ${u ? pair[1] : pair[0]}`;
  if (u.count !== v.count) return `${pair[0]} has ${u.count} channels, and ${pair[1]} ${v.count}`;
  return Array.from({ length: times * u.count }, (_, i): Pair => {
    const step = Math.floor(i / u.count) * all, level = i % u.count;
    return [step + u.from + level, step + v.from + level];
  });
}
