// The refusal of a step that can't be compiled: thrown inside this folder, a field outside of it.
import type { Reason, Refusal } from "../../ffi/tape.ts";

export class Refused extends Error {
  readonly refusal: Refusal;

  constructor(op: string, reason: Reason) {
    super(sentenceOf({ op, reason }));
    this.refusal = { op, reason };
  }
}

/** The result, or why there is none. */
export function orRefusal<T>(body: () => T): T | Refusal {
  try {
    return body();
  } catch (error) {
    if (error instanceof Refused) return error.refusal;
    throw error;
  }
}

const SENTENCES: Readonly<Record<Reason, (op: string) => string>> = {
  reads: (op) => `${op} hands numbers of a tensor to the program, on which the next step may depend`,
  random: (op) => `${op} draws random numbers`,
  writes: (op) => `${op} writes to a tensor that is more than this step's own`,
  outside: (op) => `${op} takes a tensor whose numbers come from the program itself`,
  mode: (op) => `${op} changes how ops are done`,
  unknown: (op) => `${op} has no rule`,
  arguments: (op) => `${op} has no rule for these arguments`,
  type: (op) => `${op} has numbers of another type than f32`,
  gradient: (op) => `the gradient of ${op} is not known`,
};

/** For people: "dropout draws random numbers". */
export const sentenceOf = ({ op, reason }: Refusal): string => SENTENCES[reason](op);
