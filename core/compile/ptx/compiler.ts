// The CUDA C that ../cuda/ prints as PTX, for a driver without NVRTC. It is no compiler of C: it knows what is printed, goes
// through the tokens once, and writes each instruction as it comes. A call goes through the function's tokens again, with
// its arguments as variables, and so does each turn of a loop whose turns are known. What differs from C stops it.
import { FUNCTIONS } from "./functions.ts";
import { tokensOf, UNROLL } from "./tokens.ts";
import {
  bytesOf,
  commonType,
  immediate,
  isFloating,
  isPointer,
  isScalar,
  isSigned,
  isStruct,
  kindOf,
  type Pointer,
  type Register,
  REGISTERS,
  type Scalar,
  type Space,
  type Struct,
  type Type,
  wrapped,
} from "./types.ts";

/** The oldest GPU and driver that the texts ask for: all of those that libtorch has kernels for. */
const HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n";
/** Loops of so many known turns are written out: those within functions, and those that are marked. */
const MOST_TURNS = 64;

/** In a register, or known. */
interface Plain {
  readonly type: Scalar | Pointer;
  readonly text: string;
  readonly known?: number | bigint | boolean;
}
interface Fields {
  readonly type: Struct;
  readonly fields: readonly Value[];
}
type Value = Plain | Fields;
interface Memory {
  readonly type: Type;
  readonly address: string;
  readonly space: Space;
}
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
const COMPARED: Readonly<Record<string, string>> = {
  ...{ "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge" },
};
/** T is the type of the numbers, B that of their bits. */
const OF_FLOATING: Readonly<Record<string, string>> = {
  ...{ "+": "add.rn.T", "-": "sub.rn.T", "*": "mul.rn.T", "/": "div.rn.T" },
};
const OF_WHOLE: Readonly<Record<string, string>> = {
  ...{ "+": "add.T", "-": "sub.T", "*": "mul.lo.T", "/": "div.T", "%": "rem.T" },
  ...{ "&": "and.B", "|": "or.B", "^": "xor.B", "<<": "shl.B", ">>": "shr.T" },
};
const ASSIGNMENT = /^([-+*\/%&|^]|<<|>>)?=$|^\+\+$/;
/** These instructions may not happen where C does not do what they do. */
const EFFECT = /\b(ld|st|bar|shfl|bra)\b/;

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
  #lines: string[] = [];
  #counts: Record<Register, number> = { p: 0, r: 0, l: 0, f: 0, d: 0, h: 0 };
  #labels = 0;
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
    this.#lines = [];
    this.#counts = { p: 0, r: 0, l: 0, f: 0, d: 0, h: 0 };
    this.#labels = 0;
    this.#variables = new Set();
    this.#within(null, () => {
      parameters.forEach(({ name: parameter, type }) => {
        const register = this.#register("l");
        this.#emit(`ld.param.u64 ${register}, [${name}_${parameter}]`);
        this.#emit(`cvta.to.global.u64 ${register}, ${register}`);
        this.#scope.names.set(parameter, { type: type as Pointer, text: register });
      });
      this.#block();
    });
    const declared = parameters.map((one, i) =>
      `  .param .u64 ${name}_${one.name}${i < parameters.length - 1 ? "," : ""}${
        one.written ? " // written" : ""
      }\n`
    );
    const registers = Object.entries(this.#counts).filter(([, count]) => count > 0)
      .map(([letter, count]) => `.reg .${REGISTERS[letter as Register]} %${letter}<${count}>;`);
    this.#entries.push(
      [
        `.visible .entry ${name}(\n${declared.join("")})`,
        `.maxntid ${threads}, 1, 1`,
        "{",
        ...[...registers, ...this.#lines, "ret;"].map((line) => line.endsWith(":") ? line : `  ${line}`),
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

  #emit(instruction: string): void {
    this.#lines.push(`${instruction};`);
  }
  #register = (letter: Register): string => `%${letter}${this.#counts[letter]++}`;
  #fresh<T extends Scalar | Pointer>(type: T): Plain & { readonly type: T } {
    return { type, text: this.#register(kindOf(type).register) };
  }
  #known = (known: number | bigint | boolean, type: Scalar): Plain => ({
    ...{ type, known },
    text: type === "bool" ? String(known) : immediate(known, type),
  });
  #made(type: Scalar | Pointer, instruction: string, ...operands: string[]): Plain {
    const result = this.#fresh(type);
    this.#emit(`${instruction} ${[result.text, ...operands].join(", ")}`);
    return result;
  }
  /** The lines that are written meanwhile. */
  #apart<T>(write: () => T): { readonly lines: readonly string[]; readonly result: T } {
    const before = this.#lines, lines: string[] = [];
    this.#lines = lines;
    const result = write();
    this.#lines = before;
    return { lines, result };
  }
  #within<T>(outer: Scope | null, write: () => T): T {
    const before = this.#scope;
    this.#scope = { names: new Map(), outer };
    const result = write();
    this.#scope = before;
    return result;
  }
  #label = (): string => `L${this.#labels++}`;

  // Values.

  #read(operand: Operand): Value {
    if (isElements(operand)) this.#wrong();
    if (isCounter(operand)) return operand.value;
    if (!isMemory(operand)) return operand;
    const { type, address, space } = operand;
    if (isStruct(type)) {
      const fields = type.fields.map((field) => this.#fresh(field.type as Scalar));
      const list = fields.map(({ text }) => text).join(", ");
      this.#emit(`ld.${space}.v${fields.length}.${kindOf(fields[0].type).memory} {${list}}, [${address}]`);
      return { type, fields };
    }
    const result = this.#fresh(type);
    this.#emit(`ld.${space}.${kindOf(type).memory} ${result.text}, [${address}]`);
    return result;
  }
  #plain(operand: Operand): Plain {
    const value = this.#read(operand);
    if ("fields" in value) this.#wrong();
    return value;
  }
  #inRegister = (value: Plain): Plain => value.known === undefined ? value : this.#copied(value) as Plain;
  #copied(value: Value): Value {
    if ("fields" in value) return { ...value, fields: value.fields.map((field) => this.#copied(field)) };
    const result = this.#fresh(value.type);
    this.#move(result, value);
    return result;
  }
  #move(to: Value, from: Value): void {
    if ("fields" in to) {
      if (!("fields" in from)) this.#wrong();
      to.fields.forEach((field, i) => this.#move(field, from.fields[i]));
    } else if ("fields" in from) this.#wrong();
    else if (from.type === "bool" && from.known !== undefined) {
      this.#emit(`setp.${from.known ? "eq" : "ne"}.u32 ${to.text}, 0, 0`);
    } else {
      const { register } = kindOf(to.type);
      this.#emit(`mov.${register === "p" ? "pred" : REGISTERS[register]} ${to.text}, ${from.text}`);
    }
  }
  #assign(to: Operand, value: Value): void {
    if (isCounter(to)) {
      const known = this.#converted(value, to.type) as Plain;
      if (known.known === undefined) this.#wrong();
      to.value = known;
      return;
    }
    if (isElements(to)) this.#wrong();
    const from = this.#converted(value, to.type);
    if (!isMemory(to)) return this.#move(to, "fields" in from ? this.#copied(from) : from);
    const { address, space } = to;
    if ("fields" in from) {
      const fields = from.fields.map((field) => this.#inRegister(field as Plain));
      const list = fields.map(({ text }) => text).join(", ");
      this.#emit(`st.${space}.v${fields.length}.${kindOf(fields[0].type).memory} [${address}], {${list}}`);
    } else this.#emit(`st.${space}.${kindOf(from.type).memory} [${address}], ${this.#inRegister(from).text}`);
  }

  #converted(value: Value, to: Type): Value {
    if ("fields" in value) return value;
    const { type, known } = value;
    if (!isScalar(to)) return isPointer(to) && isPointer(type) && to.to === type.to ? value : this.#wrong();
    if (!isScalar(type)) this.#wrong();
    if (type === to) return value;
    if (known !== undefined) return this.#knownAs(known, to);
    const a = kindOf(type), b = kindOf(to);
    if (to === "bool") {
      return this.#made(
        "bool",
        `setp.${isFloating(type) ? "neu" : "ne"}.${a.name}`,
        value.text,
        immediate(0, type),
      );
    }
    if (type === "bool") {
      return this.#made(to, `selp.${REGISTERS[b.register]}`, immediate(1, to), immediate(0, to), value.text);
    }
    if (b.register === a.register) {
      if (b.bytes < a.bytes) return this.#made(to, "and.b32", value.text, String(2 ** (8 * b.bytes) - 1));
      return { type: to, text: value.text };
    }
    if (isFloating(to)) {
      return this.#made(to, `cvt${type === "float" ? "" : ".rn"}.${b.name}.${a.name}`, value.text);
    }
    if (isFloating(type)) return this.#made(to, `cvt.rzi.${b.name}.${a.name}`, value.text);
    return this.#made(to, `cvt.${isSigned(type) ? "s" : "u"}${8 * b.bytes}.${a.name}`, value.text);
  }
  #knownAs(known: number | bigint | boolean, to: Scalar): Plain {
    if (to === "bool") return this.#known(Boolean(known), to);
    if (isFloating(to)) return this.#known(Number(known), to);
    return this.#known(wrapped(BigInt(typeof known === "number" ? Math.trunc(known) : known), to), to);
  }
  #scalar(operand: Operand): Plain & { readonly type: Scalar } {
    const value = this.#plain(operand);
    if (!isScalar(value.type)) this.#wrong();
    return value as Plain & { readonly type: Scalar };
  }
  #as = (operand: Operand, type: Scalar): Plain => this.#converted(this.#read(operand), type) as Plain;

  // Expressions.

  #expression(): Operand {
    const condition = this.#binary(0);
    if (!this.#take("?")) return condition;
    const truth = this.#as(condition, "bool");
    const a = this.#apart(() => this.#scalar(this.#expression()));
    this.#expect(":");
    const b = this.#apart(() => this.#scalar(this.#expression()));
    const both = [a.result.type, b.result.type];
    const type = both[0] === both[1] ? both[0] : commonType(both[0], both[1]);
    return this.#chosen(truth, type, a, b);
  }
  #chosen(
    truth: Plain,
    type: Scalar,
    a: { readonly lines: readonly string[]; readonly result: Plain },
    b: { readonly lines: readonly string[]; readonly result: Plain },
  ): Plain {
    if (truth.known !== undefined) {
      const { lines, result } = truth.known ? a : b;
      this.#lines.push(...lines);
      return this.#converted(result, type) as Plain;
    }
    if (![...a.lines, ...b.lines].some((line) => EFFECT.test(line))) {
      this.#lines.push(...a.lines, ...b.lines);
      const [first, second] = [a, b].map(({ result }) => this.#converted(result, type) as Plain);
      if (type !== "bool") {
        return this.#made(
          type,
          `selp.${REGISTERS[kindOf(type).register]}`,
          first.text,
          second.text,
          truth.text,
        );
      }
      const not = this.#not(truth), both = this.#logical("and", truth, first);
      return this.#logical("or", both, this.#logical("and", not, second));
    }
    const result = this.#fresh(type);
    const [other, end] = [this.#label(), this.#label()];
    const side = ({ lines, result: from }: typeof a) => {
      this.#lines.push(...lines);
      this.#move(result, this.#converted(from, type));
    };
    this.#emit(`@!${truth.text} bra ${other}`);
    side(a);
    this.#emit(`bra ${end}`);
    this.#lines.push(`${other}:`);
    side(b);
    this.#lines.push(`${end}:`);
    return result;
  }
  #not = (a: Plain): Plain =>
    a.known === undefined ? this.#made("bool", "not.pred", a.text) : this.#known(!a.known, "bool");
  #logical(sign: "and" | "or", a: Plain, b: Plain): Plain {
    for (const [one, other] of [[a, b], [b, a]]) {
      if (one.known !== undefined) return Boolean(one.known) === (sign === "and") ? other : one;
    }
    return this.#made("bool", `${sign}.pred`, a.text, b.text);
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
        : this.#computed(sign, this.#plain(left), this.#plain(this.#binary(level + 1)));
    }
  }
  /** The right side does not happen where the left one says enough. */
  #shortened(sign: "&&" | "||", left: Plain, level: number): Plain {
    const right = this.#apart(() => this.#as(this.#binary(level + 1), "bool"));
    if (!right.lines.some((line) => EFFECT.test(line))) {
      this.#lines.push(...right.lines);
      return this.#logical(sign === "&&" ? "and" : "or", left, right.result);
    }
    const enough = { lines: [], result: this.#known(sign === "||", "bool") };
    return sign === "&&"
      ? this.#chosen(left, "bool", right, enough)
      : this.#chosen(left, "bool", enough, right);
  }
  #computed(sign: string, a: Plain, b: Plain): Plain {
    if (isPointer(a.type) && isScalar(b.type) && sign === "+") return this.#moved(a, a.type, b);
    if (!isScalar(a.type) || !isScalar(b.type)) this.#wrong();
    const shifts = sign === "<<" || sign === ">>";
    const type = shifts ? commonType(a.type, a.type) : commonType(a.type, b.type);
    const left = this.#as(a, type), right = this.#as(b, shifts ? "unsigned" : type);
    const known = this.#folded(sign, type, left, right);
    if (known) return known;
    if ((sign === "/" || sign === "%") && typeof right.known === "bigint" && right.known > 0n) {
      const whole = this.#quotient(left, type, right.known);
      if (whole) return sign === "/" ? whole : this.#computed("-", left, this.#computed("*", whole, right));
    }
    const { name, register } = kindOf(type), bits = REGISTERS[register];
    if (sign in COMPARED) {
      const how = sign === "!=" && isFloating(type) ? "neu" : COMPARED[sign];
      return this.#made("bool", `setp.${how}.${name}`, left.text, right.text);
    }
    const instruction = (isFloating(type) ? OF_FLOATING : OF_WHOLE)[sign] ?? this.#wrong();
    return this.#made(type, instruction.replace("T", name).replace("B", bits), left.text, right.text);
  }
  /**
   * A quotient by a known number as shifts, or as a product: the driver's compiler would compute with a reciprocal, even of a
   * power of 2. Null for 64 bits and no such power.
   */
  #quotient(a: Plain, type: Scalar, by: bigint): Plain | null {
    const bits = 8 * bytesOf(type), power = by.toString(2).length - 1;
    const shifted = (of: Plain, count: number): Plain =>
      count === 0 ? of : this.#computed(">>", of, this.#known(BigInt(count), "int"));
    const bare = (of: Plain): Plain => ({
      type: bits === 32 ? "unsigned" : "unsigned long long",
      text: of.text,
    });
    const high = (name: string, factor: bigint): Plain =>
      this.#made(type, `mul.hi.${name}`, a.text, String(BigInt.asIntN(32, factor)));
    if (by === 1n) return a;
    if (by === 1n << BigInt(power)) {
      if (!isSigned(type)) return shifted(a, power);
      const up = shifted(bare(shifted(a, bits - 1)), bits - power); // by - 1 where a is negative
      return shifted(this.#computed("+", a, { type, text: up.text }), power);
    }
    if (bits !== 32) return null;
    if (!isSigned(type)) {
      const part = high("u32", ((1n << 32n) * ((2n << BigInt(power)) - by)) / by + 1n);
      return shifted(this.#computed("+", part, shifted(this.#computed("-", a, part), 1)), power);
    }
    const { factor, shift } = reciprocal(by), product = high("s32", factor);
    const whole = shifted(factor < 1n << 31n ? product : this.#computed("+", product, a), shift);
    return this.#computed("+", whole, { type, text: shifted(bare(a), 31).text });
  }
  #folded(sign: string, type: Scalar, { known: a }: Plain, { known: b }: Plain): Plain | null {
    if (typeof a !== "bigint" || typeof b !== "bigint") return null;
    if (sign in COMPARED) {
      const order = a < b ? "<" : a > b ? ">" : "==";
      const truth = sign === "!="
        ? order !== "=="
        : sign.startsWith(order) || sign.endsWith("=") && order === "==";
      return this.#known(truth, "bool");
    }
    const results: Record<string, () => bigint> = {
      ...{ "+": () => a + b, "-": () => a - b, "*": () => a * b, "<<": () => a << b, ">>": () => a >> b },
      ...{ "/": () => a / b, "%": () => a % b, "&": () => a & b, "|": () => a | b, "^": () => a ^ b },
    };
    return this.#known(wrapped(results[sign](), type), type);
  }
  /** A pointer so many elements on. */
  #moved({ text }: Plain, type: Pointer, by: Plain): Plain {
    const bytes = bytesOf(type.to);
    if (by.known !== undefined) {
      const offset = BigInt(by.known) * BigInt(bytes);
      return offset === 0n ? { type, text } : this.#made(type, "add.s64", text, String(offset));
    }
    if (kindOf(by.type).register === "r") {
      return this.#made(type, `mad.wide.${kindOf(by.type).name}`, by.text, String(bytes), text);
    }
    return this.#made(type, "mad.lo.s64", by.text, String(bytes), text);
  }

  #unary(): Operand {
    if (this.#take("-")) {
      const a = this.#scalar(this.#unary()), type = commonType(a.type, a.type);
      if (typeof a.known === "number") return this.#known(-a.known, type);
      if (a.known !== undefined) return this.#knownAs(-BigInt(a.known), type);
      return this.#made(
        type,
        `neg.${isFloating(type) ? kindOf(type).name : `s${8 * bytesOf(type)}`}`,
        a.text,
      );
    }
    if (this.#take("!")) return this.#not(this.#as(this.#unary(), "bool"));
    if (this.#take("~")) {
      const a = this.#scalar(this.#unary()), type = commonType(a.type, a.type);
      return this.#made(type, `not.${REGISTERS[kindOf(type).register]}`, this.#inRegister(a).text);
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
      return this.#converted(value, type);
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
        else operand = this.#at0(this.#computed("+", this.#plain(operand), index));
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
      return this.#made("unsigned", "mov.u32", `%${SPECIAL[token]}.${this.#next()}`);
    }
    if (token === "true" || token === "false") return this.#known(token === "true", "bool");
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
    if (!whole) return this.#known(Number(digits), suffix === "f" ? "float" : "double");
    const value = BigInt(digits), long = suffix.includes("ll");
    const signed = !suffix.includes("u") && value < (long ? 1n << 63n : 1n << 31n);
    return this.#known(
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
      const value = this.#converted(given[i], type);
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
    return result === null ? this.#known(0n, "int") : this.#converted(returned!, result);
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
    const truth = this.#inRegister(this.#as(this.#expression(), "bool")), other = this.#label();
    this.#expect(")");
    this.#emit(`@!${truth.text} bra ${other}`);
    this.#inner();
    if (this.#take("else")) {
      const end = this.#label();
      this.#emit(`bra ${end}`);
      this.#lines.push(`${other}:`);
      this.#inner();
      this.#lines.push(`${end}:`);
    } else this.#lines.push(`${other}:`);
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
      return this.#as(this.#expression(), "bool");
    };
    const next = (): void => {
      this.#at = step;
      this.#assignment();
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
    const begin = this.#label(), end = this.#label();
    this.#emit(`@!${this.#inRegister(truth()).text} bra ${end}`);
    this.#lines.push(`${begin}:`);
    this.#at = body;
    this.#inner();
    const behind = this.#at;
    next();
    this.#emit(`@${this.#inRegister(truth()).text} bra ${begin}`);
    this.#lines.push(`${end}:`);
    this.#at = behind;
  }
  /** How many turns a loop has, if that is known and few; else its counter is a variable from here on. */
  #turns(name: string, truth: () => Plain, next: () => void): number | null {
    const counter = this.#scope.names.get(name)!;
    if (!isCounter(counter)) return null;
    const first = counter.value;
    const { result } = this.#apart(() => {
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
    const place = `${name}${this.#labels++}`;
    this.#emit(`.shared .align ${bytesOf(type)} .${kindOf(type).memory} ${place}[${count}]`);
    const pointer: Pointer = { to: type, space: "shared" };
    this.#scope.names.set(name, this.#made(pointer, "mov.u64", place));
    return name;
  }
  #initial(type: Type): Value {
    if (!this.#take("{")) return this.#converted(this.#read(this.#expression()), type);
    if (!isStruct(type)) this.#wrong();
    let field = 0;
    const fields = this.#list(
      "}",
      () => this.#converted(this.#read(this.#expression()), type.fields[field++].type),
    );
    if (fields.length !== type.fields.length) this.#wrong();
    return { type, fields };
  }
  #empty(type: Type): Value {
    if (isStruct(type)) return { type, fields: type.fields.map((field) => this.#empty(field.type)) };
    const value = this.#fresh(type);
    this.#variables.add(value.text);
    return value;
  }
  #variable(value: Value): Value {
    const copy = this.#copied(value);
    this.#registersOf(copy).forEach((register) => this.#variables.add(register));
    return copy;
  }
  #registersOf = (value: Value): string[] =>
    "fields" in value ? value.fields.flatMap(this.#registersOf) : [value.text];
  /** A variable may change later. */
  #constant = (value: Value): Value =>
    "fields" in value || this.#variables.has(value.text) ? this.#copied(value) : value;

  #assignment(): void {
    const place = this.#unary(), sign = this.#takeAssignment();
    if (sign === null) return; // a call
    if (isElements(place)) this.#wrong();
    if (sign === "=") return this.#assign(place, this.#initial(place.type));
    const by = sign === "++" ? this.#known(1n, "int") : this.#plain(this.#expression());
    this.#assign(place, this.#computed(sign.slice(0, -1), this.#plain(place), by));
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
      return this.#emit("ret");
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
        const half = this.#register("h");
        places.push(half);
        after.push(() => this.#emit(`cvt.u32.u16 ${to.text}, ${half}`));
      });
    }
    if (this.#take(":")) {
      each((letter, from) => {
        const { text } = this.#inRegister(this.#plain(from));
        if (letter !== "h") return places.push(text);
        const half = this.#register("h");
        places.push(half);
        this.#emit(`cvt.u16.u32 ${half}, ${text}`);
      });
    }
    this.#expect(")");
    this.#expect(";");
    this.#lines.push(text.replace(/%(\d)/g, (_, i) => places[Number(i)] ?? this.#wrong()));
    after.forEach((write) => write());
  }
}

/** a / by is a * factor / 2^(32 + shift), and 1 more where a is negative, for all a of 32 bits. */
function reciprocal(by: bigint): { readonly factor: bigint; readonly shift: number } {
  const most = (1n << 31n) - 1n - (1n << 31n) % by;
  let shift = 0;
  const rest = (): bigint => by - (1n << BigInt(32 + shift)) % by;
  while (1n << BigInt(32 + shift) <= most * rest()) shift++;
  return { factor: ((1n << BigInt(32 + shift)) + rest()) / by, shift };
}
