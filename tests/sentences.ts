// The sentences that tests expect, each by its name: their words stand in sentences.golden.json and in no test, so
// that another wording is a change of that file alone, which is read in review. Test helper.
//
// In the file, `…` stands for any text, and `{name}` for the value of that name which a test gives. With
// HPCTRAIN_UPDATE_SENTENCES=1 a test writes the sentence that it got where another one stood, or none.
import { assert, assertEquals, AssertionError } from "@std/assert";
import { type ExitKind, UserError } from "../core/base/errors.ts";

export type Values = Readonly<Record<string, string | number>>;
type Said = string | readonly string[] | Error | null | undefined;
type Golden = Record<string, string>;

const FILE = new URL("sentences.golden.json", import.meta.url);
const read = (): Golden => JSON.parse(Deno.readTextFileSync(FILE));
const golden = read();

/** The words of a sentence, for tables and for what more than a sentence is compared with. */
export function sentenceNamed(name: string, values: Values = {}): string {
  const text = golden[name];
  assert(text !== undefined, `"${name}" is not in tests/sentences.golden.json: write its words there.`);
  return filled(text.replace(/^…|…$/g, ""), values);
}

/** Fails unless `actual`, or one of it, is the sentence of that name; a part of it, where `…` stands at an end. */
export function assertSentence<T extends Said>(
  name: string,
  actual: T,
  values: Values = {},
): T {
  const got = textsOf(actual);
  const expected = golden[name];
  if (expected !== undefined && got.some((text) => fits(expected, text, values))) return actual;
  if (Deno.env.get("HPCTRAIN_UPDATE_SENTENCES") === "1") {
    write(name, renewed(expected, got.join("\n"), values));
    return actual;
  }
  const words = expected === undefined ? "which has none yet" : filled(expected, values);
  throw new AssertionError(
    `The sentence "${name}" of tests/sentences.golden.json, ${words}\n\nis not what came:\n${
      got.join("\n")
    }\n\n` +
      "If the new words are meant, run the test with HPCTRAIN_UPDATE_SENTENCES=1 and read the change of that file.",
  );
}

/** Fails unless `error` is a user's mistake of that kind, told in the sentence of that name. */
export function assertRefusal(kind: ExitKind, name: string, error: unknown, values: Values = {}): UserError {
  assert(error instanceof UserError, `A UserError was expected, not ${error}`);
  assertEquals(error.kind, kind);
  return assertSentence(name, error, values);
}

export function fits(expected: string, actual: string, values: Values): boolean {
  const [, before, text, after] = /^(…?)([^]*?)(…?)$/.exec(expected)!;
  const pieces = text.split("…").map((piece) => RegExp.escape(filled(piece, values)));
  return new RegExp(`${before ? "" : "^"}${pieces.join(".*?")}${after ? "" : "$"}`).test(actual);
}

/** What to expect from now on: all of `actual`, or its line with the most words of what was expected, where that was a part. */
export function renewed(expected: string | undefined, actual: string, values: Values): string {
  const text = Object.entries(values).reduce(
    (text, [name, value]) => text.replaceAll(String(value), `{${name}}`),
    actual,
  );
  if (expected === undefined || !/^…|…$/.test(expected)) return text;
  const words = new Set(expected.split(/[\s…]+/));
  const shared = (line: string) => line.split(/\s+/).filter((word) => words.has(word)).length;
  return `…${text.split("\n").reduce((best, line) => shared(line) > shared(best) ? line : best)}…`;
}

const textsOf = (said: Said): readonly string[] =>
  said instanceof Error ? [said.message] : typeof said === "string" ? [said] : said ?? [];

const filled = (text: string, values: Values): string =>
  text.replace(/\{(\w+)\}/g, (whole, name) => name in values ? String(values[name]) : whole);

/** Tests of several processes write into the one file. */
function write(name: string, text: string): void {
  using file = Deno.openSync(FILE, { read: true, write: true });
  file.lockSync(true);
  const entries = Object.entries({ ...read(), [name]: text }).sort(([a], [b]) => a < b ? -1 : 1);
  Deno.writeTextFileSync(FILE, JSON.stringify(Object.fromEntries(entries), null, 2) + "\n");
}
