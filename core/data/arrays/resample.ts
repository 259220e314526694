// --resample and --coarsen: means over neighbouring places of a dimension, of the points that are there.
import { dtypeBytes } from "../../../ffi/dtype.ts";
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { didYouMean } from "../../base/suggest.ts";
import { type Axis, axisOf, axisText } from "./coordinate.ts";
import { picked } from "./picked.ts";
import { openRows } from "./open_rows.ts";
import { applyRule, bytesOf, product, typedView } from "./numbers.ts";
import { type Rows, rulesOf } from "./rows.ts";
import { isPackingAttribute } from "./variables.ts";
import type { Variable, VariableColumn } from "./table.ts";
import { isLongitude } from "./select.ts";

interface Resampling {
  readonly setting: string;
  readonly name: string;
  readonly by: "month" | "day" | number;
}

/** Group i has the places from starts[i] to starts[i + 1]; those behind the last are left out. */
interface Groups {
  readonly starts: readonly number[];
  readonly by: Resampling["by"];
}

interface Table {
  readonly path: string;
  readonly noun: string;
  readonly named: boolean;
  readonly columns: readonly VariableColumn[];
}

export const isResampled = ({ resample, coarsen }: Config["data"]): boolean =>
  resample !== "" || coarsen.length > 0;

/** The columns along these dimensions, with as many places as there are groups. */
export function resampled(table: Table, data: Config["data"], notes: string[]): readonly VariableColumn[] {
  if (!isResampled(data)) return table.columns;
  const groups = new Map<string, Groups>();
  for (const wanted of resamplingsOf(data)) {
    const [dimension, found] = groupsOf(table, wanted, notes);
    if (groups.has(dimension)) {
      throw new UserError("usage", `${wanted.setting} takes means along ${dimension} twice: name it once.`);
    }
    groups.set(dimension, found);
  }
  const own = (name: string) => table.columns.find((column) => column.name === name)?.variable;
  const bounds = new Set([...groups.keys()].map((name) => own(name)?.attributes.get("bounds")));
  return table.columns.map((column) => {
    const { variable, name } = column;
    if (!variable.dimensions.some((dimension) => groups.has(dimension))) return column;
    if (variable.unusable || variable.conflict || variable.dtype === null) return column;
    if (bounds.has(name)) return column.of({ ...variable, unusable: "has the bounds of what was resampled" });
    if (variable.labels) return column.of(firstOf(variable, groups));
    return markingGaps(column.of(meanOf(column, groups, table.path)));
  });
}

/** Where each point of a grid is a sample, one without a mean is none. */
const markingGaps = (column: VariableColumn): VariableColumn => ({
  ...column,
  stored: undefined,
  readMarking(absent) {
    const read = column.read(), values = read as Float64Array;
    for (let i = 0; i < values.length; i++) if (Number.isNaN(values[i])) absent[i] = 1;
    return read;
  },
});

function resamplingsOf({ resample, coarsen }: Config["data"]): Resampling[] {
  const of = (setting: string, text: string, words: readonly string[]): Resampling => {
    const [, name, by] = /^([^=]+)=(\w+)$/.exec(text.trim()) ?? [];
    const count = Number(by);
    if (name && words.includes(by)) return { setting, name: name.trim(), by: by as "month" | "day" };
    if (name && Number.isInteger(count) && count >= 2) return { setting, name: name.trim(), by: count };
    throw new UserError(
      "usage",
      `${setting} ${text}: write ${
        words.length > 0 ? "time=month, time=day or time=6" : "NAME=N, such as lat=4,lon=4"
      }, with at least 2 places to a mean.`,
    );
  };
  return [
    ...(resample === "" ? [] : [of("--resample", resample, ["month", "day"])]),
    ...coarsen.flatMap((item) => item.split(",")).map((item) => of("--coarsen", item, [])),
  ];
}

function groupsOf(
  { path, named, columns }: Table,
  { setting, name, by }: Resampling,
  notes: string[],
): [string, Groups] {
  const sizes = new Map(
    named
      ? columns.flatMap(({ variable: { dimensions, shape } }) =>
        dimensions.map((one, d) => [one, shape[d]] as const)
      )
      : [],
  );
  const coordinate = columns.find((column) => column.name === name)?.variable;
  const dimension = sizes.has(name)
    ? name
    : coordinate?.dimensions.length === 1
    ? coordinate.dimensions[0]
    : name;
  const size = sizes.get(dimension);
  if (size === undefined) {
    throw new UserError(
      "data",
      `${path} has no dimension "${name}" (${setting}).${didYouMean(name, [...sizes.keys()])} It has ${
        [...sizes].map(([name, size]) => `${name} (${size})`).join(", ") || "none with a name"
      }.`,
    );
  }
  if (typeof by === "number") {
    return [dimension, { by, starts: equalParts(path, { setting, name, by }, size, notes) }];
  }
  const axis = coordinate && axisOf(coordinate, path);
  if (!axis?.times) {
    throw new UserError(
      "data",
      `${path}: ${setting} ${name}=${by} needs a time along ${dimension}, and it has none.`,
    );
  }
  return [dimension, { by, starts: byDate(axis, by, setting) }];
}

function equalParts(
  path: string,
  { setting, name, by }: Resampling,
  size: number,
  notes: string[],
): number[] {
  const count = Math.floor(size / Number(by)), left = size - count * Number(by);
  if (count === 0) {
    throw new UserError(
      "data",
      `${path}: ${name} has ${formatPlural(size, "place")}, fewer than ${setting} ${name}=${by}.`,
    );
  }
  if (left > 0) {
    notes.push(
      `The last ${left} of ${formatPlural(size, "place")} of ${name} are left out (${setting} ${name}=${by})`,
    );
  }
  return Array.from({ length: count + 1 }, (_, i) => i * Number(by));
}

function byDate(axis: Axis, by: "month" | "day", setting: string): number[] {
  const { name, values, path, times } = axis;
  const back = values.findIndex((value, i) => !(i === 0 ? value === value : value > values[i - 1]));
  if (back >= 0) {
    throw new UserError(
      "data",
      `${path}: ${setting} needs times that rise, and ${name} is ${
        axisText(axis, values[back])
      } at index ${back} ` +
        `(counted from 0): ds.sortby("${name}").`,
    );
  }
  const key = (value: number) => {
    const { year, month, day } = times!.decode(value)!;
    return by === "month" ? `${year}-${month}` : `${year}-${month}-${day}`;
  };
  const starts: number[] = [];
  values.forEach((value, i) => {
    if (i === 0 || key(value) !== key(values[i - 1])) starts.push(i);
  });
  return [...starts, values.length];
}

const shapeOf = ({ shape, dimensions }: Variable, groups: ReadonlyMap<string, Groups>) =>
  shape.map((size, d) => {
    const own = groups.get(dimensions[d]);
    return own ? own.starts.length - 1 : size;
  });

const firstOf = (variable: Variable, groups: ReadonlyMap<string, Groups>): Variable =>
  picked(
    variable,
    new Map(
      [...groups].map((
        [name, { starts }],
      ) => [name, { places: Int32Array.from(starts.slice(0, -1)), drop: false }]),
    ),
  );

const WHOLE = "is a mean over several of its places, which is taken of all of it at once";

function meanOf(column: VariableColumn, groups: ReadonlyMap<string, Groups>, path: string): Variable {
  const { variable } = column, shape = shapeOf(variable, groups);
  const isAxis = variable.dimensions.length === 1 && groups.has(variable.name);
  const dtype = isAxis || column.dtype === "f64" || dtypeBytes(column.dtype) > 4 || column.dtype === "i32"
    ? "f64"
    : "f32";
  const attributes = new Map(
    [...variable.attributes].filter(([name]) =>
      !isPackingAttribute(name) && name !== "_Unsigned" && name !== "bounds"
    ),
  );
  const make = (): Uint8Array => {
    const made = dtype === "f64" ? new Float64Array(product(shape)) : new Float32Array(product(shape));
    if (isAxis) made.set(placesOf(axisOf(variable, path), groups.get(variable.name)!));
    else means(column, groups, made);
    return new Uint8Array(made.buffer);
  };
  let kept: WeakRef<Uint8Array> | undefined; // a variable may be a feature and a target
  const values = () => {
    const known = kept?.deref() ?? make();
    kept = new WeakRef(known);
    return known;
  };
  return {
    ...variable,
    ...{ shape, dtype, attributes, packings: undefined },
    read: () => values().slice(),
    rows: () => WHOLE,
  };
}

/** A month's time is its beginning, as in xarray; other places are in the middle of theirs. */
function placesOf(axis: Axis, { starts, by }: Groups): Float64Array {
  const { values, times } = axis;
  return Float64Array.from({ length: starts.length - 1 }, (_, i) => {
    const own = values.subarray(starts[i], starts[i + 1]);
    if (typeof by === "string") {
      const { year, month, day } = times!.decode(own[0])!;
      const midnight = { year, month, hour: 0, minute: 0, second: 0, microsecond: 0 };
      return times!.encode({ ...midnight, day: by === "month" ? 1 : day });
    }
    const around = isLongitude(axis)
      ? (value: number) => value - 360 * Math.round((value - own[0]) / 360)
      : Number;
    return own.reduce((sum, value) => sum + around(value), 0) / own.length;
  });
}

/** Rows are read one by one, so that memory has the means alone. */
function means(
  column: VariableColumn,
  groups: ReadonlyMap<string, Groups>,
  made: Float32Array | Float64Array,
): void {
  const { variable: { shape, dimensions } } = column, [rows, ...map] = shape;
  const cells = map.length === 0 ? Int32Array.of(0) : cellsOf(map, dimensions.slice(1), groups);
  const width = cells.reduce((most, cell) => Math.max(most, cell + 1), 0);
  const along = groups.get(dimensions[0])?.starts ?? Array.from({ length: rows + 1 }, (_, i) => i);
  const sums = new Float64Array(width), counts = new Int32Array(width);
  const row = new Float64Array(cells.length);
  const { read, close } = openDecoded(column, row);
  try {
    for (let i = 0; i + 1 < along.length; i++) {
      sums.fill(0);
      counts.fill(0);
      for (let at = along[i]; at < along[i + 1]; at++) {
        read(at);
        for (let j = 0; j < cells.length; j++) {
          const value = row[j], cell = cells[j];
          if (cell < 0 || value - value !== 0) continue;
          sums[cell] += value;
          counts[cell]++;
        }
      }
      for (let cell = 0; cell < width; cell++) made[i * width + cell] = sums[cell] / counts[cell];
    }
  } finally {
    close();
  }
}

/** The cell of each point of a row; -1 for one that is left out. */
function cellsOf(
  map: readonly number[],
  dimensions: readonly string[],
  groups: ReadonlyMap<string, Groups>,
): Int32Array {
  const places = map.map((size, d) => {
    const starts = groups.get(dimensions[d])?.starts;
    const own = Int32Array.from({ length: size }, (_, i) => starts ? -1 : i);
    starts?.slice(0, -1).forEach((from, i) => own.fill(i, from, starts[i + 1]));
    return { own, count: starts ? starts.length - 1 : size };
  });
  let found = Int32Array.of(0);
  for (const { own, count } of places) {
    const next = new Int32Array(found.length * own.length);
    found.forEach((cell, i) =>
      own.forEach((place, k) => next[i * own.length + k] = cell < 0 || place < 0 ? -1 : cell * count + place)
    );
    found = next;
  }
  return found;
}

/** A row's values, scaled and with NaN where they are missing, come to `row`. */
function openDecoded(column: VariableColumn, row: Float64Array): { read(at: number): void; close(): void } {
  const { name, stream: { raw, rule } } = column, rows: Rows | string = column.rowsAt(1);
  if (typeof rows === "string") {
    const all = typedView(bytesOf(column.read()), column.dtype);
    return {
      read(at) {
        for (let j = 0; j < row.length; j++) row[j] = Number(all[at * row.length + j]);
      },
      close() {},
    };
  }
  const reader = openRows({ name, rows, raw }), rules = rulesOf(rows);
  const bytes = new Uint8Array(row.length * dtypeBytes(raw)), stored = typedView(bytes, raw);
  return {
    read(at) {
      reader.read(at, bytes);
      const own = rules ? rules[reader.partOf?.(at) ?? 0] : rule;
      if (own) applyRule(own, stored, row);
      else for (let j = 0; j < row.length; j++) row[j] = Number(stored[j]);
    },
    close: () => reader.close(),
  };
}
