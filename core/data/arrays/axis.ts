// Coordinates of dimensions, as numbers: files are ordered by them, and maps are cut by them.
import { UserError } from "../../base/errors.ts";
import { formatDate, isTimeUnits, type TimeCoding, timeCoding } from "./calendar.ts";
import { toColumn } from "./variables.ts";
import type { Variable } from "./table.ts";
import { view } from "./numbers.ts";

export interface Axis {
  readonly name: string;
  readonly path: string;
  readonly values: Float64Array;
  readonly attributes: Variable["attributes"];
  /** Null where the numbers are no times. */
  readonly times: TimeCoding | null;
  /** The numbers were in other units: it brings a number of those into these. */
  readonly rebase: ((value: number) => number) | null;
}

export function axisOf(variable: Variable, path: string): Axis {
  const { name, attributes } = variable;
  return {
    name,
    path,
    values: numbersOf(variable),
    attributes,
    times: timesOf(attributes, name, path),
    rebase: null,
  };
}

export function numbersOf(variable: Variable): Float64Array {
  const { dtype, read } = toColumn(variable, false);
  const { buffer, byteOffset, byteLength } = read();
  const stored = view(new Uint8Array(buffer, byteOffset, byteLength), dtype);
  return Float64Array.from(stored as ArrayLike<number>, Number);
}

function timesOf(attributes: Variable["attributes"], name: string, path: string): TimeCoding | null {
  const units = attributes.get("units"), calendar = attributes.get("calendar");
  if (typeof units !== "string" || !isTimeUnits(units)) return null;
  const times = timeCoding(units, typeof calendar === "string" ? calendar : undefined);
  if (typeof times === "string") throw new UserError("data", `${path}: the variable "${name}" ${times}.`);
  return times;
}

/** The same values in another file's units. */
export function rebased(along: Axis, to: Axis, noun: string): Axis {
  const { name, path, times, attributes } = along;
  const units = attributes.get("units") ?? "", wanted = to.attributes.get("units") ?? "";
  if (times?.calendar !== to.times?.calendar || (units !== wanted && !times)) {
    const text = (axis: Axis) => {
      const own = `the units "${axis.attributes.get("units") ?? ""}"`;
      return axis.times ? `${own} in the calendar ${axis.times.calendar}` : own;
    };
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" has ${text(along)}, but in ${to.path} it has ${text(to)}. ` +
        "Files are joined along it, so it must count the same in all: write them again alike, or leave it out.",
    );
  }
  if (units === wanted || !times || !to.times) return along;
  const rebase = (value: number) => {
    const date = times.decode(value);
    return date ? to.times!.encode(date) : NaN;
  };
  return { ...along, values: along.values.map(rebase), times: to.times, attributes: to.attributes, rebase };
}

export function valueText({ times }: Pick<Axis, "times">, value: number): string {
  const date = times?.decode(value);
  return date ? formatDate(date) : numberText(value);
}

/** As short as it tells single precision apart. */
export const numberText = (value: number): string => String(Number(value.toPrecision(8)));
