// The linter of words: turns of phrase in documents and messages, and what is left alone.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { lintProse, messagesOf, proseOf } from "../../scripts/lib/prose.ts";

const BAD = [
  "A file of one's own is read.",
  "The name is told in one line.",
  "It is hpctrain unless told.",
  "Ranks meet as told below.",
  "The loss hangs on the data.",
  "A flag that nobody heeds.",
  "Values parted by commas.",
  "The file is written\nanew.",
  "A step is left in its midst.",
  "Take others if need be.",
  "Spelled as numpy has it.",
  "It ends, for there is nothing to save.",
  "A line tells of it.",
  "The text thereof.",
  "It is read. Of a large file the first rows are.",
  "- Of other data all of it.",
];
const GOOD = [
  "Rank 0 was told to listen. Two classes are told apart.",
  "It hangs on to the file, as others have.",
  "Of course it does. The first of a large file.",
  "The latest file, for each of them.",
  "```sh\nwrite it anew\n```\n",
  "The word `anew` itself. <!-- is told -->",
];

Deno.test("each turn of the list is found, and what is English or code is not", () => {
  for (const text of BAD) assertEquals(lintProse(proseOf(text)).length, 1, text);
  for (const text of GOOD) assertEquals(lintProse(proseOf(text)), [], text);
});

Deno.test("a finding has its line and what to write", () => {
  const [{ line, kind, text }] = lintProse(proseOf("# Title\n\n```\nanew\n```\n\nIt begins\nanew."));
  assertEquals([line, kind], [8, "archaic"]);
  assertStringIncludes(text, '"anew": write again');
});

Deno.test("the messages of a source are read, its comments and names are not", () => {
  const source =
    '// is told\nconst anew = 1;\nthrow new Error(`${anew} is told\nhere`);\nconst a = "if need be";\n';
  assertEquals(lintProse(messagesOf(source)).map(({ line }) => line), [3, 5]);
});
