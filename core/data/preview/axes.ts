// The coordinates along a map's sides: they show which way is up.
import { isLatitudeUnits, isLongitudeUnits, meansAlong } from "./curvilinear.ts";
import type { PreviewField } from "./preview.ts";

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
export function axesOf(
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
