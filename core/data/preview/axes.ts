// The coordinates along a map's sides: they show which way is up.
import type { VariableValues } from "../arrays/numbers.ts";

export interface MapAxis {
  readonly name: string;
  readonly units?: string;
  /** Null where the dimension has no coordinate. */
  readonly values: Float64Array | null;
}

export interface MapAxes {
  readonly x: MapAxis;
  readonly y: MapAxis;
}

const numbersOf = ({ read, shape }: PreviewField): Float64Array =>
  Float64Array.from(read!(0, shape[0]) as ArrayLike<number>, Number);

/** Null where dimensions have no names. */
export function mapAxesOf(
  fields: readonly PreviewField[],
  { dimensions, shape }: Pick<PreviewField, "dimensions" | "shape">,
): MapAxes | null {
  if (!dimensions || dimensions.length < 2) return null;
  const axis = (name: string, size: number): MapAxis => {
    const own = fields.find((field) =>
      field.name === name && field.shape.length === 1 && field.shape[0] === size
    );
    const values = own?.read && !own.texts ? numbersOf(own) : null;
    const ordered = values?.every((value, i) =>
      i === 0 || (value > values[i - 1]) === (values[1] > values[0])
    );
    return { name, units: own?.units, values: ordered ? values : null };
  };
  const last = dimensions.length - 1, sides = dimensions.slice(-2).join();
  const x = axis(dimensions[last], shape[last]), y = axis(dimensions[last - 1], shape[last - 1]);
  if (x.values || y.values) return { x, y };
  // Each point has its own latitude and longitude: rows and columns have means of them.
  const curved = (is: (units: unknown) => boolean, along: "rows" | "columns", other: MapAxis): MapAxis => {
    const own = fields.find((field) =>
      field.dimensions?.join() === sides && field.shape.length === 2 && is(field.units) && field.read
    );
    const means = own ? meansAlong(numbersOf(own), shape.slice(-2), along) : null;
    return own && means ? { name: own.name, units: own.units, values: means } : other;
  };
  return { x: curved(isLongitudeUnits, "columns", x), y: curved(isLatitudeUnits, "rows", y) };
}

export const rises = (values: Float64Array | null): boolean =>
  values !== null && values.length > 1 && values[1] > values[0];

export interface PreviewField {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly dimensions?: readonly string[];
  readonly units?: string;
  /** The remark says why training cannot use it, or uses it only by name. */
  readonly remark?: string;
  /** The numbers 0, 1, 2, ... stand for these texts. */
  readonly texts?: readonly string[];
  /** Missing values are NaN; null means no numbers. */
  readonly read: ((first: number, count: number) => VariableValues) | null;
}

const LATITUDE = /^degrees?_?n(orth)?$/i, LONGITUDE = /^degrees?_?e(ast)?$/i;

export const isLatitudeUnits = (units: unknown): boolean => typeof units === "string" && LATITUDE.test(units);
export const isLongitudeUnits = (units: unknown): boolean =>
  typeof units === "string" && LONGITUDE.test(units);

/** The mean of each row or column, where these rise or fall all the way: then they show which way is up. */
export function meansAlong(
  values: ArrayLike<number>,
  [height, width]: readonly number[],
  along: "rows" | "columns",
): Float64Array | null {
  const count = along === "rows" ? height : width;
  const sums = new Float64Array(count), known = new Uint32Array(count);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      if (!Number.isFinite(values[i])) continue;
      const at = along === "rows" ? y : x;
      sums[at] += values[i];
      known[at]++;
    }
  }
  const means = sums.map((sum, i) => sum / known[i]);
  const rises = means[count - 1] > means[0];
  return count > 1 && means.every((mean, i) => i === 0 || (rises ? mean > means[i - 1] : mean < means[i - 1]))
    ? means
    : null;
}
