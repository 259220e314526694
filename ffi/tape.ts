// Ops tell of themselves here while a step is recorded (trace.ts). At other times nothing listens, and an op pays for
// one look at a property.
import type { Schema } from "./schema.ts";
import type { Tensor } from "./tensor.ts";

/** The reason why a step can't be compiled; a sentence is made of it last. */
export type Reason =
  /** The program looks at a tensor's numbers, on which its next ops may depend. */
  | "reads"
  /** It draws random numbers. */
  | "random"
  /** It writes to a parameter, or through another view of a tensor that is used later. */
  | "writes"
  /** Its numbers come from the program, and may be others in the next step. */
  | "outside"
  /** Mixed precision, vmap, a gradient inside of the model. */
  | "mode"
  /** No rule says what this op is made of. */
  | "unknown"
  /** Its rule does not know these arguments. */
  | "arguments"
  /** Numbers of a type other than f32. */
  | "type"
  /** The gradient of this call of libtorch's is not known. */
  | "gradient";

/** An op that keeps a step from being compiled. */
export interface Refusal {
  readonly op: string;
  readonly reason: Reason;
}

export interface Listener {
  op(schema: Schema, args: readonly unknown[], result: unknown): void;
  born(t: Tensor): void;
  /** t is a 0-dim tensor of this number, in every step. */
  number(t: Tensor, value: number): void;
  /** t has the same numbers in every step, though no op made them. */
  constant(t: Tensor): void;
  refuse(op: string, reason: Reason): void;
  /** The generator was seeded for this block of the model, in every step. */
  seeds(block: number): void;
  /** The model's next block begins. */
  entered(block: number): void;
  /** `made` has the value of `of`, gradients included, though autograd knows nothing of it. */
  same(of: Tensor, made: Tensor): void;
}

/** It is done in place of an op. `given` are the arguments of the call, of which the last ones may be missing. */
export type Instead = (
  schema: Schema,
  run: (...args: unknown[]) => unknown,
  given: readonly unknown[],
) => unknown;

/** By the names of ops that drop numbers; dropping.ts sets it for a while. */
export const dropping: { instead: ReadonlyMap<string, Instead> | null } = { instead: null };
/** Its ops, whatever is done with them. */
export const DROPPING: ReadonlySet<string> = new Set([
  "dropout",
  "scaled_dot_product_attention",
  "bernoulli_",
]);

export const tape: { recorder: Listener | null } = { recorder: null };

/** A tensor that stands for another one between two graphs of autograd's. */
export function handedOn(of: Tensor, make: (of: Tensor) => Tensor): Tensor {
  const made = unrecorded(() => make(of));
  tape.recorder?.same(of, made);
  return made;
}

/** The ops of `body` are not told: the caller tells of its result. */
export function unrecorded<R>(body: () => R): R {
  const { recorder } = tape;
  if (recorder === null) return body();
  tape.recorder = null;
  try {
    return body();
  } finally {
    tape.recorder = recorder;
  }
}

// Ops of the program itself among a plan's calls: for what libtorch has no op, as ranks that meet within forward.

/** Takes the schema's arguments, and gives its results in the caller's scope; null for one that is no tensor. */
type HostOp = (...args: readonly unknown[]) => readonly (Tensor | null)[];

/** By the schema's name. Who has the op puts it here. */
export const hostOps = new Map<string, HostOp>();

/** Batch norm over all ranks, before weight and bias: the normalised values, what they were divided by, the samples. */
export const SYNCED_NORM = "synced_norm(Tensor x, int norm) -> (Tensor, Tensor, Tensor)";
export const SYNCED_NORM_BACKWARD =
  "synced_norm_backward(Tensor grad, Tensor normal, Tensor scale, Tensor count, int norm) -> Tensor";
