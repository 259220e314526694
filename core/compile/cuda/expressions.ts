// The instructions of a stage as lines of C: what each op of graph.ts's POINTWISE is.
import { POINTWISE, type Pointwise } from "../graph.ts";
import type { Instruction, StridedAccess } from "../kernel.ts";
import { literal } from "./prelude.ts";

/** Loops go so many elements of a row at once. */
export type Lanes = 1 | 4 | 8;

export interface CudaSources {
  /** The C of what a strided access reads for a lane, and lines that come first. */
  load(from: StridedAccess): { readonly lines: readonly string[]; readonly value: (lane: number) => string };
  reduced(reduction: number): string;
  /** The group writes to this slot. */
  written(slot: number): boolean;
}

const call = (name: string) => (a: string) => `${name}(${a})`;
const between = (sign: string) => (a: string, b: string) => `${a} ${sign} ${b}`;

/** These have no rule of their own. */
type Special = "float" | "and" | "or" | "not" | "where" | "pow";

/** They do with NaN what libtorch does. */
const RULES: Record<Exclude<Pointwise, Special>, (...args: string[]) => string> = {
  neg: (a) => `-${a}`,
  abs: call("fabsf"),
  sign: (a) => `(float)(${a} > 0.0f) - (float)(${a} < 0.0f)`,
  sqrt: call("sqrtf"),
  rsqrt: (a) => `1.0f / sqrtf(${a})`,
  reciprocal: (a) => `1.0f / ${a}`,
  exp: call("expf"),
  expm1: call("expm1f"),
  log: call("logf"),
  log1p: call("log1pf"),
  tanh: call("tanhf"),
  sigmoid: (a) => `__fdividef(1.0f, 1.0f + expf(-${a}))`, // of numbers from 1 on, where it is good to 2 ulp
  erf: call("erff"),
  sin: call("sinf"),
  cos: call("cosf"),
  floor: call("floorf"),
  bf16: call("to_bf16"),
  f16: (a) => `of_f16(as_f16(${a}))`,
  add: between("+"),
  sub: between("-"),
  mul: between("*"),
  div: between("/"),
  tanhBackward: (g, y) => `${g} * fmaf(-${y}, ${y}, 1.0f)`,
  max: (a, b) => `greater(${a}, ${b})`,
  min: (a, b) => `lesser(${a}, ${b})`,
  lt: between("<"),
  le: between("<="),
  gt: between(">"),
  ge: between(">="),
  eq: between("=="),
  ne: between("!="),
};

const TRUTHS = new Set(["lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"]);

interface Operand {
  /** It differs from lane to lane. */
  readonly varies: boolean;
  /** It is the same for all elements, and may be computed before the loop. */
  readonly fixed: boolean;
  readonly truth: boolean;
  readonly of: (lane: number) => string;
}

/** Gives the lines of all instructions, and the value of each. */
export class CudaExpressions {
  readonly lines: string[] = [];
  /** They can stand before the loop. */
  readonly fixed: string[] = [];
  readonly #operands: Operand[] = [];

  constructor(
    readonly instructions: readonly Instruction[],
    readonly sources: CudaSources,
    readonly lanes: Lanes,
    /** Names begin with it. */
    readonly prefix: string,
  ) {
    instructions.forEach((instruction, i) => this.#operands.push(this.#operand(instruction, i)));
  }

  /** As a number: a truth value counts 1. */
  number(index: number, lane: number): string {
    const { of, truth } = this.#operands[index];
    return truth ? `(${of(lane)} ? 1.0f : 0.0f)` : of(lane);
  }
  #truth(index: number, lane: number): string {
    const { of, truth } = this.#operands[index];
    return truth ? of(lane) : `(${of(lane)} != 0.0f)`;
  }

  #operand(instruction: Instruction, i: number): Operand {
    if ("from" in instruction) {
      const { kind, strides } = instruction.from;
      const { lines, value } = this.sources.load(instruction.from);
      this.lines.push(...lines);
      const fixed = strides.every((stride) => stride === 0) && !this.sources.written(instruction.from.slot);
      return this.#named(i, { varies: strides.at(-1) !== 0, fixed, truth: kind === "bool" }, value);
    }
    if ("value" in instruction) {
      return { varies: false, fixed: true, truth: false, of: () => literal(instruction.value) };
    }
    if ("reduction" in instruction) {
      return {
        varies: false,
        fixed: false,
        truth: false,
        of: () => this.sources.reduced(instruction.reduction),
      };
    }
    const { op, args } = instruction;
    const truth = TRUTHS.has(op) ||
      op === "where" && this.#operands[args[1]].truth && this.#operands[args[2]].truth;
    const varies = args.some((arg) => this.#operands[arg].varies);
    const fixed = args.every((arg) => this.#operands[arg].fixed);
    return this.#named(i, { varies, fixed, truth }, (lane) => this.#made(op, args, lane));
  }

  /** A variable for each lane, or one for all. */
  #named(
    i: number,
    { varies, fixed, truth }: Omit<Operand, "of">,
    value: (lane: number) => string,
  ): Operand {
    const type = truth ? "bool" : "float";
    const name = (lane: number) =>
      varies && this.lanes > 1 ? `${this.prefix}${i}_${lane}` : `${this.prefix}${i}`;
    for (let lane = 0; lane < (varies ? this.lanes : 1); lane++) {
      (fixed ? this.fixed : this.lines).push(`const ${type} ${name(lane)} = ${value(lane)};`);
    }
    return { varies, fixed, truth, of: name };
  }

  #made(op: string, args: readonly number[], lane: number): string {
    const wanted = op === "fma" ? 3 : POINTWISE[op as Pointwise];
    if (wanted === undefined || wanted !== args.length) {
      throw new Error(`internal: a kernel asks for ${op} of ${args.length} values.`);
    }
    const number = (i: number) => this.number(args[i], lane),
      truth = (i: number) => this.#truth(args[i], lane);
    switch (op) {
      case "float":
        return number(0);
      case "fma":
        return `fmaf(${number(0)}, ${number(1)}, ${number(2)})`;
      case "and":
        return `${truth(0)} && ${truth(1)}`;
      case "or":
        return `${truth(0)} || ${truth(1)}`;
      case "not":
        return `!${truth(0)}`;
      case "where": {
        const [, a, b] = args.map((arg) => this.#operands[arg]);
        const both = a.truth && b.truth;
        return `${truth(0)} ? ${both ? a.of(lane) : number(1)} : ${both ? b.of(lane) : number(2)}`;
      }
      case "pow":
        return this.#power(number(0), args[1], lane);
    }
    return RULES[op as keyof typeof RULES](...args.map((_, i) => number(i)));
  }

  /** libtorch takes these powers the short way, too. */
  #power(a: string, exponent: number, lane: number): string {
    const by = this.instructions[exponent];
    switch ("value" in by ? by.value : null) {
      case 0.5:
        return `sqrtf(${a})`;
      case 1:
        return a;
      case 2:
        return `${a} * ${a}`;
      case 3:
        return `${a} * ${a} * ${a}`;
      case -0.5:
        return `1.0f / sqrtf(${a})`;
      case -1:
        return `1.0f / ${a}`;
      case -2:
        return `1.0f / (${a} * ${a})`;
      default:
        return `powf(${a}, ${this.number(exponent, lane)})`;
    }
  }
}
