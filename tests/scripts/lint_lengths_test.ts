// The linter of lengths: which functions it finds, and what it leaves alone.
import { assertEquals } from "@std/assert";
import { fromFileUrl } from "paths";
import plugin from "../../scripts/lint_lengths.ts";

const linesFound = (source: string, file = "core/x.ts"): number[] =>
  Deno.lint.runPlugin(plugin, fromFileUrl(new URL(`../../${file}`, import.meta.url)), source)
    .map(({ message }) => Number(/has (\d+) lines/.exec(message)![1]));

/** A body that makes its function so many lines long. */
const body = (lines: number) => `{\n${"work();\n".repeat(lines - 2)}}`;

const KINDS: Readonly<Record<string, (body: string) => string>> = {
  "a function": (body) => `export function f() ${body}`,
  "a function that is exported as it stands": (body) => `export default function () ${body}`,
  "an arrow function": (body) => `const f = () => ${body};`,
  "a method": (body) => `class A { f() ${body} }`,
  "a private method": (body) => `class A { #f() ${body} }`,
  "a constructor": (body) => `class A { constructor() ${body} }`,
  "a getter": (body) => `class A { get f() ${body} }`,
  "a method of an object": (body) => `const a = { f() ${body} };`,
  "a function that is handed over": (body) => `const done = run(() => ${body});`,
  "a function in another": (body) => `function* f() {\nyield function () ${body};\n}`,
};

for (const [name, of] of Object.entries(KINDS)) {
  Deno.test(`${name} may have 100 lines, and with 101 it is found`, () => {
    const found = (lines: number) => linesFound(of(body(lines))).filter((found) => found === lines);
    assertEquals([found(100), found(101)], [[], [101]]);
  });
}

Deno.test("lines of parameters count, and lines around a function do not", () => {
  assertEquals(linesFound(`function f(\n  a: string,\n) ${body(98)}`), []);
  assertEquals(linesFound(`function f(\n  a: string,\n) ${body(99)}`), [101]);
  assertEquals(linesFound(`// A comment.\n\nfunction f() ${body(60)}\nfunction g() ${body(60)}`), []);
});

Deno.test("core, ffi, commands and extensions are judged, and a page's script is no function of itself", () => {
  const long = KINDS["a function"](body(200));
  for (const file of ["core/a/b.ts", "ffi/a.ts", "commands/a.ts", "extensions/a/b/c.ts"]) {
    assertEquals(linesFound(long, file), [200]);
  }
  for (const file of ["tests/core/a_test.ts", "scripts/a.ts", "extensions/a/tests/b.ts"]) {
    assertEquals(linesFound(long, file), []);
  }
  const page = (inner: string) => `// Charts.\n(() => {\n${inner}\n})();\n`;
  assertEquals(linesFound(page(`${"work();\n".repeat(200)}`), "core/page.js"), []);
  assertEquals(linesFound(page(KINDS["an arrow function"](body(200))), "core/page.js"), [200]);
});

Deno.test("`deno lint` runs it", async () => {
  const { lint } = JSON.parse(await Deno.readTextFile(new URL("../../deno.json", import.meta.url)));
  assertEquals(lint.plugins.includes("./scripts/lint_lengths.ts"), true);
});
