// A model as the ops of libtorch that its forward calls, for other programs to run. It is recorded for two and for three samples:
// sizes that differ between the two follow the batch.
import type { DType } from "../../ffi/dtype.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { zeros } from "../../ffi/make.ts";
import type { Schema } from "../../ffi/schema.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { record, type RecordedValue, type Recording, Seen } from "../../ffi/trace.ts";
import { UserError } from "../base/errors.ts";
import { type Facts, forward, type Model } from "../models/model.ts";

/** A size, or so many times the number of samples. */
export type RecordedSize = number | Batches;

export class Batches {
  constructor(readonly times: number) {}
}

export type RecordedArgument =
  | number
  | string
  | boolean
  | null
  | Batches
  | ProgramValue
  | readonly RecordedArgument[];

/** A result of an op, or a tensor from outside. */
export class ProgramValue {
  constructor(
    readonly id: number,
    readonly shape: readonly RecordedSize[],
    readonly dtype: DType,
    /** A tensor that is the same for every input: a weight, or a constant. */
    readonly tensor: Tensor | null,
    /** A number without dimensions. */
    readonly number: number | null,
    /** The weight's name in the state dict; null of others. */
    readonly weight: string | null,
  ) {}
}

export interface Op {
  readonly schema: Schema;
  /** The schema's name without the mark of writing in place: each value is written once. */
  readonly name: string;
  readonly args: readonly RecordedArgument[];
  readonly results: readonly ProgramValue[];
}

export interface RecordedModel {
  readonly ops: readonly Op[];
  readonly input: ProgramValue;
  readonly output: ProgramValue;
}

/** `use` may read the values' tensors, which are given back behind it. */
export function recordModel<R>(
  model: Model,
  { input: { shape, dtype } }: Pick<Facts, "input">,
  use: (recorded: RecordedModel) => R,
): R {
  model.root.train(false);
  return scope(() => {
    const given = (samples: number) => zeros([samples, ...shape], { dtype });
    // Constants that a first run makes, such as those of a scaling, are there before, and so come from outside.
    scope(() => noGrad(() => forward(model, given(1))));
    const [two, three] = SAMPLES.map((samples) => recorded(model, given(samples)));
    try {
      return use(merged(model, two, three));
    } finally {
      two.recording.free();
      three.recording.free();
    }
  });
}

const SAMPLES = [2, 3] as const;

interface One {
  readonly recording: Recording;
  readonly input: number;
  readonly output: number;
}

function recorded(model: Model, input: Tensor): One {
  const { result, recording } = record(() => forward(model, input));
  const { refusal } = recording;
  if (refusal) throw unknown(model, `${refusal.op} can't be followed (${refusal.reason})`);
  const [first, ...others] = Array.isArray(result) ? result : [result];
  if (others.length > 0) throw unknown(model, "it answers with several tensors");
  return { recording, input: recording.valueOf(input)!, output: recording.valueOf(first as Tensor)! };
}

const unknown = (model: Model, why: string): UserError =>
  new UserError(
    "usage",
    `The model ${model.name} can't be written as a program: ${why}. Write its weights to OUT.pt or OUT.safetensors.`,
  );

function merged(model: Model, two: One, three: One): RecordedModel {
  const fail = (why: string): never => {
    throw unknown(model, why);
  };
  const [a, b] = [two.recording, three.recording];
  if (a.ops.length !== b.ops.length || a.values.length !== b.values.length) {
    fail("it calls other ops for other numbers of samples");
  }
  const size = (x: number, y: number, where: string): RecordedSize => {
    if (x === y) return x;
    const times = x / SAMPLES[0];
    if (Number.isInteger(times) && y === times * SAMPLES[1]) return new Batches(times);
    return fail(`a size of ${where} follows the number of samples in a way that has no form here`);
  };
  const names = new Map(
    model.root.stateDict().flatMap(([name, t]) => {
      const value = a.valueOf(t);
      return value === null ? [] : [[value, name]];
    }),
  );
  const valueOf = (own: RecordedValue, other: RecordedValue, id: number): ProgramValue => {
    const shape = own.shape.map((n, i) => size(n, other.shape[i], "a result"));
    const fixed = shape.every((n) => typeof n === "number") ? own.tensor : null;
    const isInput = id === two.input;
    return new ProgramValue(
      id,
      shape,
      own.dtype,
      isInput ? null : fixed,
      own.from === "number" ? own.number : null,
      names.get(id) ?? null,
    );
  };
  const values = a.values.map((own, id) => valueOf(own, b.values[id], id));
  const argument = (x: unknown, y: unknown, op: string): RecordedArgument => {
    if (x instanceof Seen) return values[x.value];
    if (Array.isArray(x)) return x.map((each, i) => argument(each, (y as unknown[])[i], op));
    if (typeof x === "number") return Object.is(x, y) ? x : size(x, y as number, op);
    return x as string | boolean | null;
  };
  const ops = a.ops.map(({ schema, args, results }, i): Op => ({
    schema,
    name: schema.name.replace(/_$/, ""),
    args: args.map((arg, k) => argument(arg, b.ops[i].args[k], schema.name)),
    results: results.map((id) => values[id]),
  }));
  const made = new Set(ops.flatMap(({ results }) => results));
  for (const { args, schema } of ops) {
    for (const value of args.flat(2)) {
      if (!(value instanceof ProgramValue) || made.has(value) || value.tensor || value.number !== null) {
        continue;
      }
      if (value.id !== two.input) fail(`${schema.name} takes a tensor of the batch's size from elsewhere`);
    }
  }
  return { ops: ops.filter(isNeeded), input: values[two.input], output: values[two.output] };
}

/** Results that are the same for every input are written as constants. */
const isNeeded = ({ results }: Op): boolean => results.some(({ tensor }) => tensor === null);
