// The CUDA C that ../cuda/ prints as PTX, for a driver without NVRTC. It is no compiler of C: it knows what is printed, goes
// through the tokens once, and writes each instruction as it comes. A call goes through the function's tokens again, with
// its arguments as variables, and so does each turn of a loop whose turns are known. What it does not know has no PTX.
import { computed } from "./arithmetic.ts";
import { ASSIGNMENT, type Bounds, type Parameter } from "./declarations.ts";
import { Expressions, isCounter, isElements, isMemory, type Operand } from "./expressions.ts";
import { FUNCTIONS } from "./functions.ts";
import { Instructions, known, type Plain, type Value } from "./instructions.ts";
import { tokensOf, UNROLL } from "./tokens.ts";
import { bytesOf, isScalar, isStruct, kindOf, type Pointer, type Type } from "./types.ts";

/** The oldest GPU and driver that the texts ask for: all of those that libtorch has kernels for. */
const HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n";
/** Loops of so many known turns are written out: those within functions, and those that are marked. */
const MOST_TURNS = 64;

/** The same functions, by the same names. Throws NoPtx. */
export const ptxOf = (cuda: string): string => new Compiler(tokensOf(`${FUNCTIONS}\n${cuda}`)).compile();

class Compiler extends Expressions {
  readonly #entries: string[] = [];

  compile(): string {
    while (this.at < this.tokens.length) this.definition(null);
    return [HEAD, ...this.#entries].join("\n");
  }

  protected kernel(name: string, { threads, together }: Bounds, parameters: readonly Parameter[]): void {
    this.code = new Instructions(() => this.wrong());
    this.variables = new Set();
    this.within(null, () => {
      parameters.forEach(({ name: parameter, type }) => {
        const register = this.code.register("l");
        this.code.emit(`ld.param.u64 ${register}, [${name}_${parameter}]`);
        this.code.emit(`cvta.to.global.u64 ${register}, ${register}`);
        this.scope.names.set(parameter, { type: type as Pointer, text: register });
      });
      this.block();
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
        `.minnctapersm ${together}`,
        "{",
        ...this.code.text(),
        "}\n",
      ].join("\n"),
    );
  }

  // Statements.

  protected block(): void {
    while (!this.take("}")) {
      if (this.returned) this.wrong(); // a function returns at its end
      this.#statement();
    }
  }

  #statement(): void {
    const token = this.tokens[this.at];
    if (this.take("{")) return this.within(this.scope, () => this.block());
    if (this.take("if")) return this.#if();
    const unrolled = this.take(UNROLL);
    if (this.take("for")) return this.within(this.scope, () => this.#for(unrolled || this.depth > 0));
    if (this.take("asm")) return this.#assembly();
    if (this.take("return")) return this.#return();
    if (token === "__shared__" || this.isType()) this.#declaration();
    else this.#assignment();
    this.expect(";");
  }

  #if(): void {
    this.expect("(");
    const truth = this.code.inRegister(this.as(this.expression(), "bool")), other = this.code.label();
    this.expect(")");
    this.code.emit(`@!${truth.text} bra ${other}`);
    this.#inner();
    if (this.take("else")) {
      const end = this.code.label();
      this.code.emit(`bra ${end}`);
      this.code.bind(other);
      this.#inner();
      this.code.bind(end);
    } else this.code.bind(other);
  }
  /** A statement that may not happen. */
  #inner(): void {
    this.within(this.scope, () => this.#statement());
    if (this.returned) this.wrong();
  }

  #for(known: boolean): void {
    this.expect("(");
    const [counter] = this.#declaration(known);
    this.expect(";");
    const condition = this.at;
    while (!this.take(";")) this.next();
    const step = this.at;
    this.skip();
    const body = this.at;
    const truth = (): Plain => {
      this.at = condition;
      const value = this.as(this.expression(), "bool");
      this.expect(";");
      return value;
    };
    const next = (): void => {
      this.at = step;
      this.#assignment();
      this.expect(")");
    };
    const turns = this.#turns(counter, truth, next);
    if (turns !== null) {
      for (let turn = 0; turn < turns; turn++) {
        this.at = body;
        this.#inner();
        const behind = this.at;
        next();
        this.at = behind;
      }
      return;
    }
    const begin = this.code.label(), end = this.code.label();
    this.code.emit(`@!${this.code.inRegister(truth()).text} bra ${end}`);
    this.code.bind(begin);
    this.at = body;
    this.#inner();
    const behind = this.at;
    next();
    this.code.emit(`@${this.code.inRegister(truth()).text} bra ${begin}`);
    this.code.bind(end);
    this.at = behind;
  }
  /** How many turns a loop has, if that is known and few; else its counter is a variable from here on. */
  #turns(name: string, truth: () => Plain, next: () => void): number | null {
    const counter = this.scope.names.get(name)!;
    if (!isCounter(counter)) return null;
    const first = counter.value;
    const { result } = this.code.apart(() => {
      for (let turns = 0; turns <= MOST_TURNS; turns++) {
        const { known } = truth();
        if (known === undefined) return null;
        if (!known) return turns;
        next();
      }
      return null;
    });
    counter.value = first;
    if (!result) this.scope.names.set(name, this.variable(first));
    return result || null;
  }

  /** Its names. A counter is known until it is not. */
  #declaration(counts = false): string[] {
    if (this.take("__shared__")) return [this.#shared()];
    const constant = this.tokens[this.at] === "const", type = this.type();
    if (type === null) this.wrong();
    const names: string[] = [];
    do {
      const name = this.next();
      names.push(name);
      if (this.take("[")) {
        const count = Number(this.next());
        this.scope.names.set(name, { elements: Array.from({ length: count }, () => this.#empty(type)) });
        this.expect("]");
        continue;
      }
      const value = this.take("=") ? this.#initial(type) : null;
      if (value === null) this.scope.names.set(name, this.#empty(type));
      else if (counts && isScalar(type) && "known" in value) this.scope.names.set(name, { type, value });
      else this.scope.names.set(name, constant ? this.#constant(value) : this.variable(value));
    } while (this.take(","));
    return names;
  }
  #shared(): string {
    const type = this.type(), name = this.next();
    this.expect("[");
    const count = this.next();
    this.expect("]");
    if (type === null) this.wrong();
    const place = `${name}${this.code.labels++}`;
    this.code.emit(`.shared .align ${bytesOf(type)} .${kindOf(type).memory} ${place}[${count}]`);
    const pointer: Pointer = { to: type, space: "shared" };
    this.scope.names.set(name, this.code.made(pointer, "mov.u64", place));
    return name;
  }
  #initial(type: Type): Value {
    if (!this.take("{")) return this.code.converted(this.read(this.expression()), type);
    if (!isStruct(type)) this.wrong();
    let field = 0;
    const fields = this.list("}", () => {
      const { type: to } = type.fields[field++] ?? this.wrong();
      return this.code.converted(this.read(this.expression()), to);
    });
    if (fields.length !== type.fields.length) this.wrong();
    return { type, fields };
  }
  #empty(type: Type): Value {
    if (isStruct(type)) return { type, fields: type.fields.map((field) => this.#empty(field.type)) };
    const value = this.code.fresh(type);
    this.variables.add(value.text);
    return value;
  }
  /** A variable may change later. */
  #constant = (value: Value): Value =>
    "fields" in value || this.variables.has(value.text) ? this.code.copied(value) : value;

  #assignment(): void {
    const place = this.unary(), sign = this.#takeAssignment();
    if (sign === null) return; // a call
    if (isElements(place)) this.wrong();
    if (sign === "=") return this.assign(place, this.#initial(place.type));
    const by = sign === "++" || sign === "--" ? known(1n, "int") : this.plain(this.expression());
    this.assign(place, computed(this.code, sign.slice(0, -1), this.plain(place), by));
  }
  #takeAssignment(): string | null {
    const token = this.tokens[this.at];
    if (!ASSIGNMENT.test(token)) return null;
    this.at++;
    return token;
  }

  #return(): void {
    if (this.take(";")) {
      if (this.depth > 0) this.wrong();
      return this.code.emit("ret");
    }
    this.returned = this.#initial(this.result ?? this.wrong());
    this.expect(";");
  }

  /** Its text is an instruction already. Registers of 16 bits are there alone. */
  #assembly(): void {
    this.take("volatile");
    this.expect("(");
    const text = this.next().slice(1, -1), places: string[] = [], after: (() => void)[] = [];
    const each = (one: (letter: string, value: Operand) => void): void => {
      while (this.tokens[this.at].startsWith('"')) {
        const letter = this.next().replace(/[="]/g, "");
        this.expect("(");
        one(letter, this.expression());
        this.expect(")");
        this.take(",");
      }
    };
    if (this.take(":")) {
      each((letter, to) => {
        if (isMemory(to) || isCounter(to) || isElements(to) || "fields" in to) this.wrong();
        if (letter !== "h") return places.push(to.text);
        const half = this.code.register("h");
        places.push(half);
        after.push(() => this.code.emit(`cvt.u32.u16 ${to.text}, ${half}`));
      });
    }
    if (this.take(":")) {
      each((letter, from) => {
        const { text } = this.code.inRegister(this.plain(from));
        if (letter !== "h") return places.push(text);
        const half = this.code.register("h");
        places.push(half);
        this.code.emit(`cvt.u16.u32 ${half}, ${text}`);
      });
    }
    this.expect(")");
    this.expect(";");
    this.code.lines.push(text.replace(/%(\d)/g, (_, i) => places[Number(i)] ?? this.wrong()));
    after.forEach((write) => write());
  }
}
