// What a checkpoint knows of the answers that its model gives, where the data at hand can't say. May import checkpoint's
// values, data's source and models (types).
import { field, type Value } from "../checkpoint/value.ts";
import type { Source } from "../data/source.ts";
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

/** The same samples for a model of these answers. */
export const answering = (source: Source, { task, outputs }: Answers): Source => ({
  ...source,
  facts: { ...source.facts, task, outputs },
  host: source.host && answering(source.host, { task, outputs, names: [] }),
});
