// The file of expected sentences: each is used, what a test names is there, and another wording fails.
import { assertEquals, AssertionError, assertStringIncludes, assertThrows } from "@std/assert";
import { UserError } from "../core/base/errors.ts";
import { assertRefusal, assertSentence, fits, renewed, sentenceNamed } from "./sentences.ts";

const ROOT = new URL("../", import.meta.url).pathname;
const FILE = "tests/sentences.golden.json";
const golden: Record<string, string> = JSON.parse(Deno.readTextFileSync(ROOT + FILE));

function testsIn(folder: string): string[] {
  return [...Deno.readDirSync(ROOT + folder)].flatMap(({ name, isDirectory }) => {
    const path = `${folder}/${name}`;
    return isDirectory ? testsIn(path) : path.endsWith(".ts") ? [path] : [];
  });
}

Deno.test("each entry of sentences.golden.json is named by a test, and each name of a test is an entry", () => {
  const sources = ["tests", "extensions"].flatMap(testsIn)
    .filter((path) => !/sentences(_test)?\.ts$/.test(path))
    .map((path) => Deno.readTextFileSync(ROOT + path));
  const CALL = /\b(?:(?:assertSentence|sentenceNamed)\(|assertRefusal\(\s*"\w+",)\s*"([^"]+)"/g;
  // Rows of a table have the rest of the name: `core/x: ${name}`.
  const ROWS = /\b(?:(?:assertSentence|sentenceNamed)\(|assertRefusal\(\s*"\w+",)\s*`([^`$]+)\$\{\w+\}`/g;
  const inRows = (source: string) =>
    [...source.matchAll(ROWS)].flatMap(([, start]) =>
      Object.keys(golden).filter((name) =>
        name.startsWith(start) && new RegExp(`\\b${RegExp.escape(name.slice(start.length))}\\b`).test(source)
      )
    );
  const named = new Set(
    sources.flatMap((source) => [...[...source.matchAll(CALL)].map(([, name]) => name), ...inRows(source)]),
  );
  assertEquals([...named].filter((name) => !(name in golden)), []);
  assertEquals(Object.keys(golden).filter((name) => !named.has(name)), []);
});

Deno.test("sentences.golden.json is in the order of its names, as an update writes it", () => {
  const sorted = Object.entries(golden).sort(([a], [b]) => a < b ? -1 : 1);
  assertEquals(
    Deno.readTextFileSync(ROOT + FILE),
    JSON.stringify(Object.fromEntries(sorted), null, 2) + "\n",
  );
});

Deno.test("assertSentence fails with both wordings where they differ, also where the sentence is a part of more", () => {
  const [whole, part] = ["core/train/loop: stopped early better", "commands/help: debug preset debug"];
  assertSentence(whole, golden[whole]);
  assertSentence(whole, ["another", golden[whole]]);
  for (const other of [`${golden[whole]}.`, ` ${golden[whole]}`, "", undefined, null, []]) {
    const error = assertThrows(() => assertSentence(whole, other), AssertionError);
    assertStringIncludes(error.message, golden[whole]);
  }
  const inside = sentenceNamed(part);
  assertEquals(golden[part], `…${inside}…`);
  assertSentence(part, `before\n${inside} after`);
  assertThrows(() => assertSentence(part, `before ${inside.slice(1)}`), AssertionError);
  assertThrows(() => assertSentence("core/x: nowhere", "text"), AssertionError, "none yet");
  assertThrows(() => sentenceNamed("core/x: nowhere"), AssertionError, "is not in tests/");
});

Deno.test("assertRefusal fails for another kind, and for an error that is no mistake of the user", () => {
  const name = "core/train/loop: stopped early better", text = golden[name];
  assertEquals(assertRefusal("usage", name, new UserError("usage", text)).kind, "usage");
  assertThrows(() => assertRefusal("data", name, new UserError("usage", text)), AssertionError);
  assertThrows(() => assertRefusal("usage", name, new Error(text)), AssertionError);
});

Deno.test("an entry's values are compared, and `…` stands for the rest of a line", () => {
  assertEquals(fits("{path} is {n} (a.b)", "x.csv is 3 (a.b)", { path: "x.csv", n: 3 }), true);
  assertEquals(fits("{path} is {n} (a.b)", "x.csv is 4 (a.b)", { path: "x.csv", n: 3 }), false);
  assertEquals(fits("{path} is (a.b)", "x is (acb)", { path: "x" }), false);
  assertEquals([fits("a…c", "a b c", {}), fits("a…c", "a\nc", {}), fits("a…c", "a b", {})], [
    true,
    false,
    false,
  ]);
});

Deno.test("an update keeps an entry's values by name, and finds the line of a part", () => {
  assertEquals(renewed("old {path}", "new /tmp/x", { path: "/tmp/x" }), "new {path}");
  assertEquals(renewed(undefined, "a line", {}), "a line");
  assertEquals(renewed("…the loss is NaN…", "first\nthe loss was NaN\nlast", {}), "…the loss was NaN…");
});
