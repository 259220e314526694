// What a checkpoint knows of the answers that its model gives, where the data at hand can't say. May import ffi,
// checkpoint's values, data's source and models (types).
import { tensor, toDevice } from "../../ffi/make.ts";
import { indexSelect, toDtype } from "../../ffi/ops.ts";
import type { Device, Tensor } from "../../ffi/tensor.ts";
import { field, type Value } from "../checkpoint/value.ts";
import type { Source } from "../data/source.ts";
import { UserError } from "../errors.ts";
import type { Facts } from "../models/model.ts";

export interface Answers {
  readonly task: Facts["task"];
  /** Classes, numbers to predict, or tokens in the vocabulary. */
  readonly outputs: number;
  /** Of the classes, or of the numbers; empty where they have none. */
  readonly names: readonly string[];
}

/** More names than these are no help to anybody. */
const MOST_NAMES = 10_000;

export const answersOf = ({ facts: { task, outputs }, names = [] }: Source): Answers => ({
  task,
  outputs,
  names: names.length > MOST_NAMES ? [] : names,
});

/** Null in a checkpoint that was written before this was, or by another program. */
export function knownAnswers(root: Value): Answers | null {
  const known = field(field(root, "hpctrain"), "answers");
  const task = field(known, "task"), outputs = field(known, "outputs"), names = field(known, "names");
  if (typeof task !== "string" || typeof outputs !== "number") return null;
  return { task: task as Facts["task"], outputs, names: Array.isArray(names) ? names.map(String) : [] };
}

/**
 * From a class's number in the data to the model's, -1 for one that it does not know; null where they are the same. Classes
 * that are texts are numbered in each file by itself.
 */
export function relabelled(data: readonly string[], model: readonly string[]): number[] | null {
  if (data.length === 0 || model.length === 0 || data.join("\n") === model.join("\n")) return null;
  return data.map((name) => model.indexOf(name));
}

/** The same samples with their classes by the model's numbers. */
export function numberedAs(source: Source, { task, names }: Answers): Source {
  const map = task === "classification" ? relabelled(source.names ?? [], names) : null;
  if (map === null) return source;
  const strange = source.names!.filter((_, i) => map[i] < 0);
  if (strange.length > 0) {
    throw new UserError(
      "data",
      `${source.name} has ${strange.length === 1 ? "the class" : "classes"} ${
        shown(strange)
      }, which the run did not have ` +
        `(its classes: ${shown(names)}). Leave those samples out, or use hpctrain predict: it says -1 there.`,
    );
  }
  const numbers = toDtype(tensor(map), "i64");
  return withNumbers(source, numbers);
}

function withNumbers(source: Source, numbers: Tensor): Source {
  const onDevice = (device: Device) => device === "cpu" ? numbers : toDevice(numbers, device);
  return {
    ...source,
    finish: (raw, part) => {
      const { input, target } = source.finish(raw, part);
      return { input, target: indexSelect(onDevice(target.device), 0, target) };
    },
    host: source.host && withNumbers(source.host, numbers),
  };
}

const shown = (names: readonly string[]) =>
  names.slice(0, 10).join(", ") + (names.length > 10 ? `, and ${names.length - 10} more` : "");

/** The same samples for a model of these answers. */
export const answering = (source: Source, { task, outputs }: Answers): Source => ({
  ...source,
  facts: { ...source.facts, task, outputs },
  host: source.host && answering(source.host, { task, outputs, names: [] }),
});
