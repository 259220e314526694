// Variables on named dimensions become samples: maps, or the points of a grid.
import { gridOf, type GridVariable } from "../arrays/grid.ts";
import type { DataReader, DataRequest, Sources, TableFile } from "../format.ts";
import { joinFiles, noDimension } from "../arrays/joined.ts";
import { selected } from "../arrays/select.ts";
import type { Source } from "../source/source.ts";
import { bytesOf, type Floats, product, typedView, type VariableValues } from "../arrays/numbers.ts";
import { toColumn, withFile as withFileColumn } from "../arrays/variables.ts";
import { chooseColumns, columnList } from "./choose.ts";
import { fromColumns } from "./columns.ts";
import { forecastLeads } from "./windows.ts";
import { isCode, isExported } from "../../models/user/file.ts";
import { resampled } from "../arrays/resample.ts";
import type { Variable, VariableColumn } from "../arrays/table.ts";
import { takesImages } from "../../settings/sections/model.ts";
import { leadingAlong } from "../arrays/picked.ts";
import { filesText } from "../arrays/paths.ts";
import { dtypeBytes } from "../../../ffi/dtype.ts";

/** A grid is one sample for models of maps and for a user's own; for others each of its points is one. */
const takesMaps = (model: string): boolean => takesImages(model) || isCode(model) || isExported(model);

export interface Content extends TableFile<VariableColumn> {
  /** Dimensions have names, so variables on the same ones lie on one grid. */
  readonly isNetcdf: boolean;
  /** Samples of several files are joined along it. */
  readonly dimension?: string | null;
  /** The file of each sample, where there are several. */
  readonly file?: Variable | null;
  readonly notes?: readonly string[];
}

/** The variables of one of several files. */
export interface VariablesFile {
  readonly path: string;
  readonly variables: readonly Variable[];
  readonly isNetcdf: boolean;
}

/** Files are joined in the order that `path` lists them in, or along their samples. */
export function joinedContent(
  path: string,
  found: readonly VariablesFile[],
  { kind, noun, along, fillsByDefault }: Pick<TableFile, "kind" | "noun"> & {
    readonly along: string;
    readonly fillsByDefault?: boolean;
  },
): Content {
  const isNetcdf = found.every(({ isNetcdf }) => isNetcdf);
  const joining = { named: isNetcdf, inOrder: path.includes(","), noun, along };
  const { variables, dimension, file, notes } = joinFiles(found, joining);
  const files = filesText(found.map(({ path }) => path));
  const said = `${path}: ${files} joined${dimension ? ` along ${dimension}` : ""}`;
  return {
    ...{ path, kind, noun, isNetcdf, dimension, file },
    columns: variableColumns(variables, isNetcdf, fillsByDefault),
    notes: found.length > 1 ? [said, ...notes] : notes,
  };
}

export const variableColumns = (
  variables: readonly Variable[],
  isNetcdf: boolean,
  fillsByDefault = isNetcdf,
): VariableColumn[] =>
  withAuxiliary(variables).map((variable) => toColumn(variable, isNetcdf, fillsByDefault));

/** Variables that others name as their coordinates or bounds describe those. */
export function withAuxiliary(variables: readonly Variable[]): Variable[] {
  const describing = described(variables);
  return variables.map((variable) => {
    const { name } = variable;
    const auxiliary = variable.auxiliary || describing.has(name.slice(name.lastIndexOf("/") + 1));
    return { ...variable, auxiliary };
  });
}

function described(variables: readonly Variable[]): Set<string> {
  const texts = variables.flatMap(({ attributes }) =>
    ["coordinates", "bounds", "grid_mapping"].map((name) => attributes.get(name))
  );
  return new Set(texts.flatMap((text) => typeof text === "string" ? text.split(/[\s:]+/) : []));
}

type WithContent = <R>(path: string, use: (content: Content) => R, along?: string) => R;

/** A format of variables says how it opens them; the samples' dimension is named where the user names it. */
export const variablesReader = (withContent: WithContent, prepare?: DataReader["prepare"]): DataReader => ({
  prepare,
  open(request) {
    const { data_path, sample_dim } = request.data;
    const again: Again = (use) => withContent(data_path, use, sample_dim);
    return again((content) => samplesOf(content, request, again));
  },
  table: (path, use) => withContent(path, use),
});

/** Opens the same variables again. */
type Again = <R>(use: (content: Content) => R) => R;

function samplesOf(content: Content, settings: DataRequest, again: Again): Sources {
  const { data, model, training } = settings, { isNetcdf, file } = content;
  const leads = forecastLeads(data);
  const own = withFileColumn(content.columns, file ? toColumn(file, isNetcdf) : null);
  const notes = [...(content.notes ?? [])];
  const all = withSelected({ ...content, columns: own }, data, notes);
  const { features, targets, spreads, folded } = withStatic(
    chooseColumns(all, data, training.withoutTargets),
    all.path,
    isNetcdf && !takesMaps(model.name),
  );
  const chosen = [...features, ...targets];
  const columns = all.columns.map((column) => chosen.find(({ name }) => name === column.name) ?? column);
  const table = { ...all, columns };
  if (data.features.length === 0) notes.push(...aside(columns, chosen));
  if (spreads.length > 0) notes.push(`The same for all samples: ${spreads.join(", ")}`);
  if (folded.length > 0) {
    notes.push(`Finer than the maps, so the points within each pixel are channels: ${folded.join(", ")}`);
  }
  const finest = all.columns.find(({ name }) => name === folded[0])?.variable ?? null;
  const laid = { features, targets, names: data.targets, leads, data, folded, finest };
  const grid = chosen[0].variable.dimensions;
  const together = isNetcdf && grid.length > 0 && chosen.every((column) => sameGrid(column, grid));
  if (together && (grid.length === 1 || !takesMaps(model.name))) {
    const points = chosen[0].shape.reduce((total, size) => total * size, 1);
    if (grid.length > 1) {
      notes.push(`All are on (${grid.join(", ")}): each of the ${points} points is one sample`);
    }
    let marks: Uint8Array | undefined; // made when the first is read: by then there are not too many
    const absent = () => marks ??= new Uint8Array(points);
    const flat = columns.map((column) => {
      if (!sameGrid(column, grid)) return column;
      const rows = () => column.rowsAt(grid.length), { stored } = column, unpack = stored?.unpack;
      return {
        ...column,
        shape: [points],
        read: () => column.readMarking(absent()),
        stored: stored && unpack
          ? { ...stored, unpack: (from: VariableValues, to: Floats) => unpack(from, to, absent()) }
          : stored,
        stream: { ...column.stream, rows },
      };
    });
    const dimensions = grid.map((name, i) => ({ name, size: chosen[0].shape[i] }));
    const found = fromColumns({ ...table, columns: flat, absent, grid: dimensions }, settings);
    return onGrid(found, notes, { ...laid, pointwise: true }, again);
  }
  const stranger = chosen.find(({ variable }) => isNetcdf && variable.dimensions[0] !== grid[0]);
  if (stranger) {
    notes.push(
      `Samples are paired by position: ${chosen[0].name} is on (${
        grid.join(", ")
      }), but ${stranger.name} on ` +
        `(${stranger.variable.dimensions.join(", ")})`,
    );
  }
  const steps = isNetcdf && grid.length > 0 ? [{ name: grid[0], size: chosen[0].shape[0] }] : undefined;
  const found = fromColumns({ ...table, grid: steps }, settings);
  return isNetcdf
    ? onGrid(found, notes, { ...laid, pointwise: false }, again)
    : { ...found, notes: [...notes, ...found.notes] };
}

interface Laid {
  readonly features: readonly VariableColumn[];
  readonly targets: readonly VariableColumn[];
  /** The targets' names, where the data may have none of them. */
  readonly names: readonly string[];
  readonly pointwise: boolean;
  /** Steps from a sample's own time to those of its targets. */
  readonly leads: readonly number[];
  readonly data: DataRequest["data"];
  /** Features that are finer than the maps, and the first of them as the data has it. */
  readonly folded: readonly string[];
  readonly finest: Variable | null;
}

/** The samples' dimension comes first, and only what is chosen along dimensions is left. */
function withSelected(content: Content, data: DataRequest["data"], notes: string[] = []): Content {
  const { sel, sample_dim } = data;
  const { path, noun, isNetcdf: named, dimension: along } = content;
  const own = content.columns.map(({ variable }) => variable);
  const known = named ? [...new Set(own.flatMap(({ dimensions }) => dimensions))] : [];
  // Joined files lie along it already, with names or without.
  if (sample_dim !== "" && along === undefined && !known.includes(sample_dim)) {
    throw noDimension(path, sample_dim, known);
  }
  const laid = sample_dim === "" ? own : own.map((variable) => leadingAlong(variable, sample_dim));
  const variables = selected({ path, noun, named, along, variables: laid }, sel);
  const columns = content.columns.map((column, i) => column.of(variables[i]));
  return { ...content, columns: resampled({ path, noun, named, columns }, data, notes) };
}

/** A table of rows has nothing that a grid could add. */
function onGrid(found: Sources, notes: readonly string[], laid: Laid, again: Again): Sources {
  const { features, targets, names, pointwise, leads, data, folded, finest } = laid;
  const whole = { ...found, notes: [...notes, ...found.notes] };
  if ([...features, ...targets].every(({ shape }) => shape.length < 2)) return whole;
  // Static features have fewer dimensions than a target would have.
  const widest = features.filter(({ name }) => !folded.includes(name)).map(({ variable }) => variable).reduce(
    (
      most,
      one,
    ) => one.dimensions.length > most.dimensions.length ? one : most,
  );
  const { dimensions: [first], shape: [steps] } = widest;
  // A downscaled target would be as fine as what is known of the finer grid.
  const like = finest
    ? { ...widest, dimensions: [first, ...finest.dimensions], shape: [steps, ...finest.shape] }
    : widest;
  const grid = () =>
    again((content) => {
      const { columns } = withSelected(content, data);
      const variables = columns.map(({ variable }) => variable);
      const known = targets.length > 0 ? targets.map(({ name }) => name) : names;
      const places = known.map((name) =>
        variables.find((variable) => variable.name === name) ??
          { ...like, name, attributes: new Map(), dtype: null }
      );
      return gridOf(variables, places, { pointwise, leads });
    });
  const sense = data.vectors.length > 0 ? again(({ columns }) => senseOf(columns, widest)) : 1;
  const variable = (name: string) =>
    again((content) => readVariable(withSelected(content, data).columns, name));
  const about = Object.fromEntries(targets.map(({ name, variable }) => [name, textsOf(variable)]));
  const on = (source: Source): Source => ({
    ...source,
    ...{ grid, variable, about },
    ...(folded.length > 0 && { folded }),
    ...(source.vectors && { vectors: { ...source.vectors, sense } }),
  });
  return {
    ...whole,
    train: on(found.train),
    val: found.val && on(found.val),
    test: found.test && on(found.test),
  };
}

/** Components point to where coordinates grow; on a map whose latitude falls row by row, v points to earlier rows. */
function senseOf(columns: readonly VariableColumn[], { dimensions }: Variable): 1 | -1 {
  const falls = (dimension: string) => {
    const values = readVariable(columns.filter(({ shape }) => shape.length === 1), dimension)?.values ?? [];
    return values[values.length - 1] < values[0];
  };
  const [rows, along] = dimensions.slice(-2).map(falls);
  return rows === along ? 1 : -1;
}

/** Predictions of data that lacks the target have these from the run. */
const DESCRIBING = ["units", "long_name", "standard_name", "cell_methods"];

const LONGEST_TEXT = 4096;

const textsOf = ({ attributes }: Variable): Record<string, string> =>
  Object.fromEntries(DESCRIBING.flatMap((key) => {
    const text = attributes.get(key);
    return typeof text === "string" && text.length <= LONGEST_TEXT ? [[key, text]] : [];
  }));

function readVariable(columns: readonly VariableColumn[], wanted: string): GridVariable | null {
  const found = columns.find(({ name, unusable }) => name === wanted && !unusable);
  if (!found) return null;
  const { name, shape, variable: { dimensions }, dtype, read } = found;
  return { name, shape, dimensions, values: Float64Array.from(typedView(bytesOf(read()), dtype), Number) };
}

const sameGrid = ({ variable }: VariableColumn, grid: readonly string[]) =>
  variable.dimensions.join() === grid.join();

function aside(columns: readonly VariableColumn[], chosen: readonly VariableColumn[]): string[] {
  const left = columns.filter((column) =>
    column.onlyByName && !chosen.includes(column) && column.variable.labels === undefined
  );
  const of = (why: string, which: (column: VariableColumn) => boolean) => {
    const these = left.filter(which);
    return these.length > 0 ? [`${columnList(these)} (${why})`] : [];
  };
  const asides = [
    ...of("describes others", (column) => !column.unusable && column.shape.length > 0),
    ...of("one number", (column) => !column.unusable && column.shape.length === 0),
    ...of("no numbers that can be read", (column) => column.unusable !== undefined),
  ];
  return asides.length > 0 ? [`Left aside: ${asides.join("; ")}`] : [];
}

interface Chosen {
  readonly features: readonly VariableColumn[];
  readonly targets: readonly VariableColumn[];
}

interface Spread extends Chosen {
  readonly spreads: readonly string[];
  /** Those among them that are finer than the maps. */
  readonly folded: readonly string[];
}

/**
 * Features that lie on some dimensions of the samples' maps, but not along the samples. A pointwise grid has
 * them at each of its points; maps have them as a channel. Where the maps are k times coarser, as in downscaling,
 * the k * k points within a pixel are a channel each.
 */
function withStatic({ features, targets }: Chosen, path: string, pointwise: boolean): Spread {
  const others = [...targets, ...features];
  const widest = others.reduce((a, b) => b.variable.shape.length > a.variable.shape.length ? b : a).variable;
  const coarse = pointwise
    ? undefined
    : features.find(({ variable }) =>
      variable.dimensions[0] === widest.dimensions[0] && variable.shape.length === widest.shape.length &&
      timesFiner(widest, variable) > 1
    );
  const frame = coarse?.variable ?? widest;
  const [samples, ...map] = frame.dimensions;
  const isFolded = ({ variable }: VariableColumn) =>
    !pointwise && variable.shape.length === 2 && frame.shape.length > 2 && timesFiner(variable, frame) > 1;
  const isStatic = (column: VariableColumn) => {
    const { variable: { dimensions, dtype }, unusable } = column;
    return !unusable && dtype !== null && dimensions.length > 0 && samples !== undefined &&
      !dimensions.includes(samples) && (isPartOf(dimensions, map) || isFolded(column));
  };
  const spreads = features.filter(isStatic);
  const moving = [...features.filter((column) => !spreads.includes(column)), ...targets];
  const whole = pointwise &&
    moving.every(({ variable }) => variable.dimensions.join() === frame.dimensions.join());
  // Samples whose inputs are all the same would teach nothing.
  const alone = spreads.length === features.length && !whole;
  if (spreads.length === 0 || alone) return { features, targets, spreads: [], folded: [] };
  const spreadOne = (column: VariableColumn): VariableColumn => {
    const { variable } = column;
    if (isFolded(column)) return column.of(folded(variable, path, frame));
    const last = map.slice(-2), on = whole || !isPartOf(variable.dimensions, last) ? map : last;
    const sizes = frame.shape.slice(frame.shape.length - on.length);
    return {
      ...column.of(spread(variable, path, [samples, ...on], [frame.shape[0], ...sizes])),
      isStatic: true,
    };
  };
  return {
    features: features.map((column) => spreads.includes(column) ? spreadOne(column) : column),
    targets,
    spreads: spreads.map(({ name }) => name),
    folded: spreads.filter(isFolded).map(({ name }) => name),
  };
}

/** How many times finer the maps of one variable are; 1 on the same dimensions and where sides are no multiples. */
function timesFiner(fine: Variable, coarse: Variable): number {
  const [rows, columns] = fine.shape.slice(-2), [height, width] = coarse.shape.slice(-2);
  const named = fine.dimensions.slice(-2).join() === coarse.dimensions.slice(-2).join();
  return !named && rows % height === 0 && columns === rows / height * width ? rows / height : 1;
}

/** The points within each pixel lie in channels, row by row, as PyTorch's pixel_unshuffle has them. */
function folded(variable: Variable, path: string, frame: Variable): Variable {
  const k = timesFiner(variable, frame), [height, width] = frame.shape.slice(-2);
  const own = variable.dimensions, within = `${own.join(" x ")} in a pixel`;
  const fold = () => {
    const bytes = variable.read(), each = dtypeBytes(variable.dtype!);
    const made = new Uint8Array(new SharedArrayBuffer(bytes.length));
    for (let to = 0; to * each < made.length; to++) {
      const column = to % width,
        row = Math.floor(to / width) % height,
        inner = Math.floor(to / (width * height));
      const from = (row * k + Math.floor(inner / k)) * k * width + column * k + inner % k;
      made.set(bytes.subarray(from * each, (from + 1) * each), to * each);
    }
    return made;
  };
  const dimensions = [frame.dimensions[0], within, ...frame.dimensions.slice(-2)];
  return repeated(variable, path, dimensions, [frame.shape[0], k * k, height, width], fold);
}

/** They are some of the others, each once and in their order; those without names have to be all. */
function isPartOf(some: readonly string[], all: readonly string[]): boolean {
  if (new Set(all).size < all.length) return some.join() === all.join();
  let at = 0;
  for (const name of all) if (name === some[at]) at++;
  return at === some.length;
}

/** The variable along other dimensions, too, which have its own ones among them in their order. */
function spread(
  variable: Variable,
  path: string,
  dimensions: readonly string[],
  shape: readonly number[],
): Variable {
  const once = () => spreadOnce(variable, dimensions.slice(1), shape.slice(1), dtypeBytes(variable.dtype!));
  return repeated(variable, path, dimensions, shape, once);
}

/** Each sample has the same bytes. */
function repeated(
  variable: Variable,
  path: string,
  dimensions: readonly string[],
  shape: readonly number[],
  once: () => Uint8Array,
): Variable {
  const width = dtypeBytes(variable.dtype!);
  let held: Uint8Array | undefined;
  const sample = () => held ??= once();
  return {
    ...variable,
    dimensions,
    shape,
    read() {
      const one = sample(), all = new Uint8Array(shape[0] * one.length);
      for (let row = 0; row < shape[0]; row++) all.set(one, row * one.length);
      return all;
    },
    rows: (lead) => ({
      layout: "held",
      path,
      values: sample(),
      bytes: product(shape.slice(lead)) * width,
    }),
  };
}

/** Threads share it. */
function spreadOnce(
  variable: Variable,
  dimensions: readonly string[],
  shape: readonly number[],
  width: number,
): Uint8Array {
  const own = variable.read();
  const steps = variable.shape.map((_, d) => product(variable.shape.slice(d + 1)));
  const step = dimensions.map((name) => steps[variable.dimensions.indexOf(name)] ?? 0);
  const all = new Uint8Array(new SharedArrayBuffer(product(shape) * width));
  for (let i = 0, count = product(shape); i < count; i++) {
    let from = 0;
    for (let d = shape.length - 1, rest = i; d >= 0; d--) {
      from += rest % shape[d] * step[d];
      rest = Math.floor(rest / shape[d]);
    }
    for (let byte = 0; byte < width; byte++) all[i * width + byte] = own[from * width + byte];
  }
  return all;
}
