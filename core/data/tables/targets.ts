// A table's targets are classes or quantities to a model, at each lead of a forecast.
import { type DType, isFloating } from "../../../ffi/dtype.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { CLASS_LOSSES } from "../../settings/sections/objective.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { isCode, isExported } from "../../models/user/file.ts";
import type { Facts } from "../../models/model.ts";
import type { DataRequest } from "../format.ts";
import { answerText } from "../source/source.ts";
import type { Column, Table } from "../arrays/table.ts";
import { type ClassShapes, classTargets, type Field } from "./tensors.ts";

/** Nobody has told the targets. */
export const unknown = ({ values }: Field): TargetTensor => ({
  values,
  dtype: "f32",
  task: "regression",
  outputs: 1,
  answer: "what nobody has told",
});

export interface TargetTensor {
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
    const text = whole || !isFloating(dtype) || CLASS_LOSSES.includes(training.loss);
    const series = sample.length > 1 || text;
    return series && sides.length <= 2 ? sides : []; // either side of a series may be its length
  });
}

/** A single target of whole numbers means classes, unless the loss or the model's outputs mean a quantity. */
export function taskOf(
  table: Table,
  targets: readonly Column[],
  places: ClassShapes,
  target: Field,
  { training, model }: DataRequest,
  notes: string[],
): TargetTensor {
  const { loss } = training;
  const numeric = !["auto", "graph", "bce", ...CLASS_LOSSES].includes(loss) || model.output_size === 1;
  const [first] = targets;
  const whole = first.whole || first.text || !/^(f|bf)\d/.test(first.dtype);
  const classes = targets.length === 1 && (first.text || (!numeric && (whole || CLASS_LOSSES.includes(loss))))
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
    dtype: "f32",
    task: "regression",
    outputs,
    names,
    answer: answerText("regression", outputs, target.values.shape.slice(1)),
  };
}

/** Each lead of a target is an output of its own: ice+1, ice+2. */
export function laterOf({ path }: Table, answer: TargetTensor, leads: readonly number[]): TargetTensor {
  if (leads.length === 1 && leads[0] === 0) return answer;
  const { task, outputs, names, answer: said } = answer;
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
    answer: leads.length === 1 ? said : `${said} at each of ${formatPlural(leads.length, "lead")}`,
  };
}
