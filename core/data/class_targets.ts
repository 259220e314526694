// Whole numbers in a target -> classes. May import errors, columns (types), ffi.
import { constant, toNumbers } from "../../ffi/make.ts";
import { allTrue, eq, floor, isfinite, logicalNot, maskedFill, maxValue, minValue } from "../../ffi/ops.ts";
import { reshape, toDtype } from "../../ffi/ops.ts";
import { isFloating } from "../../ffi/dtype.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../errors.ts";
import type { Field } from "./column_tensors.ts";
import type { Column, Table } from "./columns.ts";

export interface ClassTargets {
  readonly values: Tensor;
  readonly task: "classification" | "segmentation";
  readonly outputs: number;
  readonly note: string;
}

const MOST_CLASSES = 1e6;

/** What a class may be of, beside a sample. */
export interface Places {
  /** Of one sample's input: its pixels may have classes. */
  readonly input: readonly number[];
  /** Of one sample of a series or a text: its positions may have classes. */
  readonly lengths: readonly number[];
}

/** Null when the target is no class: several numbers a sample, or fractions. */
export function classTargets(
  table: Table,
  column: Column,
  { values }: Field,
  { input, lengths }: Places,
  ignored: number,
): ClassTargets | null {
  const { name } = column, classes = column.text?.classes();
  const [samples, channels, ...map] = values.shape;
  const perPixel = map.length > 0 && channels === 1 && map.join() === input.slice(1).join();
  const perPosition = map.length === 0 && channels > 1 && lengths.includes(channels);
  if (!perPixel && !perPosition && (map.length > 0 || channels > 1)) return null;
  return scope(() => {
    const plain = perPosition ? values : reshape(values, perPixel ? [samples, ...map] : [samples]);
    const numbers = counted(plain, ignored);
    if (numbers === null) return null;
    const least = minValue(numbers).item(), most = maxValue(numbers).item();
    if (least < 0 || most >= MOST_CLASSES) throw outside(table, name, plain, ignored);
    const outputs = classes?.length ?? most + 1;
    const of = perPosition ? ` of each of ${channels} positions` : "";
    const said = classes
      ? `text, taken as classes in sorted order: ${shorten(classes)}`
      : `whole numbers, taken as ${outputs} classes${of} (0 to ${most}); for a quantity say --loss mse`;
    return {
      values: toDtype(plain, "i32"),
      task: perPixel || perPosition ? "segmentation" : "classification",
      outputs,
      note: `Target ${name} is ${said}`,
    } as const;
  });
}

/** With 0 in place of what doesn't count: bad rows, which nobody will see, and the class to ignore. */
function counted(values: Tensor, ignored: number): Tensor | null {
  const { dtype } = values;
  const wide = dtype === "f32" || dtype === "i64"
    ? values
    : toDtype(values, isFloating(dtype) ? "f32" : "i64");
  const floating = isFloating(dtype);
  const zero = constant(0, wide.dtype);
  const finite = floating ? maskedFill(wide, logicalNot(isfinite(wide)), zero) : wide;
  if (floating && allTrue(eq(finite, floor(finite))).item() === 0) return null;
  return maskedFill(finite, eq(finite, constant(ignored, wide.dtype)), zero);
}

function outside({ path, noun }: Table, name: string, values: Tensor, ignored: number): UserError {
  const all = toNumbers(values);
  const at = all.findIndex((value) => value !== ignored && (value < 0 || value >= MOST_CLASSES));
  const sample = Math.floor(at * values.shape[0] / all.length);
  return new UserError(
    "data",
    `${path}: the ${noun} "${name}" is whole numbers, so it is taken as classes, but in sample ${sample} ` +
      `(counted from 0) it is ${all[at]}, and classes are numbered 0 to ${MOST_CLASSES - 1}. ` +
      `If it is a quantity, say --loss mse; if ${
        all[at]
      } stands for "unknown", set training.ignore_index to it.`,
  );
}

function shorten(classes: readonly string[]): string {
  const shown = classes.slice(0, 10).map((text, i) => `${i} = ${text}`).join(", ");
  return classes.length > 10 ? `${shown}, ... (${classes.length} in all)` : shown;
}
