// Weights of the points of a map: the cosine of their latitude, or a variable such as the area of a cell.
import { constantRow } from "../../../ffi/make.ts";
import { UserError } from "../../base/errors.ts";
import type { PointWeights } from "../../models/valid_points.ts";
import type { Grid, GridCoordinate, GridVariable } from "../arrays/grid.ts";
import type { Source } from "./source.ts";

export const isOfLatitude = (weight: string): boolean => /^cos\((lat|latitude)\)$/.test(weight);

/** `wanted` is cos(latitude), or the name of a variable on the dimensions of the targets' maps. */
export function pointWeights(wanted: string, source: Source, dtype: "f32" | "f64" = "f32"): PointWeights {
  const grid = source.grid?.() ?? null;
  const shape = source.facts.task === "segmentation" ? source.target.shape : source.target.shape.slice(1);
  if (!grid || grid.pointwise || shape.length === 0) {
    throw refused(
      `${source.name} has ${
        grid && shape.length === 0 ? "no maps as targets" : "no maps on named dimensions"
      }`,
    );
  }
  const dimensions = grid.targets[0].dimensions.slice(-shape.length);
  const found = isOfLatitude(wanted) ? cosines(latitudeOf(grid, source.name)) : source.variable?.(wanted);
  if (!found) throw refused(`${source.name} has no variable "${wanted}"`);
  const values = spread(found, dimensions, shape, source.name);
  const odd = values.findIndex((value) => value < 0 || value === Infinity);
  if (odd >= 0 || values.every((value) => !(value > 0))) {
    throw refused(
      `${found.name} in ${source.name} is ${
        odd >= 0 ? `${values[odd]} at point ${odd}` : "nowhere above 0"
      }, which is no weight`,
    );
  }
  return weightsOf(values, shape, dtype);
}

const refused = (why: string) =>
  new UserError(
    "data",
    `--loss-weight weighs the points of maps, and ${why}: give cos(latitude) or the name of a variable on the targets' grid, ` +
      "or leave it out.",
  );

function latitudeOf(grid: Grid, name: string): GridCoordinate {
  const isLatitude = ({ name, attributes, role }: GridCoordinate) =>
    role !== "bounds" &&
    (attributes.get("standard_name") === "latitude" ||
      /^degrees?_?(north|N)$/.test(String(attributes.get("units"))) ||
      /^(|nav_|[ut])(lat|latitude)$/i.test(name));
  const found = grid.coordinates.find(isLatitude);
  if (!found) throw refused(`${name} has no latitude`);
  return found;
}

/** Rounding makes no pole negative. */
function cosines({ name, dimensions, shape, attributes, values }: GridCoordinate): GridVariable {
  const degree = /^radian/.test(String(attributes.get("units"))) ? 1 : Math.PI / 180;
  const number = (name: string, otherwise: number) => Number(attributes.get(name)?.[0] ?? otherwise);
  const scale = number("scale_factor", 1), offset = number("add_offset", 0);
  const cosine = (value: number | bigint) => Math.max(0, Math.cos((Number(value) * scale + offset) * degree));
  return { name, dimensions, shape, values: Float64Array.from(values as ArrayLike<number>, cosine) };
}

/** A variable on some of the dimensions is the same along the others; it may have them in any order. */
function spread(
  { name, dimensions, shape, values }: GridVariable,
  onto: readonly string[],
  sizes: readonly number[],
  path: string,
): Float64Array {
  const strides = dimensions.map((_, i) => shape.slice(i + 1).reduce((product, size) => product * size, 1));
  const fits = dimensions.every((dimension, i) => sizes[onto.indexOf(dimension)] === shape[i]);
  if (!fits) {
    throw refused(
      `${name} in ${path} is on (${dimensions.join(", ")}) of [${shape.join(", ")}] and the maps are on (${
        onto.join(", ")
      }) of [${sizes.join(", ")}]`,
    );
  }
  const steps = onto.map((dimension) => strides[dimensions.indexOf(dimension)] ?? 0);
  const made = new Float64Array(sizes.reduce((product, size) => product * size, 1));
  for (let i = 0; i < made.length; i++) {
    let at = 0;
    for (let d = sizes.length - 1, rest = i; d >= 0; rest = Math.floor(rest / sizes[d--])) {
      at += rest % sizes[d] * steps[d];
    }
    made[i] = values[at];
  }
  return made;
}

/** Their mean is 1; a missing one is 0. */
function weightsOf(values: Float64Array, shape: readonly number[], dtype: "f32" | "f64"): PointWeights {
  const known = values.map((value) => Number.isNaN(value) ? 0 : value);
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  return { on: constantRow(Array.from(known, (value) => value / mean), dtype, shape) };
}
