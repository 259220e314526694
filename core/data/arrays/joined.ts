// The variables of many files become one: joined along the samples, and merged where files hold different
// variables. Only headers and coordinates are read for it.
import { dtypeBytes } from "../../../ffi/dtype.ts";
import { formatPlural } from "../../base/format.ts";
import { UserError } from "../../base/errors.ts";
import { didYouMean } from "../../base/suggest.ts";
import { basename } from "../../../deps/path.ts";
import { byName } from "./paths.ts";
import { fileVariable, isPackingAttribute, sameBytes, samePacking, storedDtype } from "./variables.ts";
import { asOneSample, leadingAlong } from "./picked.ts";
import { product } from "./numbers.ts";
import type { Rows } from "./rows.ts";
import { type Axis, axisOf, axisText, numberText, rebased, valuesOf } from "./coordinate.ts";
import type { Variable, VariablePacking } from "./table.ts";

export interface VariablesFile {
  readonly path: string;
  readonly variables: readonly Variable[];
}

interface JoinOptions {
  /** Dimensions have names, as in NetCDF; otherwise samples lie along the first axis. */
  readonly named: boolean;
  /** The order of files stays as the user gave it, where no coordinate tells another. */
  readonly inOrder: boolean;
  readonly noun: string;
  /** The samples' dimension, where the user names it; "file" makes each file one sample. */
  readonly along?: string;
}

/** Files without such a dimension are one sample each. */
export const BY_FILE = "file";

interface Joined {
  readonly variables: Variable[];
  /** Null where dimensions have no names. */
  readonly dimension: string | null;
  /** The file of each sample; null where no variable lies along the samples. */
  readonly file: Variable | null;
  readonly notes: readonly string[];
}

/** A file and its samples. */
interface Piece {
  readonly path: string;
  /** Null where the file has only what is the same for all samples. */
  readonly samples: number | null;
  readonly along: Axis | null;
  readonly variables: ReadonlyMap<string, Variable>;
}

export function joinFiles(given: readonly VariablesFile[], options: JoinOptions): Joined {
  const { along, named } = options;
  if (along) checkAlong(given, along, named);
  const files = along ? given.map((file) => alongOne(file, along)) : given;
  const dimension = named ? along || sampleDimension(files) : null;
  const notes: string[] = [];
  const found = files.map((file) => pieceOf(file, dimension, options.noun));
  const pieces = inOrder(found.filter(({ samples }) => samples !== null && samples > 0), options);
  const empty = found.filter(({ samples }) => samples === 0);
  if (pieces.length === 0) {
    throw new UserError("data", `${listed(found.map(({ path }) => path))} hold no samples.`);
  }
  if (empty.length > 0) notes.push(`Left aside, without samples: ${listed(empty.map(({ path }) => path))}`);
  const all = [...pieces, ...found.filter(({ samples }) => samples === null)];
  const names = new Set(all.flatMap(({ variables }) => [...variables.keys()]));
  const { join, longest } = joiner(all, dimension, options);
  const file = longest &&
    fileVariable(longest.pieces.map(({ path, samples }) => ({ path, samples: samples! })), dimension);
  return { variables: [...names].map(join), dimension, file, notes };
}

function checkAlong(files: readonly VariablesFile[], along: string, named: boolean): void {
  const names = new Set(
    named ? files.flatMap(({ variables }) => variables.flatMap(({ dimensions }) => dimensions)) : [],
  );
  if (along !== BY_FILE && !names.has(along)) throw noDimension(files[0].path, along, [...names]);
}

export const noDimension = (path: string, name: string, known: readonly string[]): UserError =>
  new UserError(
    "data",
    `${path} has no dimension "${name}" (--sample-dim).${didYouMean(name, known)} ` +
      `Its dimensions are ${
        known.join(", ") || "without names"
      }; ${BY_FILE} means that each file is one sample.`,
  );

function alongOne({ path, variables }: VariablesFile, dimension: string): VariablesFile {
  const hasDimension = variables.some(({ dimensions }) => dimensions.includes(dimension));
  if (hasDimension || dimension !== BY_FILE) {
    return { path, variables: variables.map((variable) => leadingAlong(variable, dimension)) };
  }
  const isField = ({ auxiliary, unusable, shape }: Variable) =>
    !unusable && (!auxiliary || shape.length === 0);
  return { path, variables: variables.map((one) => isField(one) ? asOneSample(one, dimension) : one) };
}

/** Most numbers lie along it: the first dimension of the largest variables. */
function sampleDimension(files: readonly VariablesFile[]): string | null {
  const sizes = new Map<string, number>();
  for (const { variables } of files) {
    for (const { shape, dimensions: [first], auxiliary, unusable } of variables) {
      if (first === undefined || auxiliary || unusable) continue;
      sizes.set(first, (sizes.get(first) ?? 0) + product(shape));
    }
  }
  return [...sizes].reduce<[string | null, number]>((a, b) => b[1] > a[1] ? b : a, [null, -1])[0];
}

function pieceOf({ path, variables }: VariablesFile, dimension: string | null, noun: string): Piece {
  const usable = variables.filter(({ unusable, shape }) => !unusable && shape.length > 0);
  const byName = new Map(variables.map((variable) => [variable.name, variable]));
  if (dimension === null) {
    const largest = usable.reduce<Variable | null>(
      (a, b) => a && product(a.shape) >= product(b.shape) ? a : b,
      null,
    );
    return { path, samples: largest?.shape[0] ?? 0, along: null, variables: byName };
  }
  const one = variables.find(({ dimensions }) => dimensions[0] === dimension);
  const own = byName.get(dimension);
  const isAlong = own !== undefined && !own.unusable && own.dimensions.join() === dimension;
  const samples = one?.shape[0] ?? null;
  if (!isAlong || !samples) return { path, samples, along: null, variables: byName };
  const along = axisOf(own, path);
  checkOrder(along, path, noun);
  return { path, samples, along, variables: byName };
}

function checkOrder(along: Axis, path: string, noun: string): void {
  const { name, values } = along;
  const missing = values.findIndex(Number.isNaN);
  if (missing >= 0) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" has no number at index ${missing} (counted from 0), so its samples have no ` +
        "place among those of other files. Repair it, or leave the file out.",
    );
  }
  for (let i = 1; i < values.length; i++) {
    if (values[i] > values[i - 1]) continue;
    const how = values[i] === values[i - 1] ? "repeats" : "goes back to";
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" ${how} ${axisText(along, values[i])} at index ${i} (counted from 0), ` +
        `after ${axisText(along, values[i - 1])}. Files are joined where it rises: sort the file by it ` +
        `(xarray: ds.sortby("${name}").drop_duplicates("${name}")), or leave it out.`,
    );
  }
}

/** Numbers of the first file's units are compared. */
function inOrder(pieces: readonly Piece[], { noun, inOrder }: JoinOptions): Piece[] {
  const first = pieces.find(({ along }) => along !== null);
  if (!first) return inOrder ? [...pieces] : pieces.toSorted((a, b) => byName(a.path, b.path));
  const without = pieces.find(({ along }) => along === null);
  const { name } = first.along!;
  if (without) {
    throw new UserError(
      "data",
      `${without.path} has no numbers "${name}" that tell where its samples belong, and ${first.path} has them. ` +
        "Leave it out, or give it the coordinate.",
    );
  }
  const based = pieces.map((piece) => ({ ...piece, along: rebased(piece.along!, first.along!, noun) }));
  return based.sort((a, b) => a.along.values[0] - b.along.values[0] || byName(a.path, b.path));
}

/** The files that have a variable, with their samples one after the other. */
interface Run {
  readonly pieces: readonly Piece[];
  readonly values: Float64Array | null;
  readonly samples: number;
}

function joiner(pieces: readonly Piece[], dimension: string | null, options: JoinOptions) {
  const { noun } = options;
  const grids = gridConflicts(pieces, dimension, noun);
  const runs = new Map<string, Run>();
  const isAlong = (piece: Piece, { shape, dimensions }: Variable) =>
    dimension === null ? shape.length > 0 && shape[0] === piece.samples : dimensions[0] === dimension;
  const runOf = (name: string, holders: readonly Piece[], auxiliary: boolean): Run => {
    const key = holders.map(({ path }) => path).join("\n");
    const known = runs.get(key) ?? makeRun(name, holders, auxiliary, noun);
    runs.set(key, known);
    return known;
  };
  const holdersOf = (name: string) => pieces.filter(({ variables }) => variables.has(name));
  const alongNames = [...new Set(pieces.flatMap(({ variables }) => [...variables.keys()]))].filter((name) =>
    holdersOf(name).every((piece) => isAlong(piece, piece.variables.get(name)!))
  );
  const data = alongNames.filter((name) => !holdersOf(name)[0].variables.get(name)!.auxiliary);
  const longest = data.map((name) => runOf(name, holdersOf(name), false))
    .reduce<Run | null>((a, b) => a && a.samples >= b.samples ? a : b, null);

  const join = (name: string): Variable => {
    const holders = holdersOf(name);
    const [first] = holders, model = first.variables.get(name)!;
    if (longest?.values && name === dimension) return inFirstUnits(model, longest);
    const along = holders.map((piece) => isAlong(piece, piece.variables.get(name)!));
    const conflict = conflictIn(name, holders, options) ?? grids(model);
    if (along.every((is) => !is)) return staticVariable(name, holders, conflict, noun);
    if (along.includes(false)) {
      const [one, other] = [along.indexOf(true), along.indexOf(false)].map((i) => holders[i]);
      return failed(model, `has samples in ${one.path} and none in ${other.path}`);
    }
    const run = runOf(name, holders, model.auxiliary);
    const odd = conflict ?? (longest && unlike(run, longest, pieces));
    if (!odd && name === run.pieces[0].along?.attributes.get("bounds")) return inFirstUnits(model, run);
    return joined(model, run, odd ?? undefined);
  };
  return { join, longest };
}

/** Coordinates and the like may be in several files for the same samples. */
function makeRun(name: string, holders: readonly Piece[], auxiliary: boolean, noun: string): Run {
  const pieces: Piece[] = [];
  for (const piece of holders) {
    const last = pieces.at(-1);
    if (last?.along && piece.along) {
      const end = last.along.values[last.along.values.length - 1], begin = piece.along.values[0];
      if (begin <= end) {
        if (auxiliary) continue;
        throw new UserError(
          "data",
          `${last.path} and ${piece.path} both have the ${noun} "${name}" for the ${piece.along.name} ` +
            `${axisText(piece.along, begin)}: the one goes to ${
              axisText(piece.along, end)
            } and the other begins ` +
            "there or before. Leave one of them out.",
        );
      }
    }
    pieces.push(piece);
  }
  const samples = pieces.reduce((sum, piece) => sum + piece.samples!, 0);
  if (pieces.some(({ along }) => along === null)) return { pieces, samples, values: null };
  const values = new Float64Array(samples);
  let at = 0;
  for (const { along } of pieces) {
    values.set(along!.values, at);
    at += along!.values.length;
  }
  return { pieces, samples, values };
}

/** The result follows the variable's name; it is null where the samples are those of the others. */
function unlike(run: Run, longest: Run, all: readonly Piece[]): string | null {
  if (run === longest) return null;
  const differs = run.samples !== longest.samples ||
    (run.values && longest.values && run.values.some((value, i) => value !== longest.values![i]));
  if (!differs) return null;
  const without = longest.pieces.filter((piece) => !run.pieces.includes(piece));
  if (run.pieces.every((piece) => longest.pieces.includes(piece)) && without.length > 0) {
    return `is missing in ${listed(without.map(({ path }) => path))}, which the other variables are in`;
  }
  const along = longest.pieces[0].along;
  if (!run.values || !longest.values || !along) {
    return `has ${formatPlural(run.samples, "sample")} in ${
      listed(run.pieces.map(({ path }) => path))
    }, but ` +
      `others have ${longest.samples} (${formatPlural(all.length, "file")} in all)`;
  }
  const i = longest.values.findIndex((value, i) => value !== run.values![i]);
  const at = i < 0 ? longest.samples : i;
  const own = run.values[at], other = longest.values[at];
  const text = (value: number | undefined) => value === undefined ? "nothing" : axisText(along, value);
  return `has other values of ${along.name} than the variables of ${
    listed(longest.pieces.map(({ path }) => path))
  }: ` +
    `${text(own)} where they have ${text(other)}`;
}

const listed = (paths: readonly string[]): string =>
  paths.length > 3
    ? `${paths.slice(0, 2).join(", ")} and ${paths.length - 2} other files`
    : paths.length > 1
    ? `${paths.slice(0, -1).join(", ")} and ${paths[paths.length - 1]}`
    : paths[0];

/** The first file that disagrees with the first one that has the variable. */
function conflictIn(name: string, holders: readonly Piece[], { named }: JoinOptions): string | null {
  const [first, ...others] = holders, one = first.variables.get(name)!;
  const differs = (what: string, mine: unknown, theirs: unknown, path: string) =>
    `has ${what} ${theirs} in ${path}, but ${mine} in ${first.path}`;
  for (const { path, variables } of others) {
    const other = variables.get(name)!;
    const list = ({ dimensions }: Variable) => `(${dimensions.join(", ")})`;
    const map = ({ shape }: Variable) => `[${["samples", ...shape.slice(1)].join(", ")}]`;
    if (named && list(one) !== list(other)) return differs("the dimensions", list(one), list(other), path);
    if (map(one) !== map(other)) return differs("the shape", map(one), map(other), path);
    const type = storedDtype(one), own = storedDtype(other);
    if (type !== own) return differs("numbers of the type", type, own, path);
    const units = one.attributes.get("units"), ownUnits = other.attributes.get("units");
    if (units !== undefined && ownUnits !== undefined && units !== ownUnits && name !== first.along?.name) {
      return differs("the units", `"${units}"`, `"${ownUnits}"`, path);
    }
  }
  return null;
}

/** Coordinates of the other dimensions must have the same values in all files. */
function gridConflicts(pieces: readonly Piece[], dimension: string | null, noun: string) {
  const found = new Map<string, string | null>();
  const check = (name: string): string | null => {
    const holders = pieces.flatMap(({ path, variables }) => {
      const own = variables.get(name);
      return own && !own.unusable && own.dimensions.join() === name ? [{ path, own }] : [];
    });
    const [first, ...others] = holders;
    if (!first || others.length === 0) return null;
    const values = axisOf(first.own, first.path).values;
    for (const { path, own } of others) {
      const theirs = axisOf(own, path).values;
      const at = values.findIndex((value, i) => !Object.is(value, theirs[i]));
      if (values.length === theirs.length && at < 0) continue;
      const how = values.length === theirs.length
        ? `${name}[${at}] is ${numberText(theirs[at])} there, and ${numberText(values[at])} in ${first.path}`
        : `${name} has ${formatPlural(theirs.length, "value")} there, and ${values.length} in ${first.path}`;
      return `lies on another grid in ${path}: the ${noun} ${how}`;
    }
    return null;
  };
  return ({ dimensions }: Variable): string | null => {
    if (dimension === null) return null;
    for (const name of dimensions) {
      if (name === dimension) continue;
      if (!found.has(name)) found.set(name, check(name));
      const conflict = found.get(name);
      if (conflict) return conflict;
    }
    return null;
  };
}

const failed = (model: Variable, conflict: string): Variable => ({ ...model, conflict });

function joined(model: Variable, { pieces, samples }: Run, conflict?: string): Variable {
  const variables = pieces.map((piece) => piece.variables.get(model.name)!);
  const unusable = variables.find((variable) => variable.unusable)?.unusable;
  const packings = variables.map(({ attributes }, i): VariablePacking => ({
    samples: pieces[i].samples!,
    attributes,
  }));
  const alike = packings.every(({ attributes }) => samePacking(attributes, packings[0].attributes));
  return {
    ...model,
    shape: [samples, ...model.shape.slice(1)],
    dimensions: model.dimensions.map((name, i) =>
      i === 0 && name.startsWith("size ") ? `size ${samples}` : name
    ),
    unusable,
    conflict,
    ...(alike ? {} : { packings }),
    read() {
      const row = product(model.shape.slice(1)) * dtypeBytes(model.dtype!);
      const all = new Uint8Array(samples * row);
      let at = 0;
      for (const variable of variables) {
        const values = variable.read();
        all.set(values, at);
        at += values.length;
      }
      return all;
    },
    rows(lead) {
      const parts: Rows[] = [], starts = [0];
      for (const [i, variable] of variables.entries()) {
        const rows = variable.rows(lead);
        if (typeof rows === "string") return `${rows} (${basename(pieces[i].path)})`;
        parts.push(rows);
        starts.push(starts[i] + product(variable.shape.slice(0, lead)));
      }
      return { layout: "parts", starts, parts };
    },
  };
}

/** Files may count time from different days: the coordinate and its bounds are in the first file's units. */
function inFirstUnits(model: Variable, run: Run): Variable {
  const { pieces } = run, all = joined(model, run);
  if (pieces.every((piece) => !piece.along!.rebase) && !all.packings) return all;
  const values = pieces.flatMap(({ along, variables }) => {
    const own = [...valuesOf(variables.get(model.name)!)];
    return along!.rebase ? own.map(along!.rebase) : own;
  });
  const held = new Uint8Array(Float64Array.from(values).buffer);
  const plain = [...model.attributes].filter(([name]) => !isPackingAttribute(name));
  const [{ along }] = pieces, units = along!.attributes.get("units");
  return {
    ...all,
    dtype: "f64",
    packings: undefined,
    attributes: new Map([
      ...plain,
      ...(model.attributes.has("units") && units ? [["units", units] as const] : []),
    ]),
    read: () => held.slice(),
    rows: (lead) => {
      const bytes = 8 * product(model.shape.slice(lead));
      return { layout: "held", path: pieces[0].path, values: held, bytes };
    },
  };
}

/** A variable that is not along the samples is the first file's; all files must have the same. */
function staticVariable(
  name: string,
  holders: readonly Piece[],
  conflict: string | null,
  noun: string,
): Variable {
  const [first, ...others] = holders, model = first.variables.get(name)!;
  if (model.unusable || conflict) return { ...model, conflict: conflict ?? undefined };
  let checked = false;
  const check = () => {
    if (checked) return;
    const values = model.read();
    for (const { path, variables } of others) {
      const other = variables.get(name)!;
      if (samePacking(model.attributes, other.attributes) && sameBytes(values, other.read())) continue;
      throw new UserError(
        "data",
        `The ${noun} "${name}" is the same for all samples, but it has other values in ${path} than in ` +
          `${first.path}. Leave it out, or make the files agree.`,
      );
    }
    checked = true;
  };
  return {
    ...model,
    read() {
      check();
      return model.read();
    },
    rows(lead) {
      check();
      return model.rows(lead);
    },
  };
}
