// Some of the numbers that packed samples have as their target, by name. May import config's suggestions, errors,
// source, its siblings, ffi.
import { tensor, toDevice } from "../../../ffi/make.ts";
import { indexSelect } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { didYouMean } from "../../config/suggest.ts";
import { UserError } from "../../errors.ts";
import type { Source } from "../source.ts";
import type { Schema } from "./format.ts";

/** Which of the stored numbers are wanted; null for all as they are. */
export function chosenTargets(
  folder: string,
  { task, target, names = [] }: Schema,
  wanted: readonly string[],
  notes: string[],
): readonly number[] | null {
  if (wanted.length === 0 || wanted.join() === names.join()) return null;
  if (task !== "regression" || target.shape.join() !== String(names.length)) {
    // The settings it was packed with may be used on: they chose the target then.
    notes.push(`No effect: data.targets, as the target in ${folder} is no list of numbers with names`);
    return null;
  }
  return wanted.map((name) => {
    const column = names.indexOf(name);
    if (column >= 0) return column;
    throw new UserError(
      "usage",
      `${folder} has no target "${name}".${didYouMean(name, names)} It has ${names.join(", ")}.`,
    );
  });
}

/** The same source with these of its target's numbers, in this order. */
export function withTargets(source: Source, columns: readonly number[]): Source {
  const { names = [], target, facts, reference, units } = source;
  const chosen = columns.map((column) => names[column]);
  return {
    ...source,
    names: chosen,
    units: units && { mean: columns.map((i) => units.mean[i]), std: columns.map((i) => units.std[i]) },
    reference: reference && columns.map((column) => reference[column]),
    describe: () => `${source.describe()}; of these: ${chosen.join(", ")}`,
    target: { ...target, shape: [columns.length] },
    facts: { ...facts, outputs: columns.length },
    finish: (raw, part) =>
      scope(() => {
        const { input, target } = source.finish(raw, part);
        const index = toDevice(tensor(Int32Array.from(columns)), target.device);
        return { input, target: indexSelect(target, 1, index) };
      }),
  };
}
