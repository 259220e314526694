// A text declares structs and functions, which are kept by their names, and kernels, which are written as they come. The way
// through the tokens is here, too.
import { NoPtx } from "./no_ptx.ts";
import type { Scalar, Struct, Type } from "./types.ts";

export interface Named {
  readonly name: string;
  readonly type: Type;
}
export interface Parameter extends Named {
  /** The device writes what it points to. */
  readonly written: boolean;
}
/** A kernel's threads of a block at most, and blocks that share a multiprocessor at least. */
export interface Bounds {
  threads: number;
  together: number;
}
export interface Function {
  readonly result: Type | null;
  /** Some are variables of the function's. */
  readonly parameters: readonly (Named & { readonly changes: boolean })[];
  /** The token behind its brace. */
  readonly body: number;
  /** The name that stands for an operation. */
  readonly template: string | null;
}

const SPECIFIERS = new Set(["static", "__device__", "__forceinline__", "const", "volatile", "__restrict__"]);
const SCALARS = new Set(["void", "bool", "unsigned", "int", "long", "char", "short", "float", "double"]);
export const ASSIGNMENT = /^([-+*\/%&|^]|<<|>>)?=$|^(\+\+|--)$/;

/** So many tokens before the end and behind it tell the place. */
const AROUND = 5;

export abstract class Declarations {
  protected at = 0;
  readonly #structs = new Map<string, Struct>();
  protected readonly functions = new Map<string, Function>();

  constructor(protected readonly tokens: readonly string[]) {}

  /** Its body comes next. */
  protected abstract kernel(name: string, bounds: Bounds, parameters: readonly Parameter[]): void;

  // Tokens.

  protected next(): string {
    return this.tokens[this.at++] ?? this.wrong();
  }
  protected take(token: string): boolean {
    if (this.tokens[this.at] !== token) return false;
    this.at++;
    return true;
  }
  protected expect(token: string): void {
    if (!this.take(token)) this.wrong();
  }
  protected wrong(): never {
    throw new NoPtx(this.tokens.slice(Math.max(0, this.at - AROUND), this.at + AROUND).join(" "));
  }
  /** Behind the bracket that closes the one before. */
  protected skip(): void {
    for (let depth = 1; depth > 0;) {
      const token = this.next();
      if ("([{".includes(token)) depth++;
      else if (")]}".includes(token)) depth--;
    }
  }
  protected list<T>(end: string, item: () => T): T[] {
    const items: T[] = [];
    while (!this.take(end)) {
      items.push(item());
      if (this.tokens[this.at] !== end) this.expect(",");
    }
    return items;
  }

  // Definitions.

  /** `within` is the struct that it is a part of. */
  protected definition(within: string | null): void {
    let template: string | null = null, kernel = false;
    const bounds: Bounds = { threads: 0, together: 1 };
    if (this.take("template")) {
      this.at += 2;
      template = this.next();
      this.expect(">");
    }
    if (this.take("struct")) return this.#struct();
    for (;;) {
      if (this.take("extern")) this.at++;
      else if (this.take("__global__")) kernel = true;
      else if (!this.#specifier()) break;
    }
    const result = this.type();
    if (this.take("__launch_bounds__")) {
      this.expect("(");
      [bounds.threads, bounds.together] = this.list(")", () => Number(this.next()));
    }
    const name = this.next();
    this.expect("(");
    const parameters: Parameter[] = this.list(")", () => {
      const written = this.tokens[this.at] !== "const", type = this.type();
      if (type === null) this.wrong();
      return { type, name: this.next(), written };
    });
    this.expect("{");
    if (kernel) return this.kernel(name, bounds, parameters);
    const full = within === null ? name : `${within}::${name}`;
    const body = this.at;
    this.skip();
    const changed = new Set<string>();
    for (let at = body; at < this.at; at++) {
      if (ASSIGNMENT.test(this.tokens[at + 1])) changed.add(this.tokens[at]);
    }
    const changing = parameters.map((one) => ({ ...one, changes: changed.has(one.name) }));
    this.functions.set(full, { result, parameters: changing, body, template });
  }

  #struct(): void {
    const name = this.next(), fields: Named[] = [];
    this.#structs.set(name, { fields });
    this.expect("{");
    while (!this.take("}")) {
      if (this.tokens[this.at] === "static") this.definition(name);
      else {
        const type = this.type();
        if (type === null) this.wrong();
        fields.push(...this.list(";", () => ({ name: this.next(), type })));
      }
    }
    this.expect(";");
  }

  // Types.

  #specifier(): boolean {
    if (!SPECIFIERS.has(this.tokens[this.at])) return false;
    this.at++;
    return true;
  }
  protected isType(): boolean {
    const token = this.tokens[this.at];
    return token === "const" || SCALARS.has(token) || this.#structs.has(token);
  }
  /** Null is void. */
  protected type(): Type | null {
    while (this.#specifier());
    const struct = this.#structs.get(this.tokens[this.at]);
    let type: Type | null = struct ?? null;
    if (struct) this.at++;
    else {
      const words: string[] = [];
      while (SCALARS.has(this.tokens[this.at])) words.push(this.next());
      if (words.length === 0) this.wrong();
      type = words[0] === "void" ? null : words.join(" ") as Scalar;
    }
    while (this.#specifier());
    if (!this.take("*")) return type;
    if (type === null) this.wrong();
    while (this.#specifier());
    return { to: type, space: "global" };
  }
}
