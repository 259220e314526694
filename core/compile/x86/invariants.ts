// Finds what is the same for a whole row: it is computed once for it, before the loop over its vectors.
import type { Instruction, Stage } from "../kernel.ts";
import { TRUTHS } from "./expressions.ts";

/** Instructions that take longer than reading a number does. */
const SLOW: ReadonlySet<string> = new Set([
  ...["div", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "pow"],
]);

/** The last instructions of chains that are the same for a whole row and that something slow is part of. */
export function rowInvariants({ instructions, stores, reductions }: Stage): number[] {
  const same: boolean[] = [], slow: boolean[] = [];
  instructions.forEach((one, i) => {
    const args = argsOf(one);
    same[i] = "from" in one ? one.from.strides.at(-1) === 0 : args.every((arg) => same[arg]);
    slow[i] = args.length > 0 && (SLOW.has(one.op) || args.some((arg) => same[arg] && slow[arg]));
  });
  const wanted = new Set([...stores, ...reductions].map(({ value }) => value));
  instructions.forEach((one, i) => {
    if (!same[i]) { for (const arg of argsOf(one)) wanted.add(arg); }
  });
  // A truth value is not a number that memory holds.
  const isNumber = ({ op }: Instruction) => !TRUTHS.has(op) && op !== "where";
  return [...wanted].filter((i) => same[i] && slow[i] && isNumber(instructions[i]));
}

const argsOf = (one: Instruction): readonly number[] => "args" in one ? one.args : [];
