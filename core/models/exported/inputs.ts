// The data's columns to the inputs of an exported program: by name, or in their order. A batch has one tensor of
// features, in which the columns lie side by side; each input takes its own out of it. May import ffi, core/errors, config
// (suggest), model (types), graph (types).
import { isFloating } from "../../../ffi/dtype.ts";
import { cat, contiguous, narrow, reshape } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { didYouMean } from "../../config/suggest.ts";
import { UserError } from "../../errors.ts";
import type { Facts, InputColumn } from "../model.ts";
import { fit, sizesText } from "./check.ts";
import type { UserInput } from "./signature.ts";

/** What --inputs says: the names of columns, by the input's name. */
export type Asked = ReadonlyMap<string, readonly string[]>;

/** Stands for what is predicted, in place of a column of features. */
export const TARGETS = "targets";

/** "x=temp,salinity,mask=mask" as a list: a column without an input belongs to the input before it. */
export function readAsked(path: string, list: readonly string[]): Asked {
  const found = new Map<string, string[]>();
  let columns: string[] | undefined;
  for (const item of list) {
    const at = item.indexOf("=");
    if (at > 0) {
      const name = item.slice(0, at).trim();
      if (found.has(name)) throw new UserError("usage", `--inputs names the input ${name} of ${path} twice.`);
      found.set(name, columns = []);
    }
    if (!columns) {
      throw new UserError(
        "usage",
        `--inputs begins with "${item}": say which input takes which columns, as in --inputs x=temp,salinity,mask=mask.`,
      );
    }
    const column = item.slice(at > 0 ? at + 1 : 0).trim();
    if (column !== "") columns.push(column);
  }
  return found;
}

export const asksFor = (asked: Asked, { name, label }: UserInput): readonly string[] | undefined =>
  asked.get(label) ?? asked.get(name);

/** From a batch's features to what the graph takes, in its order. */
export type Unpack = (features: Tensor) => Tensor[];

/** Whether the one input takes all of the features, so that no columns have to be told apart. */
export const takesAll = (inputs: readonly UserInput[], asked: Asked, { input }: Facts): boolean =>
  inputs.length === 1 && (!input.columns || (asked.size === 0 && !input.flat));

/** Null where the one input takes all of it as it is. */
export function unpackFor(
  path: string,
  inputs: readonly UserInput[],
  asked: Asked,
  target: UserInput | null,
  facts: Facts,
): Unpack | null {
  const { input } = facts;
  refuseUnknown(path, asked, target ? [...inputs, target] : inputs);
  const { columns } = input;
  if (takesAll(inputs, asked, facts)) return reshaped(inputs[0], input.shape);
  if (!columns) {
    throw new UserError(
      "data",
      `${path}: forward takes ${inputs.length} tensors (${
        labels(inputs)
      }), and this data has one field of features. ` +
        "Data of several fields is an .npz, .csv, NetCDF or HDF5 file; or export a module that takes one tensor apart.",
    );
  }
  const taken = inputs.map((named) => columnsOf(path, named, inputs, asked, columns));
  const places = placesOf(columns, input.shape, input.flat === true);
  const takes = inputs.map((named, i) => take(path, named, taken[i].map((at) => places[at])));
  return (features) => takes.map((one) => one(features));
}

/** Data's samples may have a dimension of 1 that the graph's have not, and the other way round. */
function reshaped({ meta }: UserInput, shape: readonly number[]): Unpack | null {
  const fitted = fit(shape, meta.sizes.slice(1));
  if (!fitted || fitted.length === shape.length) return null;
  return (x) => [reshape(x, [x.shape[0], ...fitted])];
}

const labels = (inputs: readonly UserInput[]) => inputs.map(({ label }) => label).join(", ");

function refuseUnknown(path: string, asked: Asked, inputs: readonly UserInput[]): void {
  const names = inputs.flatMap(({ name, label }) => [name, label]);
  for (const name of asked.keys()) {
    if (names.includes(name)) continue;
    throw new UserError(
      "usage",
      `${path} has no input "${name}" (--inputs).${didYouMean(name, names)} It takes ${labels(inputs)}.`,
    );
  }
}

/** As --inputs says; else the column of its name; else, where there are as many, the one of its place. */
function columnsOf(
  path: string,
  input: UserInput,
  inputs: readonly UserInput[],
  asked: Asked,
  columns: readonly InputColumn[],
): number[] {
  const names = columns.map(({ name }) => name);
  const wanted = asksFor(asked, input);
  if (wanted) return wanted.map((name) => indexOf(path, input, name, names));
  const own = [input.label, input.name].map((name) => names.indexOf(name)).find((at) => at >= 0);
  if (own !== undefined) return [own];
  const none = asked.size === 0 &&
    inputs.every(({ label, name }) => !names.includes(label) && !names.includes(name));
  if (none && inputs.length === columns.length) return [inputs.indexOf(input)];
  if (inputs.length === 1) {
    throw new UserError(
      "data",
      `${path}: its input ${input.label} takes one tensor, and the data's columns have different shapes (${
        columns.map(said).join(", ")
      }): choose with --features, or with --inputs ${input.label}=...`,
    );
  }
  throw new UserError(
    "data",
    `${path}: the data lacks its input ${input.label}: the columns are ${names.join(", ")}. ` +
      `Say which it takes: --inputs ${input.label}=COLUMN,...`,
  );
}

const said = ({ name, shape }: InputColumn) => `${name} ${sizesText(shape)}`;

function indexOf(path: string, input: UserInput, name: string, names: readonly string[]): number {
  const at = names.indexOf(name);
  if (at >= 0) return at;
  throw new UserError(
    "data",
    `${path}: its input ${input.label} is to take "${name}" (--inputs), which is no column of the features.${
      didYouMean(name, names)
    } They are ${names.join(", ")}.`,
  );
}

/** Where a column lies along dimension 1 of the features, and its shape there. */
interface Place {
  readonly column: InputColumn;
  readonly at: number;
  readonly size: number;
  readonly shape: readonly number[];
}

function placesOf(columns: readonly InputColumn[], joined: readonly number[], flat: boolean): Place[] {
  let at = 0;
  return columns.map((column) => {
    const { layout } = column;
    const size = flat ? layout.reduce((product, side) => product * side, 1) : layout[0];
    const place = { column, at, size, shape: flat ? layout : [size, ...joined.slice(1)] };
    at += size;
    return place;
  });
}

function take(path: string, input: UserInput, places: readonly Place[]): (features: Tensor) => Tensor {
  const { label, meta } = input;
  if (places.length === 0) throw new UserError("usage", `--inputs gives ${label} of ${path} no column.`);
  const [first, ...others] = places;
  const odd = others.find(({ shape }) => shape.slice(1).join() !== first.shape.slice(1).join());
  if (odd) {
    throw new UserError(
      "data",
      `${path}: its input ${label} can't take ${said(first.column)} and ${
        said(odd.column)
      } together: their shapes ` +
        "don't go side by side.",
    );
  }
  const shape = [places.reduce((sum, place) => sum + place.shape[0], 0), ...first.shape.slice(1)];
  const sizes = meta.sizes.slice(1);
  const fitted = fit(shape, sizes);
  if (!fitted) {
    throw new UserError(
      "usage",
      `${path}: its input ${label} takes samples of shape ${sizesText(sizes)}, and ${
        places.map(({ column }) => said(column)).join(" with ")
      } is given: choose other columns with --inputs, or export the model for these.`,
    );
  }
  const fraction = places.find(({ column }) => !column.whole);
  if (meta.dtype && !isFloating(meta.dtype) && fraction) {
    throw new UserError(
      "usage",
      `${path}: its input ${label} is whole numbers (${meta.dtype}), and the column ${fraction.column.name} is floating: ` +
        "choose another with --inputs, or store it as whole numbers.",
    );
  }
  const part = (x: Tensor, { at, size, shape }: Place) =>
    reshape(contiguous(narrow(x, 1, at, size)), [x.shape[0], ...shape]);
  return (x) => {
    const parts = places.map((place) => part(x, place));
    return reshape(parts.length === 1 ? parts[0] : cat(parts, 1), [x.shape[0], ...fitted]);
  };
}
