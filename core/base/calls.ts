// Reads texts such as `random_resized_crop(224, scale=(0.08, 1)), horizontal_flip`: names with arguments, as Python has them.
// Transforms, schedules and losses are written so.
import { UserError } from "./errors.ts";

/** `resized_crop(224, scale=(0.5, 1))` */
export interface Call {
  readonly name: string;
  readonly values: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
  /** As it was written. */
  readonly text: string;
}

export type Value = number | string | boolean | null | readonly Value[] | Call;

export const isCall = (value: Value): value is Call =>
  typeof value === "object" && value !== null && "named" in value;

/** Calls between commas; `setting` is the flag that a sentence of what is wrong names. */
export function parseCalls(text: string, setting: string): Call[] {
  const reader = new Reader(text, setting), calls: Call[] = [];
  while (!reader.atEnd()) {
    const value = reader.value();
    calls.push(callOf(value, reader));
    if (!reader.atEnd()) reader.take(",");
  }
  return calls;
}

/** One call and nothing behind it. */
export function parseCall(text: string, setting: string): Call {
  const reader = new Reader(text, setting), call = callOf(reader.value(), reader);
  if (!reader.atEnd()) reader.fail("the end");
  return call;
}

function callOf(value: Value, reader: Reader): Call {
  if (typeof value === "object" && value !== null && isCall(value)) return value;
  if (typeof value === "string" && /^[A-Za-z_]/.test(value)) {
    return { name: value, values: [], named: new Map(), text: value };
  }
  return reader.fail("a name");
}

const WORD = /[A-Za-z_][\w./-]*/y;
const NUMBER = /[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?![\w.])/iy;
/** A length of training, 30ep or 20%, is a text. */
const LENGTH = /\d+(?:\.\d*)?(?:e[+-]?\d+)?(?:%|(?:steps?|ep|epochs?|samples|tok|tokens)\b)/iy;
const QUOTED = /'([^']*)'|"([^"]*)"/y;
const WORDS: ReadonlyMap<string, Value> = new Map<string, Value>([
  ...[["true", true], ["True", true], ["false", false], ["False", false]] as const,
  ...[["null", null], ["None", null]] as const,
]);

class Reader {
  #at = 0;

  constructor(readonly text: string, readonly setting: string) {}

  atEnd(): boolean {
    this.#space();
    return this.#at === this.text.length;
  }

  value(): Value {
    this.#space();
    const from = this.#at, open = this.text[from];
    if (open === "(" || open === "[") return this.#items(open).values;
    const quoted = this.#match(QUOTED);
    if (quoted) return quoted[1] ?? quoted[2];
    const length = this.#match(LENGTH);
    if (length) return length[0];
    const number = this.#match(NUMBER);
    if (number) return Number(number[0]);
    const word = this.#match(WORD)?.[0];
    if (word === undefined) return this.fail("a name or a number");
    if (this.text[this.#at] === "(") {
      const { values, named } = this.#items("(");
      return { name: word, values, named, text: this.text.slice(from, this.#at) };
    }
    return WORDS.has(word) ? WORDS.get(word)! : word;
  }

  #items(open: string): Pick<Call, "values" | "named"> {
    const close = open === "(" ? ")" : "]", values: Value[] = [], named = new Map<string, Value>();
    this.take(open);
    for (;;) {
      this.#space();
      if (this.text[this.#at] === close) break;
      const value = this.value();
      this.#space();
      if (typeof value === "string" && this.text[this.#at] === "=") {
        this.take("=");
        if (named.has(value)) return this.fail(`${value} once, not twice`);
        named.set(value, this.value());
      } else if (named.size > 0) {
        return this.fail("NAME=VALUE behind another of that kind");
      } else values.push(value);
      this.#space();
      if (this.text[this.#at] !== close) this.take(",");
    }
    this.take(close);
    return { values, named };
  }

  take(sign: string): void {
    this.#space();
    if (this.text[this.#at] !== sign) return this.fail(`"${sign}"`);
    this.#at++;
  }

  fail(wanted: string): never {
    const before = this.text.slice(0, this.#at).trimEnd();
    const place = before === "" ? "at its beginning" : `behind "${before.slice(-40)}"`;
    throw new UserError("usage", `${this.setting} "${this.text}": ${wanted} is missing ${place}.`);
  }

  #match(regex: RegExp): RegExpExecArray | null {
    regex.lastIndex = this.#at;
    const match = regex.exec(this.text);
    if (match) this.#at = regex.lastIndex;
    return match;
  }

  #space(): void {
    while (/\s/.test(this.text[this.#at] ?? "")) this.#at++;
  }
}
