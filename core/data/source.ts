// Source: what every kind of data looks like to training. May import ffi and the models' facts.
import type { DType } from "../../ffi/dtype.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { Facts } from "../models/model.ts";

export type Ids = readonly number[] | Int32Array;

export interface Field {
  readonly name: string;
  /** Of one sample. */
  readonly shape: readonly number[];
  readonly dtype: DType;
}

export interface Batch {
  readonly input: Tensor;
  readonly target: Tensor;
}

export interface Source {
  readonly name: string;
  readonly length: number;
  readonly input: Field;
  readonly target: Field;
  readonly facts: Facts;
  /** These samples, in this order, on the host; the tensors belong to the caller's scope. Draws no random numbers. */
  batch(ids: Ids): Batch;
  /** One line for the user. */
  describe(): string;
}

export interface SourceParts {
  readonly name: string;
  readonly length: number;
  readonly task: Facts["task"];
  readonly outputs: number;
  /** The fields' names, for messages; "input" and "target" unless told. */
  readonly fields?: readonly [input: string, target: string];
  readonly description: string;
  /** Runs in a scope of its own: only the batch outlives it. */
  batch(ids: Ids): Batch;
}

/** A source from its parts; what a batch of one looks like is the one truth about the fields. */
export function source({ name, length, task, outputs, fields, description, batch }: SourceParts): Source {
  const scoped = (ids: Ids) => scope(() => batch(ids));
  const [input, target] = scope(() => {
    const one = scoped([0]);
    const field = (name: string, t: Tensor): Field => ({ name, shape: t.shape.slice(1), dtype: t.dtype });
    return [field(fields?.[0] ?? "input", one.input), field(fields?.[1] ?? "target", one.target)];
  });
  const facts = { task, input: { shape: input.shape, dtype: input.dtype }, outputs };
  return { name, length, input, target, facts, batch: scoped, describe: () => description };
}
