// A table's targets are classes or quantities to a model, at each lead of a forecast.
import { weightsDtype } from "../../settings/precision.ts";
import * as ops from "../../../ffi/ops.ts";
import { type DType, isFloating, opmathType } from "../../../ffi/dtype.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { isOfClasses, isOfNumbers } from "../../settings/losses.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { isCode, isExported } from "../../models/user/file.ts";
import type { Facts } from "../../models/model.ts";
import type { DataRequest } from "../format.ts";
import { answerText } from "../source/source.ts";
import type { Column, Table } from "../arrays/table.ts";
import type { TensorField } from "./tensors.ts";
import { constant, toNumbers } from "../../../ffi/make.ts";

/** Nobody has told the targets. */
export const unknown = ({ values }: TensorField): TargetTensor => ({
  values,
  dtype: opmathType(values.dtype),
  task: "regression",
  outputs: 1,
  answer: "what nobody has told",
});

interface TargetTensor {
  readonly values: Tensor;
  readonly dtype: DType;
  readonly task: Facts["task"];
  readonly outputs: number;
  readonly names?: readonly string[];
  readonly answer: string;
}

/** Models may answer for each position of a text or a series. */
export function lengthsOf(features: readonly Column[], { training, model }: DataRequest): number[] {
  if (!(isExported(model.name) || isCode(model.name))) return [];
  return features.flatMap(({ shape: [, ...sample], dtype, whole }) => {
    const sides = sample.filter((side) => side > 1);
    const text = whole || !isFloating(dtype) || isOfClasses(training.loss);
    const series = sample.length > 1 || text;
    return series && sides.length <= 2 ? sides : []; // either side of a series may be its length
  });
}

/** A single target of whole numbers means classes, unless the loss or the model's outputs mean a quantity. */
export function taskOf(
  table: Table,
  targets: readonly Column[],
  places: ClassShapes,
  target: TensorField,
  { training, model }: DataRequest,
  notes: string[],
): TargetTensor {
  const { loss } = training;
  // A loss of a user's own takes classes where the model gives a score for each.
  const numeric = isOfNumbers(loss) && !(isCode(loss) && model.output_size > 1) || model.output_size === 1;
  const [first] = targets;
  const whole = first.whole || first.text || !/^(f|bf)\d/.test(first.dtype);
  const classes = targets.length === 1 && (first.text || (!numeric && (whole || isOfClasses(loss))))
    ? classTargets(table, first, target, places, training.ignore_index)
    : null;
  if (classes) {
    notes.push(classes.note);
    return {
      ...classes,
      names: first.text?.classes(),
      dtype: "i64",
      answer: answerText(classes.task, classes.outputs, []),
    };
  }
  const outputs = target.values.shape[1];
  const names = outputs === targets.length ? targets.map(({ name }) => name) : undefined;
  if (whole && numeric && targets.length === 1) {
    const why = loss === "auto" ? `model.output_size is ${model.output_size}` : `the loss is ${loss}`;
    notes.push(`Target ${first.name} is whole numbers, taken as a quantity because ${why}`);
  }
  return {
    values: target.values,
    dtype: weightsDtype(training),
    task: "regression",
    outputs,
    names,
    answer: answerText("regression", outputs, target.values.shape.slice(1)),
  };
}

/** Each lead of a target is an output of its own: ice+1, ice+2. */
export function laterOf({ path }: Table, answer: TargetTensor, leads: readonly number[]): TargetTensor {
  if (leads.length === 1 && leads[0] === 0) return answer;
  const { task, outputs, names, answer: text } = answer;
  if (task !== "regression") {
    if (leads.length === 1) return answer;
    throw new UserError(
      "usage",
      `${path}: classes can be forecast at one --lead at a time, not at ${
        leads.join(", ")
      }: give one of them.`,
    );
  }
  return {
    ...answer,
    outputs: outputs * leads.length,
    names: names && leads.flatMap((lead) => names.map((name) => lead === 0 ? name : `${name}+${lead}`)),
    answer: leads.length === 1 ? text : `${text} at each of ${formatPlural(leads.length, "lead")}`,
  };
}

interface ClassTargets {
  readonly values: Tensor;
  readonly task: "classification" | "segmentation";
  readonly outputs: number;
  readonly note: string;
}

const MOST_CLASSES = 1e6;

interface ClassShapes {
  readonly input: readonly number[];
  /** Each position of a series or text may have a class. */
  readonly lengths: readonly number[];
}

/** Null means that the target is no class: several numbers a sample, or fractions. */
function classTargets(
  table: Table,
  column: Column,
  { values }: TensorField,
  { input, lengths }: ClassShapes,
  ignored: number,
): ClassTargets | null {
  const { name } = column, classes = column.text?.classes();
  const [samples, channels, ...map] = values.shape;
  const perPixel = map.length > 0 && channels === 1 && map.join() === input.slice(1).join();
  const perPosition = map.length === 0 && channels > 1 && lengths.includes(channels);
  if (!perPixel && !perPosition && (map.length > 0 || channels > 1)) return null;
  return scope(() => {
    const plain = perPosition ? values : ops.reshape(values, perPixel ? [samples, ...map] : [samples]);
    const numbers = counted(plain, ignored);
    if (numbers === null) return null;
    const least = ops.minValue(numbers).item(), most = ops.maxValue(numbers).item();
    if (least < 0 || most >= MOST_CLASSES) throw outside(table, name, plain, ignored);
    const outputs = classes?.length ?? most + 1;
    const of = perPosition ? ` of each of ${channels} positions` : "";
    const meaning = classes
      ? `text, taken as classes in sorted order: ${shorten(classes)}`
      : `whole numbers, taken as ${outputs} classes${of} (0 to ${most}); for a quantity say --loss mse`;
    return {
      values: ops.toDtype(missingAs(ignored, plain), "i32"),
      task: perPixel || perPosition ? "segmentation" : "classification",
      outputs,
      note: `Target ${name} is ${meaning}`,
    } as const;
  });
}

/** A missing class is the ignored one. */
const missingAs = (ignored: number, values: Tensor): Tensor =>
  isFloating(values.dtype)
    ? ops.maskedFill(values, ops.isnan(values), constant(ignored, values.dtype))
    : values;

/** Bad rows, which nobody sees, and the ignored class become 0. */
function counted(values: Tensor, ignored: number): Tensor | null {
  const { dtype } = values;
  const wide = dtype === "f32" || dtype === "i64"
    ? values
    : ops.toDtype(values, isFloating(dtype) ? opmathType(dtype) : "i64");
  const floating = isFloating(dtype);
  const zero = constant(0, wide.dtype);
  const finite = floating ? ops.maskedFill(wide, ops.logicalNot(ops.isfinite(wide)), zero) : wide;
  if (floating && ops.allTrue(ops.eq(finite, ops.floor(finite))).item() === 0) return null;
  return ops.maskedFill(finite, ops.eq(finite, constant(ignored, wide.dtype)), zero);
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
