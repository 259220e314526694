// A grid says where samples and their targets lie: named dimensions, coordinates and attributes, as CF has
// them. Predictions are put back there.
import type { DType } from "../../../ffi/dtype.ts";
import { product, typedView, type VariableValues } from "./numbers.ts";
import type { Variable } from "./table.ts";

export interface Dimension {
  readonly name: string;
  readonly size: number;
}

type About = Pick<Variable, "name" | "dimensions" | "shape" | "attributes">;

export interface GridTarget extends About {
  /** The type that the data has it in; null where the data has no such variable. */
  readonly dtype: DType | null;
}

export interface GridCoordinate extends About {
  /** A coordinate is its dimension's own; auxiliary ones are named by the targets' attribute `coordinates`. */
  readonly role: "coordinate" | "auxiliary" | "bounds" | "mapping";
  readonly dtype: DType;
  /** As stored, row-major. */
  readonly values: VariableValues;
}

/**
 * Its values are what the attributes make of those that are stored: NaN where one is missing.
 * @internal
 */
export interface GridVariable {
  readonly name: string;
  readonly dimensions: readonly string[];
  readonly shape: readonly number[];
  readonly values: ArrayLike<number>;
}

/** @internal */
export interface Grid {
  /** The first one is the samples', unless each point of the grid is a sample. */
  readonly dimensions: readonly Dimension[];
  readonly pointwise: boolean;
  /** A sample's targets are so many steps after its own place; [0] but in forecasts. */
  readonly leads: readonly number[];
  readonly targets: readonly GridTarget[];
  readonly coordinates: readonly GridCoordinate[];
}

/** Their values are read here. Null where a dimension has no name. */
export function gridOf(
  variables: readonly Variable[],
  targets: readonly GridTarget[],
  { pointwise, leads }: Pick<Grid, "pointwise" | "leads">,
): Grid | null {
  const sizes = new Map<string, number>();
  for (const { dimensions, shape } of targets) dimensions.forEach((name, i) => sizes.set(name, shape[i]));
  const named = [...sizes.keys()].every((name) => !/^size \d+$/.test(name));
  const [first] = targets[0]?.dimensions ?? [];
  if (!named || first === undefined || targets.some(({ dimensions }) => dimensions[0] !== first)) return null;
  return withoutGroups({
    dimensions: [...sizes].map(([name, size]) => ({ name, size })),
    ...{ pointwise, leads, targets },
    coordinates: describing(variables, targets, sizes),
  });
}

/** Names lose their groups, which a classic file does not have, unless two would then be one. */
function withoutGroups(grid: Grid): Grid {
  const { dimensions, targets, coordinates } = grid;
  const all = new Set([...dimensions, ...targets, ...coordinates].map(({ name }) => name));
  const last = (name: string) => name.slice(name.lastIndexOf("/") + 1);
  const alone = new Set([...all].map(last)).size === all.size;
  const plain = (name: string) => alone ? last(name) : name.replaceAll("/", "_");
  const renamed = <T extends About>(one: T): T => ({
    ...one,
    name: plain(one.name),
    dimensions: one.dimensions.map(plain),
  });
  return {
    ...grid,
    dimensions: dimensions.map(({ name, size }) => ({ name: plain(name), size })),
    targets: targets.map(renamed),
    coordinates: coordinates.map(renamed),
  };
}

function coordinate(role: GridCoordinate["role"], variable: Variable): GridCoordinate {
  const { name, dimensions, shape, attributes, dtype, unusable, read } = variable;
  // A grid mapping is all attributes, and its one value means nothing.
  return dtype === null || unusable
    ? { role, name, dimensions: [], shape: [], attributes, dtype: "i32", values: new Int32Array(1) }
    : { role, name, dimensions, shape, attributes, dtype, values: typedView(read(), dtype) };
}

/** The coordinates of these dimensions, those that `coordinates` names, their bounds, and grid mappings. */
function describing(
  variables: readonly Variable[],
  targets: readonly About[],
  sizes: ReadonlyMap<string, number>,
): GridCoordinate[] {
  const usable = ({ dtype, unusable, conflict }: Variable) => dtype !== null && !unusable && !conflict;
  const fits = (dimensions: readonly string[]) => dimensions.every((name) => sizes.has(name));
  const listed = (of: readonly About[], attribute: string) =>
    of.flatMap(({ name, attributes }) => {
      const group = name.slice(0, name.lastIndexOf("/") + 1);
      return listOf(attributes, attribute).flatMap((word) =>
        variables.find(({ name }) => name === group + word) ?? variables.find(({ name }) => name === word) ??
          []
      );
    });
  const taken = new Set(targets.map(({ name }) => name));
  const mappings = listed(targets, "grid_mapping").filter(({ shape }) => product(shape) <= 1);
  for (const { name } of mappings) taken.add(name);
  const offered = variables.filter((one) => usable(one) && fits(one.dimensions) && !taken.has(one.name));
  const named = new Set(listed(targets, "coordinates"));
  const own = offered.filter(isOfDimension);
  const others = offered.filter((one) => !own.includes(one) && (named.has(one) || isPlace(one)));
  const bounds = listed([...own, ...others], "bounds")
    .filter((one) => usable(one) && fits(one.dimensions.slice(0, -1)));
  const as = (role: GridCoordinate["role"], some: readonly Variable[]) =>
    [...new Set(some)].map((one) => coordinate(role, one));
  return [
    ...as("coordinate", own),
    ...as("auxiliary", others),
    ...as("bounds", bounds),
    ...as("mapping", mappings),
  ];
}

/** An attribute that lists names, or pairs of "kind: name". */
export function listOf(attributes: Variable["attributes"], name: string): string[] {
  const text = attributes.get(name);
  return typeof text === "string" ? text.split(/[\s:]+/).filter((word) => word !== "") : [];
}

const isOfDimension = ({ name, dimensions }: Variable) => dimensions.length === 1 && dimensions[0] === name;

/** Latitude and longitude of each point, which some files forget to list. */
const isPlace = ({ name, dimensions, attributes }: Variable) =>
  dimensions.length > 0 &&
  (/^(latitude|longitude)$/.test(String(attributes.get("standard_name"))) ||
    /^(|nav_|[ut])(lat|lon|latitude|longitude)$/i.test(name));
