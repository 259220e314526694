// The instructions of a stage as steps: what each op of graph.ts's POINTWISE is made of.
import { POINTWISE, type Pointwise } from "../graph.ts";
import type { Instruction, StridedAccess } from "../kernel.ts";
import * as functions from "./functions.ts";
import type { VectorSteps, VectorValue } from "./steps.ts";

const SIGN = 0x80000000;

/** A truth value has all bits or none. What is read as bool is one; i64 is read as f32, exact up to 2^24. */
interface Operand {
  readonly value: VectorValue;
  readonly truth: boolean;
}

export interface X86Sources {
  load(from: StridedAccess): VectorValue;
  reduced(reduction: number): VectorValue;
  /** The value of an instruction that was computed before the loop; null where it is computed here. */
  known?(instruction: number): VectorValue | null;
}

type Rule = (s: VectorSteps, ...args: VectorValue[]) => VectorValue;

const compared = (how: Parameters<VectorSteps["compare"]>[0]): Rule => (s, a, b) => s.compare(how, a, b);

/** They do with NaN what libtorch does. */
const RULES: Partial<Record<Pointwise, Rule>> = {
  neg: (s, a) => s.xor(a, s.bits(SIGN)),
  abs: (s, a) => s.butNot(a, s.bits(SIGN)),
  sign: (s, a) =>
    s.minus(
      s.and(s.compare("gt", a, s.number(0)), s.number(1)),
      s.and(s.compare("lt", a, s.number(0)), s.number(1)),
    ),
  sqrt: (s, a) => s.sqrt(a),
  rsqrt: (s, a) => s.over(s.number(1), s.sqrt(a)),
  reciprocal: (s, a) => s.over(s.number(1), a),
  floor: (s, a) => s.floor(a),
  bf16: (s, a) => {
    const odd = s.and(s.pure("shiftRight", [a], 16), s.bits(1));
    const up = s.pure("addInt", [s.pure("addInt", [a, s.bits(0x7fff)]), odd]);
    return s.select(s.compare("ne", a, a), a, s.and(up, s.bits(0xffff0000)));
  },
  f16: (s, a) => {
    // Adding a large number leaves as many bits as f16 has of a number of this size.
    const size = s.and(a, s.bits(0x7fffffff)), power = s.and(a, s.bits(0x7f800000));
    const large = s.times(
      s.select(s.compare("lt", power, s.number(2 ** -14)), s.number(2 ** -14), power),
      s.number(1.5 * 2 ** 13),
    );
    const near = s.minus(s.plus(size, large), large);
    const known = s.select(s.compare("ge", size, s.number(65520)), s.number(Infinity), near);
    const signed = s.pure("or", [known, s.and(a, s.bits(SIGN))]);
    return s.select(s.compare("ne", a, a), a, signed);
  },
  add: (s, a, b) => s.plus(a, b),
  sub: (s, a, b) => s.minus(a, b),
  mul: (s, a, b) => s.times(a, b),
  div: (s, a, b) => s.over(a, b),
  tanhBackward: (s, g, y) => s.times(g, s.fma(s.xor(y, s.bits(SIGN)), y, s.number(1))),
  lt: compared("lt"),
  le: compared("le"),
  gt: compared("gt"),
  ge: compared("ge"),
  eq: compared("eq"),
  ne: compared("ne"),
  exp: functions.exp,
  expm1: functions.expm1,
  log: functions.log,
  log1p: functions.log1p,
  tanh: functions.tanh,
  sigmoid: functions.sigmoid,
  erf: functions.erf,
  sin: (s, a) => functions.sleef(s, "sin", a),
  cos: (s, a) => functions.sleef(s, "cos", a),
  pow: (s, a, b) => functions.sleef(s, "pow", a, b),
};

/** Functions that Sleef has under their own name: for `exact`. */
const BY_SLEEF = new Set(["exp", "expm1", "log", "log1p", "tanh", "erf"]);

export const TRUTHS: ReadonlySet<string> = new Set(["lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"]);

/** Gives the value of each instruction. */
export class X86Expressions {
  readonly #operands: Operand[] = [];

  constructor(
    readonly steps: VectorSteps,
    readonly sources: X86Sources,
    readonly exact: boolean,
    readonly instructions: readonly Instruction[],
  ) {
    instructions.forEach((instruction, i) => {
      const value = sources.known?.(i) ?? null;
      this.#operands.push(value === null ? this.#operand(instruction) : { value, truth: false });
    });
  }

  /** As a number: a truth value counts 1. */
  number(index: number): VectorValue {
    const { value, truth } = this.#operands[index];
    return truth ? this.steps.and(value, this.steps.number(1)) : value;
  }
  #truth(index: number): VectorValue {
    const { value, truth } = this.#operands[index];
    return truth ? value : this.steps.compare("ne", value, this.steps.number(0));
  }

  #operand(instruction: Instruction): Operand {
    if ("from" in instruction) {
      return { value: this.sources.load(instruction.from), truth: instruction.from.kind === "bool" };
    }
    if ("value" in instruction) return { value: this.steps.number(instruction.value), truth: false };
    if ("reduction" in instruction) {
      return { value: this.sources.reduced(instruction.reduction), truth: false };
    }
    return { value: this.#made(instruction.op, instruction.args), truth: this.#isTruth(instruction) };
  }
  #isTruth({ op, args }: { readonly op: string; readonly args: readonly number[] }): boolean {
    return TRUTHS.has(op) || op === "where" && this.#operands[args[1]].truth && this.#operands[args[2]].truth;
  }

  #made(op: string, args: readonly number[]): VectorValue {
    const s = this.steps;
    const wanted = op === "fma" ? 3 : POINTWISE[op as Pointwise];
    if (wanted === undefined || wanted !== args.length) {
      throw new Error(`internal: a kernel asks for ${op} of ${args.length} values.`);
    }
    switch (op) {
      case "float":
        return this.number(args[0]);
      case "fma":
        return s.fma(this.number(args[0]), this.number(args[1]), this.number(args[2]));
      case "and":
        return s.and(this.#truth(args[0]), this.#truth(args[1]));
      case "or":
        return s.or(this.#truth(args[0]), this.#truth(args[1]));
      case "not":
        return s.xor(this.#truth(args[0]), s.bits(0xffffffff));
      case "where":
        return this.#where(args);
      case "max":
      case "min":
        return this.#extreme(op, args[0], args[1]);
      case "pow":
        return this.#power(args[0], args[1]);
    }
    const values = args.map((arg) => this.number(arg));
    if (this.exact && BY_SLEEF.has(op)) return functions.sleef(s, op, ...values);
    if (this.exact && op === "sigmoid") {
      const power = functions.sleef(s, "exp", s.minus(s.number(0), values[0]));
      return s.over(s.number(1), s.plus(s.number(1), power));
    }
    return RULES[op as Pointwise]!(s, ...values);
  }

  #where([truth, a, b]: readonly number[]): VectorValue {
    const both = this.#operands[a].truth && this.#operands[b].truth;
    const of = (index: number) => both ? this.#operands[index].value : this.number(index);
    return this.steps.select(this.#truth(truth), of(a), of(b));
  }

  /** NaN where one of the two is. The instruction itself gives its second operand then. */
  #extreme(op: "max" | "min", left: number, right: number): VectorValue {
    const s = this.steps;
    const choose = op === "max" ? s.greater : s.lesser;
    const a = this.number(left), b = this.number(right);
    if (this.#isNumber(left)) return choose(a, b);
    if (this.#isNumber(right)) return choose(b, a);
    return s.or(choose(a, b), s.compare("unordered", a, a));
  }
  #isNumber(index: number): boolean {
    const instruction = this.instructions[index];
    return "value" in instruction && !Number.isNaN(instruction.value);
  }

  /** libtorch takes these powers the short way, too. */
  #power(base: number, exponent: number): VectorValue {
    const s = this.steps, a = this.number(base);
    const by = this.instructions[exponent];
    switch ("value" in by ? by.value : null) {
      case 0.5:
        return s.sqrt(a);
      case 1:
        return a;
      case 2:
        return s.times(a, a);
      case 3:
        return s.times(s.times(a, a), a);
      case -0.5:
        return s.over(s.number(1), s.sqrt(a));
      case -1:
        return s.over(s.number(1), a);
      case -2:
        return s.over(s.number(1), s.times(a, a));
      default:
        return functions.sleef(s, "pow", a, this.number(exponent));
    }
  }
}
