// What chosen columns have to be before any of them is read. May import errors, format, random, columns (types).
import { UserError } from "../errors.ts";
import { formatPlural } from "../format.ts";
import { MOST_POSITIONS } from "../random.ts";
import type { Column, Table } from "./columns.ts";

export function sampleCount({ path, noun }: Table, columns: readonly Column[]): number {
  const flat = columns.find((column) => column.shape.length === 0);
  if (flat) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${flat.name}" is a single number, not one value a sample. ` +
        "Leave it out by naming the others with --features and --targets.",
    );
  }
  const samples = columns[0].shape[0];
  const other = columns.find((column) => column.shape[0] !== samples);
  if (other) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${columns[0].name}" has ${
        formatPlural(samples, "sample")
      }, but "${other.name}" ` +
        `has ${other.shape[0]} (their shapes: ${sizes(columns[0])} and ${sizes(other)}). ` +
        "Choose some of one length with --features and --targets.",
    );
  }
  if (samples === 0 || columns.some((column) => column.shape.includes(0))) {
    throw new UserError("data", `${path} holds no samples: the ${noun} "${columns[0].name}" is empty.`);
  }
  if (samples > MOST_POSITIONS) {
    throw new UserError(
      "data",
      `${path} has ${samples} samples, more than the ${MOST_POSITIONS} that can be put in order.`,
    );
  }
  return samples;
}

export function checkTexts(
  { path, noun }: Table,
  features: readonly Column[],
  targets: readonly Column[],
): void {
  const found = [...features, ...(targets.length > 1 ? targets : [])].find((column) => column.text);
  if (found) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${found.name}" holds text (${
        found.text!.example
      }), and only a single target may: ` +
        "its texts are then classes. Leave it out by naming the others with --features, or put numbers in its place.",
    );
  }
}

const sizes = ({ shape }: Column) => `[${shape.join(", ")}]`;
