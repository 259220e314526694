// The CUDA C that ../cuda/ prints as PTX, for a driver without NVRTC. It is no compiler of C: it knows what is printed, goes
// through the tokens once, and writes each instruction as it comes. A call goes through the function's tokens again, with
// its arguments as variables, and so does each turn of a loop whose turns are known. What differs from C stops it.
import { FUNCTIONS } from "./functions.ts";
import { computed } from "./arithmetic.ts";
import {
  hasEffect,
  Instructions,
  known,
  knownAs,
  type Memory,
  type Plain,
  type Value,
} from "./instructions.ts";
import { tokensOf, UNROLL } from "./tokens.ts";
import {
  bytesOf,
  commonType,
  isFloating,
  isPointer,
  isScalar,
  isStruct,
  kindOf,
  type Pointer,
  REGISTERS,
  type Scalar,
  type Struct,
  type Type,
} from "./types.ts";

/** The oldest GPU and driver that the texts ask for: all of those that libtorch has kernels for. */
const HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n";
/** Loops of so many known turns are written out: those within functions, and those that are marked. */
const MOST_TURNS = 64;

/** The counter of a loop that is written out: an assignment changes what is known. */
interface Counter {
  readonly type: Scalar;
  value: Plain;
}
/** An array of a thread's own: each element is a variable, and an index is known. */
interface Elements {
  readonly elements: readonly Value[];
}
type Operand = Value | Memory | Counter | Elements;

interface Named {
  readonly name: string;
  readonly type: Type;
}
interface Function {
  readonly result: Type | null;
  /** Some are variables of the function's. */
  readonly parameters: readonly (Named & { readonly changes: boolean })[];
  /** The token behind its brace. */
  readonly body: number;
  /** The name that stands for an operation. */
  readonly template: string | null;
}

interface Scope {
  readonly names: Map<string, Operand>;
  readonly outer: Scope | null;
}

const SPECIFIERS = new Set(["static", "__device__", "__forceinline__", "const", "volatile", "__restrict__"]);
const SCALARS = new Set(["void", "bool", "unsigned", "int", "long", "char", "short", "float", "double"]);
const SPECIAL: Readonly<Record<string, string>> = {
  ...{ threadIdx: "tid", blockIdx: "ctaid", blockDim: "ntid", gridDim: "nctaid" },
};
/** Signs with two sides, the weakest first. */
const LEVELS = [
  ...[["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", "<=", ">", ">="], ["<<", ">>"], ["+", "-"]],
  ["*", "/", "%"],
];
const ASSIGNMENT = /^([-+*\/%&|^]|<<|>>)?=$|^(\+\+|--)$/;
const isMemory = (one: Operand): one is Memory => "address" in one;
const isCounter = (one: Operand): one is Counter => "value" in one;
const isElements = (one: Operand): one is Elements => "elements" in one;

/** The same functions, by the same names. */
export const ptxOf = (cuda: string): string => new Compiler(tokensOf(`${FUNCTIONS}\n${cuda}`)).compile();

class Compiler {
  #at = 0;
  readonly #structs = new Map<string, Struct>();
  readonly #functions = new Map<string, Function>();
  readonly #entries: string[] = [];
  #code = new Instructions(() => this.#wrong());
  #scope: Scope = { names: new Map(), outer: null };
  /** A template's name, and the operation that it stands for. */
  #operation: readonly [string, string] | null = null;
  /** Calls within each other. */
  #depth = 0;
  #returned: Value | null = null;
  #result: Type | null = null;
  /** Registers that change. */
  #variables = new Set<string>();

  constructor(readonly tokens: readonly string[]) {}

  compile(): string {
    while (this.#at < this.tokens.length) this.#definition(null);
    return [HEAD, ...this.#entries].join("\n");
  }

  // Tokens.

  #next(): string {
    return this.tokens[this.#at++];
  }
  #take(token: string): boolean {
    if (this.tokens[this.#at] !== token) return false;
    this.#at++;
    return true;
  }
  #expect(token: string): void {
    if (!this.#take(token)) this.#wrong();
  }
  #wrong(): never {
    throw new Error(
      `internal: PTX has nothing for ${this.tokens.slice(this.#at - 5, this.#at + 5).join(" ")}`,
    );
  }
  /** Behind the bracket that closes the one before. */
  #skip(): void {
    for (let depth = 1; depth > 0;) {
      const token = this.#next();
      if (token === undefined) this.#wrong();
      if ("([{".includes(token)) depth++;
      else if (")]}".includes(token)) depth--;
    }
  }
  #list<T>(end: string, item: () => T): T[] {
    const items: T[] = [];
    while (!this.#take(end)) {
      items.push(item());
      if (this.tokens[this.#at] !== end) this.#expect(",");
    }
    return items;
  }

  // Definitions.

  /** `within` is the struct that it is a part of. */
  #definition(within: string | null): void {
    let template: string | null = null, kernel = false, threads = 0;
    if (this.#take("template")) {
      this.#at += 2;
      template = this.#next();
      this.#expect(">");
    }
    if (this.#take("struct")) return this.#struct();
    for (;;) {
      if (this.#take("extern")) this.#at++;
      else if (this.#take("__global__")) kernel = true;
      else if (!this.#specifier()) break;
    }
    const result = this.#type();
    if (this.#take("__launch_bounds__")) {
      threads = Number(this.tokens[this.#at + 1]);
      this.#at += 3;
    }
    const name = this.#next();
    this.#expect("(");
    const parameters: (Named & { readonly written: boolean })[] = this.#list(")", () => {
      const written = this.tokens[this.#at] !== "const", type = this.#type();
      if (type === null) this.#wrong();
      return { type, name: this.#next(), written };
    });
    this.#expect("{");
    if (kernel) return this.#kernel(name, threads, parameters);
    const full = within === null ? name : `${within}::${name}`;
    const body = this.#at;
    this.#skip();
    const changed = new Set<string>();
    for (let at = body; at < this.#at; at++) {
      if (ASSIGNMENT.test(this.tokens[at + 1])) changed.add(this.tokens[at]);
    }
    const changing = parameters.map((one) => ({ ...one, changes: changed.has(one.name) }));
    this.#functions.set(full, { result, parameters: changing, body, template });
  }

  #struct(): void {
    const name = this.#next(), fields: Named[] = [];
    this.#structs.set(name, { fields });
    this.#expect("{");
    while (!this.#take("}")) {
      if (this.tokens[this.#at] === "static") this.#definition(name);
      else {
        const type = this.#type();
        if (type === null) this.#wrong();
        fields.push(...this.#list(";", () => ({ name: this.#next(), type })));
      }
    }
    this.#expect(";");
  }

  #kernel(
    name: string,
    threads: number,
    parameters: readonly (Named & { readonly written: boolean })[],
  ): void {
    this.#code = new Instructions(() => this.#wrong());
    this.#variables = new Set();
    this.#within(null, () => {
      parameters.forEach(({ name: parameter, type }) => {
        const register = this.#code.register("l");
        this.#code.emit(`ld.param.u64 ${register}, [${name}_${parameter}]`);
        this.#code.emit(`cvta.to.global.u64 ${register}, ${register}`);
        this.#scope.names.set(parameter, { type: type as Pointer, text: register });
      });
      this.#block();
    });
    const declared = parameters.map((one, i) =>
      `  .param .u64 ${name}_${one.name}${i < parameters.length - 1 ? "," : ""}${
        one.written ? " // written" : ""
      }\n`
    );
    this.#entries.push(
      [
        `.visible .entry ${name}(\n${declared.join("")})`,
        `.maxntid ${threads}, 1, 1`,
        "{",
        ...this.#code.text(),
        "}\n",
      ].join("\n"),
    );
  }

  // Types.

  #specifier(): boolean {
    if (!SPECIFIERS.has(this.tokens[this.#at])) return false;
    this.#at++;
    return true;
  }
  #isType(): boolean {
    const token = this.tokens[this.#at];
    return token === "const" || SCALARS.has(token) || this.#structs.has(token);
  }
  /** Null is void. */
  #type(): Type | null {
    while (this.#specifier());
    const struct = this.#structs.get(this.tokens[this.#at]);
    let type: Type | null = struct ?? null;
    if (struct) this.#at++;
    else {
      const words: string[] = [];
      while (SCALARS.has(this.tokens[this.#at])) words.push(this.#next());
      if (words.length === 0) this.#wrong();
      type = words[0] === "void" ? null : words.join(" ") as Scalar;
    }
    while (this.#specifier());
    if (!this.#take("*")) return type;
    if (type === null) this.#wrong();
    while (this.#specifier());
    return { to: type, space: "global" };
  }

  // Lines.

  #within<T>(outer: Scope | null, write: () => T): T {
    const before = this.#scope;
    this.#scope = { names: new Map(), outer };
    const result = write();
    this.#scope = before;
    return result;
  }

  // Values.

  #read(operand: Operand): Value {
    if (isElements(operand)) this.#wrong();
    return isCounter(operand) ? operand.value : isMemory(operand) ? this.#code.load(operand) : operand;
  }
  #plain(operand: Operand): Plain {
    const value = this.#read(operand);
    if ("fields" in value) this.#wrong();
    return value;
  }
  #assign(to: Operand, value: Value): void {
    if (isCounter(to)) {
      const known = this.#code.converted(value, to.type) as Plain;
      if (known.known === undefined) this.#wrong();
      to.value = known;
      return;
    }
    if (isElements(to)) this.#wrong();
    const from = this.#code.converted(value, to.type);
    if (isMemory(to)) this.#code.store(to, from);
    else this.#code.move(to, "fields" in from ? this.#code.copied(from) : from);
  }
  #scalar(operand: Operand): Plain & { readonly type: Scalar } {
    const value = this.#plain(operand);
    if (!isScalar(value.type)) this.#wrong();
    return value as Plain & { readonly type: Scalar };
  }
  #as = (operand: Operand, type: Scalar): Plain => this.#code.as(this.#read(operand), type);

  // Expressions.

  #expression(): Operand {
    const condition = this.#binary(0);
    if (!this.#take("?")) return condition;
    const truth = this.#as(condition, "bool");
    const a = this.#code.apart(() => this.#scalar(this.#expression()));
    this.#expect(":");
    const b = this.#code.apart(() => this.#scalar(this.#expression()));
    const both = [a.result.type, b.result.type];
    const type = both[0] === both[1] ? both[0] : commonType(both[0], both[1]);
    return this.#code.chosen(truth, type, a, b);
  }

  #binary(level: number): Operand {
    if (level === LEVELS.length) return this.#unary();
    let left = this.#binary(level + 1);
    for (;;) {
      const sign = this.tokens[this.#at];
      if (!LEVELS[level].includes(sign)) return left;
      this.#at++;
      left = sign === "&&" || sign === "||"
        ? this.#shortened(sign, this.#as(left, "bool"), level)
        : computed(this.#code, sign, this.#plain(left), this.#plain(this.#binary(level + 1)));
    }
  }
  /** The right side does not happen where the left one says enough. */
  #shortened(sign: "&&" | "||", left: Plain, level: number): Plain {
    const right = this.#code.apart(() => this.#as(this.#binary(level + 1), "bool"));
    if (!hasEffect(right.lines)) {
      this.#code.lines.push(...right.lines);
      return this.#code.logical(sign === "&&" ? "and" : "or", left, right.result);
    }
    const enough = { lines: [], result: known(sign === "||", "bool") };
    return sign === "&&"
      ? this.#code.chosen(left, "bool", right, enough)
      : this.#code.chosen(left, "bool", enough, right);
  }
  /**
   * A quotient by a known number as shifts, or as a product: the driver's compiler would compute with a reciprocal, even of a
   * power of 2. Null for 64 bits and no such power.
   */

  #unary(): Operand {
    if (this.#take("-")) {
      const a = this.#scalar(this.#unary()), type = commonType(a.type, a.type);
      if (typeof a.known === "number") return known(-a.known, type);
      if (a.known !== undefined) return knownAs(-BigInt(a.known), type);
      return this.#code.made(
        type,
        `neg.${isFloating(type) ? kindOf(type).name : `s${8 * bytesOf(type)}`}`,
        a.text,
      );
    }
    if (this.#take("!")) return this.#code.not(this.#as(this.#unary(), "bool"));
    if (this.#take("~")) {
      const a = this.#scalar(this.#unary()), type = commonType(a.type, a.type);
      return this.#code.made(type, `not.${REGISTERS[kindOf(type).register]}`, this.#code.inRegister(a).text);
    }
    if (this.#take("*")) return this.#at0(this.#plain(this.#unary()));
    if (this.tokens[this.#at] === "(") {
      this.#at++;
      if (!this.#isType()) {
        this.#at--;
        return this.#postfix();
      }
      const type = this.#type();
      this.#expect(")");
      const value = this.#plain(this.#unary());
      if (type === null) this.#wrong();
      // Memory stays what it is.
      if (isPointer(type) && isPointer(value.type)) {
        return { ...value, type: { ...type, space: value.type.space } };
      }
      return this.#code.converted(value, type);
    }
    return this.#postfix();
  }
  #at0({ type, text }: Plain): Memory {
    if (!isPointer(type)) this.#wrong();
    return { type: type.to, address: text, space: type.space };
  }

  #postfix(): Operand {
    let operand = this.#primary();
    for (;;) {
      if (this.#take("[")) {
        const index = this.#plain(this.#expression());
        this.#expect("]");
        if (isElements(operand)) operand = operand.elements[Number(index.known)] ?? this.#wrong();
        else operand = this.#at0(computed(this.#code, "+", this.#plain(operand), index));
      } else if (this.#take(".")) {
        const value = this.#read(operand), name = this.#next();
        if (!("fields" in value)) this.#wrong();
        const field = value.type.fields.findIndex((one) => one.name === name);
        operand = value.fields[field] ?? this.#wrong();
      } else return operand;
    }
  }

  #primary(): Operand {
    const token = this.#next();
    if (token === "(") {
      const value = this.#expression();
      this.#expect(")");
      return value;
    }
    if (/^[\d.]/.test(token)) return this.#number(token);
    if (token in SPECIAL) {
      this.#expect(".");
      return this.#code.made("unsigned", "mov.u32", `%${SPECIAL[token]}.${this.#next()}`);
    }
    if (token === "true" || token === "false") return known(token === "true", "bool");
    for (let scope: Scope | null = this.#scope; scope; scope = scope.outer) {
      const named = scope.names.get(token);
      if (named) return named;
    }
    let name = token;
    if (this.#take("::")) name = `${this.#operationNamed(token)}::${this.#next()}`;
    const called = this.#functions.get(name);
    if (!called) this.#wrong();
    let operation: string | null = null;
    if (called.template !== null) {
      this.#expect("<");
      operation = this.#operationNamed(this.#next());
      this.#expect(">");
    }
    this.#expect("(");
    const given = this.#list(")", () => this.#read(this.#expression()));
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
    if (given.length !== parameters.length) this.#wrong();
    const before = [this.#at, this.#operation, this.#returned, this.#result, this.#variables] as const;
    this.#variables = new Set(); // a function changes none of its caller's
    const names = new Map(parameters.map(({ name, type, changes }, i) => {
      const value = this.#code.converted(given[i], type);
      return [name, changes ? this.#variable(value) : value];
    }));
    this.#operation = template === null ? null : [template, operation!];
    this.#returned = null;
    this.#result = result;
    this.#depth++;
    this.#at = body;
    this.#within(null, () => {
      names.forEach((value, name) => this.#scope.names.set(name, value));
      this.#block();
    });
    this.#depth--;
    const returned = this.#returned as Value | null;
    if (result !== null && returned === null) this.#wrong();
    [this.#at, this.#operation, this.#returned, this.#result, this.#variables] = before;
    return result === null ? known(0n, "int") : this.#code.converted(returned!, result);
  }

  // Statements.

  /** To the brace that closes it. */
  #block(): void {
    while (!this.#take("}")) {
      if (this.#returned) this.#wrong(); // a function returns at its end
      this.#statement();
    }
  }

  #statement(): void {
    const token = this.tokens[this.#at];
    if (this.#take("{")) return this.#within(this.#scope, () => this.#block());
    if (this.#take("if")) return this.#if();
    const unrolled = this.#take(UNROLL);
    if (this.#take("for")) return this.#within(this.#scope, () => this.#for(unrolled || this.#depth > 0));
    if (this.#take("asm")) return this.#assembly();
    if (this.#take("return")) return this.#return();
    if (token === "__shared__" || this.#isType()) this.#declaration();
    else this.#assignment();
    this.#expect(";");
  }

  #if(): void {
    this.#expect("(");
    const truth = this.#code.inRegister(this.#as(this.#expression(), "bool")), other = this.#code.label();
    this.#expect(")");
    this.#code.emit(`@!${truth.text} bra ${other}`);
    this.#inner();
    if (this.#take("else")) {
      const end = this.#code.label();
      this.#code.emit(`bra ${end}`);
      this.#code.bind(other);
      this.#inner();
      this.#code.bind(end);
    } else this.#code.bind(other);
  }
  /** A statement that may not happen. */
  #inner(): void {
    this.#within(this.#scope, () => this.#statement());
    if (this.#returned) this.#wrong();
  }

  #for(known: boolean): void {
    this.#expect("(");
    const [counter] = this.#declaration(known);
    this.#expect(";");
    const condition = this.#at;
    while (!this.#take(";")) this.#at++;
    const step = this.#at;
    this.#skip();
    const body = this.#at;
    const truth = (): Plain => {
      this.#at = condition;
      const value = this.#as(this.#expression(), "bool");
      this.#expect(";");
      return value;
    };
    const next = (): void => {
      this.#at = step;
      this.#assignment();
      this.#expect(")");
    };
    const turns = this.#turns(counter, truth, next);
    if (turns !== null) {
      for (let turn = 0; turn < turns; turn++) {
        this.#at = body;
        this.#inner();
        const behind = this.#at;
        next();
        this.#at = behind;
      }
      return;
    }
    const begin = this.#code.label(), end = this.#code.label();
    this.#code.emit(`@!${this.#code.inRegister(truth()).text} bra ${end}`);
    this.#code.bind(begin);
    this.#at = body;
    this.#inner();
    const behind = this.#at;
    next();
    this.#code.emit(`@${this.#code.inRegister(truth()).text} bra ${begin}`);
    this.#code.bind(end);
    this.#at = behind;
  }
  /** How many turns a loop has, if that is known and few; else its counter is a variable from here on. */
  #turns(name: string, truth: () => Plain, next: () => void): number | null {
    const counter = this.#scope.names.get(name)!;
    if (!isCounter(counter)) return null;
    const first = counter.value;
    const { result } = this.#code.apart(() => {
      for (let turns = 0; turns <= MOST_TURNS; turns++) {
        const { known } = truth();
        if (known === undefined) return null;
        if (!known) return turns;
        next();
      }
      return null;
    });
    counter.value = first;
    if (!result) this.#scope.names.set(name, this.#variable(first));
    return result || null;
  }

  /** Its names. A counter is known until it is not. */
  #declaration(counts = false): string[] {
    if (this.#take("__shared__")) return [this.#shared()];
    const constant = this.tokens[this.#at] === "const", type = this.#type();
    if (type === null) this.#wrong();
    const names: string[] = [];
    do {
      const name = this.#next();
      names.push(name);
      if (this.#take("[")) {
        const count = Number(this.#next());
        this.#scope.names.set(name, { elements: Array.from({ length: count }, () => this.#empty(type)) });
        this.#expect("]");
        continue;
      }
      const value = this.#take("=") ? this.#initial(type) : null;
      if (value === null) this.#scope.names.set(name, this.#empty(type));
      else if (counts && isScalar(type) && "known" in value) this.#scope.names.set(name, { type, value });
      else this.#scope.names.set(name, constant ? this.#constant(value) : this.#variable(value));
    } while (this.#take(","));
    return names;
  }
  #shared(): string {
    const type = this.#type(), name = this.#next();
    this.#expect("[");
    const count = this.#next();
    this.#expect("]");
    if (type === null) this.#wrong();
    const place = `${name}${this.#code.labels++}`;
    this.#code.emit(`.shared .align ${bytesOf(type)} .${kindOf(type).memory} ${place}[${count}]`);
    const pointer: Pointer = { to: type, space: "shared" };
    this.#scope.names.set(name, this.#code.made(pointer, "mov.u64", place));
    return name;
  }
  #initial(type: Type): Value {
    if (!this.#take("{")) return this.#code.converted(this.#read(this.#expression()), type);
    if (!isStruct(type)) this.#wrong();
    let field = 0;
    const fields = this.#list(
      "}",
      () => this.#code.converted(this.#read(this.#expression()), type.fields[field++].type),
    );
    if (fields.length !== type.fields.length) this.#wrong();
    return { type, fields };
  }
  #empty(type: Type): Value {
    if (isStruct(type)) return { type, fields: type.fields.map((field) => this.#empty(field.type)) };
    const value = this.#code.fresh(type);
    this.#variables.add(value.text);
    return value;
  }
  #variable(value: Value): Value {
    const copy = this.#code.copied(value);
    this.#registersOf(copy).forEach((register) => this.#variables.add(register));
    return copy;
  }
  #registersOf = (value: Value): string[] =>
    "fields" in value ? value.fields.flatMap(this.#registersOf) : [value.text];
  /** A variable may change later. */
  #constant = (value: Value): Value =>
    "fields" in value || this.#variables.has(value.text) ? this.#code.copied(value) : value;

  #assignment(): void {
    const place = this.#unary(), sign = this.#takeAssignment();
    if (sign === null) return; // a call
    if (isElements(place)) this.#wrong();
    if (sign === "=") return this.#assign(place, this.#initial(place.type));
    const by = sign === "++" || sign === "--" ? known(1n, "int") : this.#plain(this.#expression());
    this.#assign(place, computed(this.#code, sign.slice(0, -1), this.#plain(place), by));
  }
  #takeAssignment(): string | null {
    const token = this.tokens[this.#at];
    if (!ASSIGNMENT.test(token)) return null;
    this.#at++;
    return token;
  }

  #return(): void {
    if (this.#take(";")) {
      if (this.#depth > 0) this.#wrong();
      return this.#code.emit("ret");
    }
    this.#returned = this.#initial(this.#result ?? this.#wrong());
    this.#expect(";");
  }

  /** Its text is an instruction already. Registers of 16 bits are there alone. */
  #assembly(): void {
    this.#take("volatile");
    this.#expect("(");
    const text = this.#next().slice(1, -1), places: string[] = [], after: (() => void)[] = [];
    const each = (one: (letter: string, value: Operand) => void): void => {
      while (this.tokens[this.#at].startsWith('"')) {
        const letter = this.#next().replace(/[="]/g, "");
        this.#expect("(");
        one(letter, this.#expression());
        this.#expect(")");
        this.#take(",");
      }
    };
    if (this.#take(":")) {
      each((letter, to) => {
        if (isMemory(to) || isCounter(to) || isElements(to) || "fields" in to) this.#wrong();
        if (letter !== "h") return places.push(to.text);
        const half = this.#code.register("h");
        places.push(half);
        after.push(() => this.#code.emit(`cvt.u32.u16 ${to.text}, ${half}`));
      });
    }
    if (this.#take(":")) {
      each((letter, from) => {
        const { text } = this.#code.inRegister(this.#plain(from));
        if (letter !== "h") return places.push(text);
        const half = this.#code.register("h");
        places.push(half);
        this.#code.emit(`cvt.u16.u32 ${half}, ${text}`);
      });
    }
    this.#expect(")");
    this.#expect(";");
    this.#code.lines.push(text.replace(/%(\d)/g, (_, i) => places[Number(i)] ?? this.#wrong()));
    after.forEach((write) => write());
  }
}
