// What bash makes of words that were quoted.
import { assert, assertEquals } from "@std/assert";
import { quote, quoteAll, quoteLines } from "../../../core/base/shell.ts";
import { HOSTILE } from "../cluster/script/hostile.ts";

async function bash(script: string): Promise<string[]> {
  const { stdout, stderr } = await new Deno.Command("bash", { args: ["-c", script] }).output();
  assertEquals(new TextDecoder().decode(stderr), "");
  return new TextDecoder().decode(stdout).split("\0").slice(0, -1);
}

Deno.test("200 hostile words come out of bash as they went in, all on one line", async () => {
  assertEquals(new Set(HOSTILE).size, 200);
  assertEquals(await bash(`printf '%s\\0' ${quoteAll(HOSTILE)}`), HOSTILE);
  for (const word of HOSTILE) assertEquals(quote(word).includes("\n"), false, JSON.stringify(word));
});

Deno.test("the locale of the node changes nothing", async () => {
  const words = HOSTILE.filter((word) => /[^\p{ASCII}]/u.test(word));
  assert(words.length > 10);
  assertEquals(await bash(`LC_ALL=C; printf '%s\\0' ${quoteAll(words)}`), words);
});

Deno.test("words that need no quotes get none", () => {
  for (const word of ["train", "--lr=1e-4", "a/b.c", "1e-3", "-n", "--set=model.layers=3"]) {
    assertEquals(quote(word), word);
  }
  assertEquals(quote("two words"), "'two words'");
});

Deno.test("a long line is folded, and a flag stays with its value", async () => {
  const words = ["train", ...Array.from({ length: 30 }, (_, i) => [`--flag-${i}`, `value ${i}`]).flat()];
  const folded = quoteLines(words);
  assert(folded.split("\n").length > 5);
  for (const line of folded.split("\n")) assert(line.length <= 100, line);
  assertEquals(/--flag-\d+ \\\n/.test(folded), false);
  assertEquals(await bash(`printf '%s\\0' ${folded}`), words);
});

Deno.test("a piece of shell is left to be expanded in the job", async () => {
  assertEquals(await bash(`X='a  b'; printf '%s\\0' ${quoteAll(["$X", { shell: '"$X"' }])}`), ["$X", "a  b"]);
});
