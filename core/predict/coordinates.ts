// The data's coordinates and attributes, as a classic NetCDF file can have them.
import type { DType } from "../../ffi/dtype.ts";
import { product, type VariableValues } from "../data/arrays/numbers.ts";
import {
  ARRAYS,
  type AttributeValue,
  type ClassicAttributes,
  type ClassicType,
  type ClassicVariable,
  type NetcdfNumbers,
} from "../data/writers/netcdf.ts";
import type { PredictionColumn } from "./columns.ts";
import type { PredictionAxis } from "./fields.ts";
import { type Grid, type GridCoordinate, type GridTarget, listOf } from "../data/arrays/grid.ts";

export function coordinateVariable(coordinate: GridCoordinate, { coordinates }: Grid): ClassicVariable {
  const { role, name, dimensions, attributes } = coordinate;
  const numbers = converted(coordinate.dtype, coordinate.values);
  const written = new Set(coordinates.map(({ name }) => name));
  const made: Record<string, AttributeValue> = {};
  for (const [key, value] of attributes) {
    // A coordinate has no missing values, and its bounds may be of text.
    if (role === "coordinate" && /^(_FillValue|missing_value)$/.test(key)) continue;
    if (NAMING.test(key) && !listOf(attributes, key).every((name) => written.has(name))) continue;
    const as = attribute(key, value, numbers.type);
    if (as !== null) made[key] = as;
  }
  return { name, type: numbers.type, dimensions, attributes: made, pieces: () => [numbers.values] };
}

/** These attributes name variables, which the file may lack. */
const NAMING =
  /^(bounds|climatology|coordinates|grid_mapping|ancillary_variables|cell_measures|formula_terms)$/;

/** The values at these indices of one dimension; all of them where there is no such dimension. */
export function along(
  { shape, values }: Pick<GridCoordinate, "shape" | "values">,
  axis: number,
  indices: readonly number[],
): VariableValues {
  if (axis < 0) return values;
  const inner = product(shape.slice(axis + 1)), blocks = product(shape.slice(0, axis));
  const found = new Float64Array(blocks * indices.length * inner);
  let at = 0;
  for (let block = 0; block < blocks; block++) {
    for (const index of indices) {
      const from = (block * shape[axis] + index) * inner;
      for (let i = 0; i < inner; i++) found[at++] = Number(values[from + i]);
    }
  }
  return found;
}

const LEAST = -(2 ** 31), MOST = 2 ** 31 - 1;
const SAME = new Set<DType>(["i8", "i16", "i32", "f32", "f64"]);
const WIDER: Partial<Record<DType, ClassicType>> = { bool: "i8", u8: "i16", u16: "i32", f16: "f32" };

/** CDF-2 has no unsigned or 64-bit whole numbers: they become a type that holds them, as xarray does it. */
export function converted(dtype: DType, found: VariableValues): { type: ClassicType; values: NetcdfNumbers } {
  const numbers = found instanceof Float64Array ? found : Float64Array.from(found, Number);
  const whole = () => numbers.every((value) => Number.isInteger(value) && value >= LEAST && value <= MOST);
  const type = SAME.has(dtype) ? dtype as ClassicType : WIDER[dtype] ?? (whole() ? "i32" : "f64");
  const values = new ARRAYS[type](numbers);
  // Times that go on behind the data's may be no whole numbers, or beyond those of the type.
  const holds = /^f/.test(type) || numbers.every((value, i) => values[i] === value);
  return holds ? { type, values } : { type: "f64", values: numbers };
}

const OF_VALUES = /^(_FillValue|missing_value|valid_min|valid_max|valid_range|flag_values|flag_masks)$/;

/** Null where the type can't hold the attribute. */
function attribute(key: string, value: readonly number[] | string, type: ClassicType): AttributeValue | null {
  if (typeof value === "string") return value;
  if (OF_VALUES.test(key)) {
    const made = new ARRAYS[type](value);
    return value.every((one, i) => Object.is(made[i], one) || type === "f32")
      ? { type, values: value }
      : null;
  }
  const whole = value.every((one) => Number.isInteger(one) && one >= LEAST && one <= MOST);
  return { type: whole && !/^(scale_factor|add_offset)$/.test(key) ? "i32" : "f64", values: value };
}

/** These are of the packed values, or name variables that the file does not have. */
const LEFT =
  /^(_FillValue|missing_value|valid_min|valid_max|valid_range|actual_range|scale_factor|add_offset|_Unsigned|flag_.*|ancillary_variables|cell_measures|coordinates|grid_mapping)$/;

/** A target's attributes, for values that are not packed. */
export function kept(
  { attributes, dimensions }: GridTarget,
  { coordinates, dimensions: all }: Grid,
  { type, fill }: { readonly type: ClassicType; readonly fill: number },
): ClassicAttributes {
  const made: Record<string, AttributeValue> = { _FillValue: { type, values: [fill] } };
  for (const [key, value] of attributes) {
    const as = LEFT.test(key) ? null : attribute(key, value, type);
    if (as !== null) made[key] = as;
  }
  const own = new Set(dimensions.length > 0 ? dimensions : all.map(({ name }) => name));
  const places = coordinates.filter(({ role, dimensions }) =>
    role === "auxiliary" && dimensions.every((name) => own.has(name))
  );
  if (places.length > 0) made.coordinates = places.map(({ name }) => name).join(" ");
  const mapping = attributes.get("grid_mapping");
  const mapped = listOf(attributes, "grid_mapping").some((name) =>
    coordinates.some((one) => one.role === "mapping" && one.name === name)
  );
  return typeof mapping === "string" && mapped ? { ...made, grid_mapping: mapping } : made;
}

/** The members of an ensemble, along which a column has its second dimension. */
export const memberAxis = ({ shape: [, members] }: PredictionColumn): PredictionAxis => ({
  name: "member",
  values: Array.from({ length: members }, (_, member) => member),
  attributes: { standard_name: "realization", long_name: "member of the ensemble", units: "1" },
});
