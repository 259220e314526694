// JSON kept as text: NaN, infinities and 64-bit integers pass unchanged, and numbers are spelled as `wandb
// sync` spells them.

/** An object keeps the order of its names; every other value is its text. */
export type JsonValue = string | Tree;
export type Tree = Map<string, JsonValue>;

/** W&B refuses deeper nesting too. */
const MAX_DEPTH = 500;

/** Returns null where the text is no JSON. */
export function parseJson(text: string): JsonValue | null {
  const reader = { text, at: 0 };
  try {
    const value = valueAt(reader, 0);
    skipSpace(reader);
    return reader.at === text.length ? value : null;
  } catch (error) {
    if (error instanceof NoJson) return null;
    throw error;
  }
}

/** `sorted` concerns every level that is an object here. */
export function textOfJson(value: JsonValue, sorted = false): string {
  if (typeof value === "string") return value;
  const entries = sorted ? [...value].sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0) : [...value];
  return `{${entries.map(([key, v]) => `${quotedJson(key)}:${textOfJson(v, sorted)}`).join(",")}}`;
}

/** Escapes as little as possible. */
export function quotedJson(text: string): string {
  // JSON.stringify also escapes halves of surrogate pairs, which UTF-8 does not have.
  return JSON.stringify(text.isWellFormed() ? text : text.toWellFormed());
}

/** Go's %g writes the shortest text that reads back as the same float. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const [digits, exponent] = value.toExponential().split("e");
  const power = Number(exponent);
  if (power >= -4 && power < 6) return String(value);
  return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

export function setAt(tree: Tree, path: readonly string[], value: JsonValue): void {
  let at = tree;
  for (const key of path.slice(0, -1)) {
    const next = at.get(key);
    if (next instanceof Map) at = next;
    else {
      const made: Tree = new Map();
      at.set(key, made);
      at = made;
    }
  }
  at.set(path[path.length - 1], value);
}

export function removeAt(tree: Tree, path: readonly string[]): void {
  let at: Tree = tree;
  for (const key of path.slice(0, -1)) {
    const next = at.get(key);
    if (!(next instanceof Map)) return;
    at = next;
  }
  at.delete(path[path.length - 1]);
}

export function mergeAt(tree: Tree, path: readonly string[], value: JsonValue): void {
  if (typeof value === "string") return setAt(tree, path, value);
  for (const [key, inner] of value) mergeAt(tree, [...path, key], inner);
}

class NoJson extends Error {}

interface Reader {
  readonly text: string;
  at: number;
}

const SPACE = /[ \t\r\n]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const WORD = /true|false|null|NaN|-?Infinity/y;

function skipSpace(reader: Reader): void {
  const code = reader.text.charCodeAt(reader.at);
  if (code !== 32 && code !== 10 && code !== 9 && code !== 13) return;
  SPACE.lastIndex = reader.at;
  SPACE.test(reader.text);
  reader.at = SPACE.lastIndex;
}

function match(reader: Reader, pattern: RegExp): RegExpExecArray | null {
  pattern.lastIndex = reader.at;
  const found = pattern.exec(reader.text);
  if (found) reader.at = pattern.lastIndex;
  return found;
}

function valueAt(reader: Reader, depth: number): JsonValue {
  if (depth > MAX_DEPTH) throw new NoJson();
  skipSpace(reader);
  switch (reader.text[reader.at]) {
    case "{":
      return objectAt(reader, depth);
    case "[":
      return arrayAt(reader, depth);
    case '"':
      return stringAt(reader);
  }
  const word = match(reader, WORD);
  if (word) return word[0];
  const number = match(reader, NUMBER);
  if (!number) throw new NoJson();
  if (number[1] === undefined && number[2] === undefined && fits(number[0])) return number[0];
  return floatText(Number(number[0]));
}

/** W&B takes numbers beyond signed 64-bit integers as floats. */
function fits(digits: string): boolean {
  if (digits.length < 19) return true;
  return BigInt.asIntN(64, BigInt(digits)) === BigInt(digits);
}

function stringAt(reader: Reader): string {
  const { text, at } = reader;
  if (text[at] !== '"') throw new NoJson();
  let end = at + 1;
  for (; text[end] !== '"'; end++) {
    if (end >= text.length) throw new NoJson();
    if (text[end] === "\\") end++;
  }
  reader.at = end + 1;
  try {
    return quotedJson(JSON.parse(text.slice(at, end + 1)));
  } catch {
    throw new NoJson();
  }
}

function objectAt(reader: Reader, depth: number): Tree {
  const tree: Tree = new Map();
  reader.at++;
  skipSpace(reader);
  if (reader.text[reader.at] === "}") {
    reader.at++;
    return tree;
  }
  for (;;) {
    skipSpace(reader);
    const key = JSON.parse(stringAt(reader));
    expect(reader, ":");
    tree.set(key, valueAt(reader, depth + 1));
    if (expect(reader, ",", "}") === "}") return tree;
  }
}

function arrayAt(reader: Reader, depth: number): string {
  const parts: string[] = [];
  reader.at++;
  skipSpace(reader);
  if (reader.text[reader.at] === "]") {
    reader.at++;
    return "[]";
  }
  for (;;) {
    parts.push(textOfJson(valueAt(reader, depth + 1)));
    if (expect(reader, ",", "]") === "]") return `[${parts.join(",")}]`;
  }
}

function expect(reader: Reader, ...marks: string[]): string {
  skipSpace(reader);
  const mark = reader.text[reader.at++];
  if (!marks.includes(mark)) throw new NoJson();
  return mark;
}
