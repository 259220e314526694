// The straight-line vector code of a block: steps whose operands are numbers of earlier steps. allocation.ts gives
// them registers.
import type { Isa } from "../kernel.ts";
import type { Memory } from "./encodings.ts";
import { bitsOf, type Printer } from "./printer.ts";

/** A vector: the index of its step. */
export type Value = number;

export type StepOp =
  | "add"
  | "sub"
  | "mul"
  | "div"
  | "min"
  | "max"
  | "and"
  /** Not a, and b. */
  | "andn"
  | "or"
  | "xor"
  | "addInt"
  | "subInt"
  /** a * 2^b, AVX-512. */
  | "scale"
  | "sqrt"
  | "round"
  | "toInt"
  | "toFloat"
  | "shiftLeft"
  | "shiftRight"
  | "shiftRightSigned"
  /** a * b + c and c - a * b, rounded once. */
  | "fma"
  | "fnma"
  | "compare"
  /** Lanes of the second where the first has all bits, else of the third. */
  | "select"
  /** A vector that lies in memory already: a constant, a sum of an earlier stage. */
  | "home"
  /** A vector that a register has already; it is free again when nobody wants it any more. */
  | "held"
  | "load"
  | "store"
  /** Into a register that stays: an accumulator. */
  | "accumulate"
  | "call";

export interface Step {
  readonly op: StepOp;
  readonly args: readonly Value[];
  readonly imm?: number;
  readonly home?: Memory;
  readonly held?: number;
  /** The number of an access, which the loops know how to address. */
  readonly access?: number;
  readonly pinned?: { readonly op: "add" | "max" | "or"; readonly register: number };
  readonly symbol?: string;
}

/** Immediate numbers of vcmpps. */
export const COMPARE = {
  lt: 0x11,
  le: 0x12,
  gt: 0x1e,
  ge: 0x1d,
  eq: 0x00,
  ne: 0x04,
  unordered: 0x03,
} as const;

/** Immediate numbers of vroundps: to the nearest even, and down. */
const NEAREST = 8, DOWN = 9;

export class Steps {
  readonly list: Step[] = [];
  readonly #known = new Map<string, Value>();

  constructor(readonly printer: Pick<Printer, "isa" | "repeated">) {}

  get isa(): Isa {
    return this.printer.isa;
  }

  add(step: Step): Value {
    return this.list.push(step) - 1;
  }
  /** A step without effects: a second one of the same is the first. */
  pure(op: StepOp, args: readonly Value[], imm?: number): Value {
    const key = `${op} ${args.join()} ${imm}`;
    let value = this.#known.get(key);
    if (value === undefined) this.#known.set(key, value = this.add({ op, args, imm }));
    return value;
  }

  home(home: Memory): Value {
    const key = `home ${home.base} ${home.disp}`;
    let value = this.#known.get(key);
    if (value === undefined) this.#known.set(key, value = this.add({ op: "home", args: [], home }));
    return value;
  }
  number(value: number): Value {
    return this.bits(bitsOf(value));
  }
  bits(bits: number): Value {
    return this.home(this.printer.repeated(bits));
  }

  plus = (a: Value, b: Value): Value => this.pure("add", [a, b]);
  minus = (a: Value, b: Value): Value => this.pure("sub", [a, b]);
  times = (a: Value, b: Value): Value => this.pure("mul", [a, b]);
  over = (a: Value, b: Value): Value => this.pure("div", [a, b]);
  /** The lesser or greater; b where one is NaN. */
  lesser = (a: Value, b: Value): Value => this.pure("min", [a, b]);
  greater = (a: Value, b: Value): Value => this.pure("max", [a, b]);
  and = (a: Value, b: Value): Value => this.pure("and", [a, b]);
  butNot = (a: Value, not: Value): Value => this.pure("andn", [not, a]);
  or = (a: Value, b: Value): Value => this.pure("or", [a, b]);
  xor = (a: Value, b: Value): Value => this.pure("xor", [a, b]);
  sqrt = (a: Value): Value => this.pure("sqrt", [a]);
  nearest = (a: Value): Value => this.pure("round", [a], NEAREST);
  floor = (a: Value): Value => this.pure("round", [a], DOWN);
  /** a * b + c, rounded once. */
  fma = (a: Value, b: Value, c: Value): Value => this.pure("fma", [a, b, c]);
  /** c - a * b, rounded once. */
  fnma = (a: Value, b: Value, c: Value): Value => this.pure("fnma", [a, b, c]);
  compare = (how: keyof typeof COMPARE, a: Value, b: Value): Value =>
    this.pure("compare", [a, b], COMPARE[how]);
  select = (truth: Value, a: Value, b: Value): Value => this.pure("select", [truth, a, b]);
  call = (symbol: string, ...args: Value[]): Value => this.add({ op: "call", args, symbol });
}
