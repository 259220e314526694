// A user's code may keep something from one call to the next. Where it can be seen to keep nothing, a step that was recorded
// is the step for good. The code is read as tokens, and what is not plainly harmless counts as kept.

/** The name of a file, and its code without types. */
export interface Code {
  readonly path: string;
  readonly js: string;
}

/** The first place by which a later call may do something else: "net.ts:12 (calls++)"; null where there is none. */
export function keptState(files: readonly Code[]): string | null {
  for (const { path, js } of files) {
    const found = new Reader(js).found();
    if (found !== null) return `${path}:${found.line} (${found.text})`;
  }
  return null;
}

const TOKEN = new RegExp(
  [
    /\/\/[^\n]*|\/\*[^]*?\*\//, // comments
    /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/,
    /[A-Za-z_$#][\w$]*|\d[\w.]*/,
    /=>|\*\*=|<<=|>>>=|>>=|\?\?=|\|\|=|&&=|[-+*/%&|^]=|===|!==|[=!<>]=|\+\+|--|\?\.|\.\.\.|\S/,
  ].map(({ source }) => source).join("|"),
  "g",
);
const NAME = /^[A-Za-z_$#]/;
const ASSIGNS = /^(=|\*\*=|<<=|>>>=|>>=|\?\?=|\|\|=|&&=|[-+*/%&|^]=|\+\+|--)$/;
const OPENS = "([{", CLOSES = ")]}";
const CONTROL = new Set(["if", "for", "while", "switch", "catch", "with"]);
/** A slash behind one of these begins a regular expression. */
const BEFORE_REGEXP = new Set([
  "(",
  ",",
  "=",
  ":",
  "[",
  "!",
  "&",
  "|",
  "?",
  "{",
  "}",
  ";",
  "return",
  "=>",
  "+",
]);

/** Clocks, chance, what lies outside, and code that goes on where it stopped. */
const OUTSIDE =
  /^(Date|performance|crypto|Deno|globalThis|self|window|process|console|eval|Function|Proxy|Reflect|WeakRef|Atomics|set(Timeout|Interval)|queueMicrotask|fetch|prompt|alert|localStorage|yield|async|await|import|Iterator)$/;
/** Methods that change what they are called of. */
const CHANGES =
  /^(push|pop|shift|unshift|splice|sort|reverse|fill|copyWithin|set|add|delete|clear|next|assign|defineProperty|random|setPrototypeOf)$/;

interface Scope {
  readonly kind: "module" | "function" | "constructor" | "arrow" | "class" | "other";
  readonly names: Set<string>;
}

class Reader {
  readonly #tokens: string[] = [];
  readonly #lines: number[] = [];
  /** The bracket that closes each one, or opens it. */
  readonly #other = new Map<number, number>();
  readonly #scopes: Scope[] = [{ kind: "module", names: new Set() }];

  constructor(js: string) {
    let line = 1, at = 0;
    const open: number[] = [];
    for (const { 0: text, index } of js.matchAll(TOKEN)) {
      line += js.slice(at, index).split("\n").length - 1;
      at = index;
      if (text.startsWith("//") || text.startsWith("/*")) continue;
      const i = this.#tokens.push(text) - 1;
      this.#lines.push(line);
      if (OPENS.includes(text)) open.push(i);
      if (!CLOSES.includes(text)) continue;
      const opener = open.pop() ?? -1;
      this.#other.set(i, opener).set(opener, i);
    }
  }

  found(): { readonly line: number; readonly text: string } | null {
    for (let i = 0; i < this.#tokens.length; i++) {
      if (this.#keeps(i)) {
        return { line: this.#lines[i], text: this.#tokens.slice(Math.max(0, i - 3), i + 2).join("") };
      }
      this.#enter(i);
    }
    return null;
  }

  #keeps(i: number): boolean {
    const token = this.#tokens[i], before = this.#tokens[i - 1] ?? ";";
    if (token === "/" && BEFORE_REGEXP.has(before)) return true; // quotes within it would mislead
    if (token[0] === "`") return /\$\{[^}]*([^=!<>]=[^=>]|\+\+|--)/.test(token);
    if (ASSIGNS.test(token)) return this.#assigns(i);
    if (!NAME.test(token)) return false;
    if (before !== "." && before !== "?.") return OUTSIDE.test(token) && !this.#isImport(i);
    return CHANGES.test(token) && this.#within().kind !== "module" &&
      !(token === "add" && this.#tokens[i - 2] === "ops");
  }

  /** Files that are imported are read, too. */
  #isImport(i: number): boolean {
    return this.#tokens[i] === "import" && this.#tokens[i + 1] !== "(" && this.#within().kind === "module";
  }

  /** The function whose code this is. */
  #within(): Scope {
    return this.#scopes.findLast(({ kind }) => kind !== "other")!;
  }

  #assigns(i: number): boolean {
    const { kind, names } = this.#within();
    if (kind === "module" || kind === "class" || this.#declares(i)) return false;
    const step = this.#tokens[i] === "++" || this.#tokens[i] === "--";
    const behind = step && !(NAME.test(this.#tokens[i - 1]) || this.#tokens[i - 1] === "]");
    const at = behind ? i + 1 : i - 1,
      target = this.#tokens[at],
      owner = behind ? this.#tokens[at + 1] : this.#tokens[at - 1];
    if (!NAME.test(target) || behind && target === "this") return true;
    if (owner !== "." && owner !== "?.") return !names.has(target);
    return kind !== "constructor" || this.#tokens[at - 2] !== "this";
  }

  /** A value of a new name, or of an argument that was left out. */
  #declares(i: number): boolean {
    if (this.#tokens[i] !== "=") return false;
    const another = this.#tokens[i - 2] === ","; // const a = 1, b = 2
    for (let at = i - 1; at >= 0; at--) {
      const token = this.#tokens[at];
      if (token === "const" || token === "let" || token === "var") return true;
      if (CLOSES.includes(token)) at = this.#other.get(at)!;
      else if (token === "(") return this.#isHeader(at);
      else if (token === ";" || token === "=>" || token === "=" && !another) return false;
    }
    return false;
  }

  /** These brackets hold a function's arguments. */
  #isHeader(open: number): boolean {
    const close = this.#other.get(open) ?? -1, behind = this.#tokens[close + 1];
    return behind === "=>" || behind === "{" && !CONTROL.has(this.#tokens[open - 1]);
  }

  #enter(i: number): void {
    const token = this.#tokens[i], scopes = this.#scopes;
    if (token === "const" || token === "let" || token === "var") this.#note(i);
    else if (token === "=>" && this.#tokens[i + 1] !== "{") {
      scopes.push({ kind: "arrow", names: this.#arguments(i) });
    } else if (OPENS.includes(token)) {
      scopes.push(token === "{" ? this.#opened(i) : { kind: "other", names: new Set() });
    } else if (CLOSES.includes(token)) {
      while (scopes.at(-1)!.kind === "arrow") scopes.pop();
      if (scopes.length > 1) scopes.pop();
    } else if (token === ";" || token === ",") { while (scopes.at(-1)!.kind === "arrow") scopes.pop(); }
  }

  /** The names that are declared here belong to the function. */
  #note(i: number): void {
    const { names } = this.#within();
    for (let at = i + 1; at < this.#tokens.length; at++) {
      const token = this.#tokens[at];
      if (["=", "of", "in", ";"].includes(token)) return;
      if (NAME.test(token)) names.add(token);
    }
  }

  #opened(i: number): Scope {
    const before = this.#tokens[i - 1];
    if (before === "=>") return { kind: "function", names: this.#arguments(i - 1) };
    if (before === ")" && !CONTROL.has(this.#tokens[this.#other.get(i - 1)! - 1])) {
      const made = this.#tokens[this.#other.get(i - 1)! - 1] === "constructor";
      return { kind: made ? "constructor" : "function", names: this.#arguments(i) };
    }
    for (let at = i - 1; at >= 0 && !["{", "}", ";", "("].includes(this.#tokens[at]); at--) {
      if (this.#tokens[at] === "class") return { kind: "class", names: new Set() };
    }
    return { kind: "other", names: new Set() };
  }

  /** The names of the arguments, where the function's body or arrow comes at `i`. */
  #arguments(i: number): Set<string> {
    const names = new Set<string>(), close = i - 1;
    if (this.#tokens[close] !== ")") {
      return NAME.test(this.#tokens[close] ?? "") ? names.add(this.#tokens[close]) : names;
    }
    for (let at = this.#other.get(close)! + 1; at < close; at++) {
      if (NAME.test(this.#tokens[at]) && !["=", "."].includes(this.#tokens[at - 1])) {
        names.add(this.#tokens[at]);
      }
    }
    return names;
  }
}
