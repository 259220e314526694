// Expressions, and the values that names stand for. A call goes through the tokens of its function, with its arguments as
// variables.
import { computed } from "./arithmetic.ts";
import { Declarations, type Function } from "./declarations.ts";
import {
  hasEffect,
  Instructions,
  known,
  knownAs,
  type Memory,
  type Plain,
  type Value,
} from "./instructions.ts";
import {
  bytesOf,
  commonType,
  isFloating,
  isPointer,
  isScalar,
  kindOf,
  REGISTERS,
  type Scalar,
  type Type,
} from "./types.ts";

/** The counter of a loop that is written out: an assignment changes what is known. */
interface Counter {
  readonly type: Scalar;
  value: Plain;
}
/** An array of a thread's own: each element is a variable, and an index is known. */
interface Elements {
  readonly elements: readonly Value[];
}
export type Operand = Value | Memory | Counter | Elements;

export interface Scope {
  readonly names: Map<string, Operand>;
  readonly outer: Scope | null;
}

const SPECIAL: Readonly<Record<string, string>> = {
  ...{ threadIdx: "tid", blockIdx: "ctaid", blockDim: "ntid", gridDim: "nctaid" },
};
/** Signs with two sides, the weakest first. */
const LEVELS = [
  ...[["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", "<=", ">", ">="], ["<<", ">>"], ["+", "-"]],
  ["*", "/", "%"],
];

export const isMemory = (one: Operand): one is Memory => "address" in one;
export const isCounter = (one: Operand): one is Counter => "value" in one;
export const isElements = (one: Operand): one is Elements => "elements" in one;

export abstract class Expressions extends Declarations {
  protected code = new Instructions(() => this.wrong());
  protected scope: Scope = { names: new Map(), outer: null };
  /** A template's name, and the operation that it stands for. */
  #operation: readonly [string, string] | null = null;
  /** Calls within each other. */
  protected depth = 0;
  protected returned: Value | null = null;
  protected result: Type | null = null;
  /** Registers that change. */
  protected variables = new Set<string>();

  /** Statements to the brace that closes them. */
  protected abstract block(): void;

  // Names.

  /** They are known while `write` writes. */
  protected within<T>(outer: Scope | null, write: () => T): T {
    const before = this.scope;
    this.scope = { names: new Map(), outer };
    const result = write();
    this.scope = before;
    return result;
  }

  // Values.

  protected read(operand: Operand): Value {
    if (isElements(operand)) this.wrong();
    return isCounter(operand) ? operand.value : isMemory(operand) ? this.code.load(operand) : operand;
  }
  protected plain(operand: Operand): Plain {
    const value = this.read(operand);
    if ("fields" in value) this.wrong();
    return value;
  }
  protected assign(to: Operand, value: Value): void {
    if (isCounter(to)) {
      const known = this.code.converted(value, to.type) as Plain;
      if (known.known === undefined) this.wrong();
      to.value = known;
      return;
    }
    if (isElements(to)) this.wrong();
    const from = this.code.converted(value, to.type);
    if (isMemory(to)) this.code.store(to, from);
    else this.code.move(to, "fields" in from ? this.code.copied(from) : from);
  }
  #scalar(operand: Operand): Plain & { readonly type: Scalar } {
    const value = this.plain(operand);
    if (!isScalar(value.type)) this.wrong();
    return value as Plain & { readonly type: Scalar };
  }
  protected as = (operand: Operand, type: Scalar): Plain => this.code.as(this.read(operand), type);

  // Expressions.

  protected expression(): Operand {
    const condition = this.#binary(0);
    if (!this.take("?")) return condition;
    const truth = this.as(condition, "bool");
    const a = this.code.apart(() => this.#scalar(this.expression()));
    this.expect(":");
    const b = this.code.apart(() => this.#scalar(this.expression()));
    const both = [a.result.type, b.result.type];
    const type = both[0] === both[1] ? both[0] : commonType(both[0], both[1]);
    return this.code.chosen(truth, type, a, b);
  }

  #binary(level: number): Operand {
    if (level === LEVELS.length) return this.unary();
    let left = this.#binary(level + 1);
    for (;;) {
      const sign = this.tokens[this.at];
      if (!LEVELS[level].includes(sign)) return left;
      this.at++;
      left = sign === "&&" || sign === "||"
        ? this.#shortened(sign, this.as(left, "bool"), level)
        : computed(this.code, sign, this.plain(left), this.plain(this.#binary(level + 1)));
    }
  }
  /** The right side does not happen where the left one says enough. */
  #shortened(sign: "&&" | "||", left: Plain, level: number): Plain {
    const right = this.code.apart(() => this.as(this.#binary(level + 1), "bool"));
    if (!hasEffect(right.lines)) {
      this.code.lines.push(...right.lines);
      return this.code.logical(sign === "&&" ? "and" : "or", left, right.result);
    }
    const enough = { lines: [], result: known(sign === "||", "bool") };
    return sign === "&&"
      ? this.code.chosen(left, "bool", right, enough)
      : this.code.chosen(left, "bool", enough, right);
  }
  protected unary(): Operand {
    if (this.take("-")) {
      const a = this.#scalar(this.unary()), type = commonType(a.type, a.type);
      if (typeof a.known === "number") return known(-a.known, type);
      if (a.known !== undefined) return knownAs(-BigInt(a.known), type);
      return this.code.made(
        type,
        `neg.${isFloating(type) ? kindOf(type).name : `s${8 * bytesOf(type)}`}`,
        a.text,
      );
    }
    if (this.take("!")) return this.code.not(this.as(this.unary(), "bool"));
    if (this.take("~")) {
      const a = this.#scalar(this.unary()), type = commonType(a.type, a.type);
      return this.code.made(type, `not.${REGISTERS[kindOf(type).register]}`, this.code.inRegister(a).text);
    }
    if (this.take("*")) return this.#at0(this.plain(this.unary()));
    if (this.tokens[this.at] === "(") {
      this.at++;
      if (!this.isType()) {
        this.at--;
        return this.#postfix();
      }
      const type = this.type();
      this.expect(")");
      const value = this.plain(this.unary());
      if (type === null) this.wrong();
      // Memory stays what it is.
      if (isPointer(type) && isPointer(value.type)) {
        return { ...value, type: { ...type, space: value.type.space } };
      }
      return this.code.converted(value, type);
    }
    return this.#postfix();
  }
  #at0({ type, text }: Plain): Memory {
    if (!isPointer(type)) this.wrong();
    return { type: type.to, address: text, space: type.space };
  }

  #postfix(): Operand {
    let operand = this.#primary();
    for (;;) {
      if (this.take("[")) {
        const index = this.plain(this.expression());
        this.expect("]");
        if (isElements(operand)) operand = operand.elements[Number(index.known)] ?? this.wrong();
        else operand = this.#at0(computed(this.code, "+", this.plain(operand), index));
      } else if (this.take(".")) {
        const value = this.read(operand), name = this.next();
        if (!("fields" in value)) this.wrong();
        const field = value.type.fields.findIndex((one) => one.name === name);
        operand = value.fields[field] ?? this.wrong();
      } else return operand;
    }
  }

  #primary(): Operand {
    const token = this.next();
    if (token === "(") {
      const value = this.expression();
      this.expect(")");
      return value;
    }
    if (/^[\d.]/.test(token)) return this.#number(token);
    if (token in SPECIAL) {
      this.expect(".");
      return this.code.made("unsigned", "mov.u32", `%${SPECIAL[token]}.${this.next()}`);
    }
    if (token === "true" || token === "false") return known(token === "true", "bool");
    for (let scope: Scope | null = this.scope; scope; scope = scope.outer) {
      const named = scope.names.get(token);
      if (named) return named;
    }
    let name = token;
    if (this.take("::")) name = `${this.#operationNamed(token)}::${this.next()}`;
    const called = this.functions.get(name);
    if (!called) this.wrong();
    let operation: string | null = null;
    if (called.template !== null) {
      this.expect("<");
      operation = this.#operationNamed(this.next());
      this.expect(">");
    }
    this.expect("(");
    const given = this.list(")", () => this.read(this.expression()));
    return this.#called(called, operation, given);
  }
  #operationNamed = (name: string): string => this.#operation?.[0] === name ? this.#operation[1] : name;

  #number(token: string): Plain {
    const [, digits, suffix] = /^(0x[\da-f]+|.*?)([ulf]*)$/i.exec(token)!;
    const whole = /^(0x[\da-f]+|\d+)$/i.test(digits);
    if (!whole) return known(Number(digits), suffix === "f" ? "float" : "double");
    const value = BigInt(digits), long = suffix.includes("ll");
    const signed = !suffix.includes("u") && value < (long ? 1n << 63n : 1n << 31n);
    return known(
      value,
      long ? signed ? "long long" : "unsigned long long" : signed ? "int" : "unsigned",
    );
  }

  #called(
    { result, parameters, body, template }: Function,
    operation: string | null,
    given: readonly Value[],
  ): Value {
    if (given.length !== parameters.length) this.wrong();
    const before = [this.at, this.#operation, this.returned, this.result, this.variables] as const;
    this.variables = new Set(); // a function changes none of its caller's
    const names = new Map(parameters.map(({ name, type, changes }, i) => {
      const value = this.code.converted(given[i], type);
      return [name, changes ? this.variable(value) : value];
    }));
    this.#operation = template === null ? null : [template, operation!];
    this.returned = null;
    this.result = result;
    this.depth++;
    this.at = body;
    this.within(null, () => {
      names.forEach((value, name) => this.scope.names.set(name, value));
      this.block();
    });
    this.depth--;
    const returned = this.returned as Value | null;
    if (result !== null && returned === null) this.wrong();
    [this.at, this.#operation, this.returned, this.result, this.variables] = before;
    return result === null ? known(0n, "int") : this.code.converted(returned!, result);
  }
  protected variable(value: Value): Value {
    const copy = this.code.copied(value);
    this.#registersOf(copy).forEach((register) => this.variables.add(register));
    return copy;
  }
  #registersOf = (value: Value): string[] =>
    "fields" in value ? value.fields.flatMap(this.#registersOf) : [value.text];
}
