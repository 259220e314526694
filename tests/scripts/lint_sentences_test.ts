// The linter of sentences in tests: which literals it finds, and what it leaves alone.
import { assertEquals } from "@std/assert";
import { fromFileUrl } from "paths";
import plugin from "../../scripts/lint_sentences.ts";

const found = (source: string, file = "tests/core/x_test.ts"): number =>
  Deno.lint.runPlugin(plugin, fromFileUrl(new URL(`../../${file}`, import.meta.url)), source).length;

const LONG = '"The file has no samples: name another one with --data-path FILE."';

const FOUND = [
  `assertEquals(error.message, ${LONG});`,
  `assertEquals(notes, ["Done.", ${LONG}]);`,
  `assertEquals([code, line], [2, failed ? ${LONG} : ""]);`,
  `assertEquals(of(1), { state: "bad", said: ${LONG} });`,
  `assertStringIncludes(stderr, ${LONG});`,
  `assert(error.message.includes(${LONG}));`,
  `assert(!notes.some((note) => note.startsWith(${LONG})), "none");`,
  `assertThrows(() => open(path), UserError, ${LONG});`,
  `await assertRejects(() => open(path), UserError, ${LONG});`,
  "assertEquals(line, `The file ${path} has no samples: name another with --data-path FILE.`);",
  'assertEquals(line, "The file has no samples: name " + other + " or another with --data-path.");',
  `await refused(path, ${LONG});`,
  "assertMatch(stderr, /^The file .* has no samples: name another one \\(--data-path FILE\\)/);",
];

for (const source of FOUND) {
  Deno.test(`pinned-sentence finds ${source}`, () => assertEquals(found(source), 1));
}

const LEFT = [
  `assertSentence("core/x: no samples", error);`,
  `assertEquals(line, "The file has no samples: name another.");`, // as short as a flag with its value
  `assertEquals(text, "${"0123456789 ".repeat(9)}");`,
  `assertEquals(text, "path/to/a/file.json other/path/to/a/file.json --flag=3");`,
  "assertMatch(stderr, /^The file \\S+ has \\d+ samples: name another one \\(--data-path FILE\\)/);",
  `assertEquals(measured, 3, ${LONG});`, // what is printed where it fails
  `assert(measured < 3, ${LONG});`,
  `assertEquals(parse(${LONG}), 3);`, // what a function is called with
  `assertThrows(() => parse(${LONG}), UserError, "no samples");`,
  `write(path, ${LONG});`,
];

for (const source of LEFT) {
  Deno.test(`pinned-sentence leaves ${source}`, () => assertEquals(found(source), 0));
}

Deno.test("pinned-sentence judges tests alone, those of extensions among them", () => {
  const of = (file: string) => found(FOUND[0], file);
  assertEquals(of("extensions/bpe/tests/x_test.ts"), 1);
  assertEquals(["core/x.ts", "extensions/bpe/x.ts", "scripts/x.ts"].map(of), [0, 0, 0]);
});

Deno.test("`deno lint` runs pinned-sentence", async () => {
  const { lint } = JSON.parse(await Deno.readTextFile(new URL("../../deno.json", import.meta.url)));
  assertEquals(lint.plugins.includes("./scripts/lint_sentences.ts"), true);
});
