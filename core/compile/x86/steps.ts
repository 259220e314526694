// The straight-line vector code of a block: steps whose operands are numbers of earlier steps. allocation.ts gives
// them registers.
import type { Isa } from "../../../ffi/machine.ts";
import type { MemoryOperand } from "./encodings.ts";
import { bitsOf, type Printer } from "./printer.ts";

/** A vector: the index of its step. */
export type VectorValue = number;

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

export interface VectorStep {
  readonly op: StepOp;
  readonly args: readonly VectorValue[];
  readonly imm?: number;
  readonly home?: MemoryOperand;
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

export class VectorSteps {
  readonly list: VectorStep[] = [];
  readonly #known = new Map<string, VectorValue>();

  constructor(readonly printer: Pick<Printer, "isa" | "repeated">) {}

  get isa(): Isa {
    return this.printer.isa;
  }

  add(step: VectorStep): VectorValue {
    return this.list.push(step) - 1;
  }
  /** A step without effects: a second one of the same is the first. */
  pure(op: StepOp, args: readonly VectorValue[], imm?: number): VectorValue {
    const key = `${op} ${args.join()} ${imm}`;
    let value = this.#known.get(key);
    if (value === undefined) this.#known.set(key, value = this.add({ op, args, imm }));
    return value;
  }

  home(home: MemoryOperand): VectorValue {
    const key = `home ${home.base} ${home.disp}`;
    let value = this.#known.get(key);
    if (value === undefined) this.#known.set(key, value = this.add({ op: "home", args: [], home }));
    return value;
  }
  number(value: number): VectorValue {
    return this.bits(bitsOf(value));
  }
  bits(bits: number): VectorValue {
    return this.home(this.printer.repeated(bits));
  }

  plus = (a: VectorValue, b: VectorValue): VectorValue => this.pure("add", [a, b]);
  minus = (a: VectorValue, b: VectorValue): VectorValue => this.pure("sub", [a, b]);
  times = (a: VectorValue, b: VectorValue): VectorValue => this.pure("mul", [a, b]);
  over = (a: VectorValue, b: VectorValue): VectorValue => this.pure("div", [a, b]);
  /** The lesser or greater; b where one is NaN. */
  lesser = (a: VectorValue, b: VectorValue): VectorValue => this.pure("min", [a, b]);
  greater = (a: VectorValue, b: VectorValue): VectorValue => this.pure("max", [a, b]);
  and = (a: VectorValue, b: VectorValue): VectorValue => this.pure("and", [a, b]);
  butNot = (a: VectorValue, not: VectorValue): VectorValue => this.pure("andn", [not, a]);
  or = (a: VectorValue, b: VectorValue): VectorValue => this.pure("or", [a, b]);
  xor = (a: VectorValue, b: VectorValue): VectorValue => this.pure("xor", [a, b]);
  sqrt = (a: VectorValue): VectorValue => this.pure("sqrt", [a]);
  nearest = (a: VectorValue): VectorValue => this.pure("round", [a], NEAREST);
  floor = (a: VectorValue): VectorValue => this.pure("round", [a], DOWN);
  /** a * b + c, rounded once. */
  fma = (a: VectorValue, b: VectorValue, c: VectorValue): VectorValue => this.pure("fma", [a, b, c]);
  /** c - a * b, rounded once. */
  fnma = (a: VectorValue, b: VectorValue, c: VectorValue): VectorValue => this.pure("fnma", [a, b, c]);
  compare = (how: keyof typeof COMPARE, a: VectorValue, b: VectorValue): VectorValue =>
    this.pure("compare", [a, b], COMPARE[how]);
  select = (truth: VectorValue, a: VectorValue, b: VectorValue): VectorValue =>
    this.pure("select", [truth, a, b]);
  call = (symbol: string, ...args: VectorValue[]): VectorValue => this.add({ op: "call", args, symbol });
}
