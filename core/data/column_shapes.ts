// How columns of different shapes go together in one sample. May import errors, columns (types).
import { UserError } from "../errors.ts";
import type { Column, Table } from "./columns.ts";

/** A number a sample is a row of one; a map is an image of one channel. */
export function channelLayout(shape: readonly number[]): readonly number[] {
  const [samples, ...rest] = shape;
  return rest.length === 0 ? [samples, 1] : rest.length === 2 ? [samples, 1, ...rest] : shape;
}

/** Images as most libraries keep them have their channels last: at most four, and far fewer than rows or columns. */
export const channelsAreLast = (shape: readonly number[]): boolean => {
  const [, a, b, c] = shape;
  return shape.length === 4 && c <= 4 && a > 4 && b > 4;
};

export const channelsNote = (name: string, shape: readonly number[]): string =>
  `${name} of shape [${shape.join(", ")}] is taken for images with channels last`;

/** As it is taken: with its channels first. */
export const layoutOf = ({ shape }: Pick<Column, "shape">): readonly number[] =>
  channelsAreLast(shape) ? [shape[0], shape[3], shape[1], shape[2]] : channelLayout(shape);

/** The first column that does not go together with the ones before it, if any. */
const odd = (layouts: readonly (readonly number[])[]): number =>
  layouts.findIndex((shape) => shape.slice(2).join() !== layouts[0].slice(2).join());

export const goTogether = (columns: readonly Column[]): boolean => odd(columns.map(layoutOf)) < 0;

/** Of one sample: numbers after numbers, or maps as channels; with `flat` whatever there is as plain numbers. */
export function joinedShape(table: Table, columns: readonly Column[], flat = false): number[] {
  const layouts = columns.map(layoutOf);
  if (flat) {
    return [
      layouts.reduce((sum, [, ...shape]) => sum + shape.reduce((product, side) => product * side, 1), 0),
    ];
  }
  const [, , ...rest] = layouts[0];
  const other = odd(layouts);
  if (other >= 0) throw unlike(table, columns[0], columns[other]);
  return [layouts.reduce((sum, [, channels]) => sum + channels, 0), ...rest];
}

function unlike({ path, noun }: Table, a: Column, b: Column): UserError {
  return new UserError(
    "data",
    `${path}: the ${noun} "${a.name}" has the shape [${a.shape.join(", ")}] and "${b.name}" [${
      b.shape.join(", ")
    }], ` +
      "which don't go together in one sample. Choose some of one shape with --features and --targets.",
  );
}
