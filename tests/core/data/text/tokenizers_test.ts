// Tokenizers give the numbers that the real tiktoken and tokenizers give, on hostile texts; bad files are refused.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { translated } from "../../../../core/data/text/patterns.ts";
import { openTokenizer } from "../../../../core/data/text/open.ts";
import { BYTE_TOKENIZER, decode } from "../../../../core/data/text/tokenizer.ts";
import { peer } from "../../../peer.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { hostileTexts } from "./hostile.ts";

interface Told {
  readonly answers: Readonly<Record<string, { plain: number[][]; special: number[][] }>>;
}

/** Lacks the real libraries: the test says so. */
async function ask(folder: string, texts: readonly string[]): Promise<Told> {
  if (!Deno.env.get("HPCTRAIN_REAL_LIBRARIES")) {
    throw new Error(
      "HPCTRAIN_REAL_LIBRARIES is not set: it names the folder of the real libraries. ./scripts/test sets it.",
    );
  }
  const program = new URL("./tokenizers.py", import.meta.url).pathname;
  const asked = peer([program, folder], { stdin: "piped", stdout: "piped", stderr: "piped" }).spawn();
  const writer = asked.stdin.getWriter();
  const told = asked.output();
  await writer.write(new TextEncoder().encode(JSON.stringify(texts)));
  await writer.close();
  const { success, stdout, stderr } = await told;
  assert(success, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout));
}

Deno.test(
  "tokens are those of the real tiktoken and tokenizers on 2000 hostile texts, and decode to the text again",
  inFolder(async (folder) => {
    const texts = hostileTexts(2000);
    const { answers } = await ask(folder, texts);
    for (const [path, { plain, special }] of Object.entries(answers)) {
      const tokenizer = openTokenizer(join(folder, path));
      texts.forEach((text, i) => {
        const found = [...tokenizer.encode(text)];
        assertEquals(found, plain[i], `${path}: ${JSON.stringify(text)}`);
        assertEquals(
          [...tokenizer.encode(text, true)],
          special[i],
          `${path}, special: ${JSON.stringify(text)}`,
        );
        assert(special[i].every((token) => token < tokenizer.vocabulary));
        if (!/qwen|folded|sparse|unknown/.test(path)) {
          assertEquals(decode(tokenizer, found), text.replace(/^\ufeff/, ""));
        }
      });
    }
    for (const text of texts) {
      assertEquals(decode(BYTE_TOKENIZER, BYTE_TOKENIZER.encode(text)), text.replace(/^\ufeff/, ""));
    }
  }),
);

Deno.test("an expression whose repetition is repeated is refused, and those of real tokenizers are not", () => {
  for (
    const endless of [
      "(a+)+z",
      "(?:a|b*)*c",
      "((a+)b?)+z",
      "(a{1,3})+z",
      "(a+){20}z",
      "(?:(?:ab*){2,})+",
      "(a|a)+z",
      "(?:ab|a)*c",
    ]
  ) {
    assertMatch(
      assertThrows(() => translated(endless, "t.json"), UserError).message,
      /takes for ever/,
      endless,
    );
  }
  for (
    const real of [
      "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+(?!\\S)",
      "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?:\\P{N}|$))",
      "[\\p{Lu}\\p{M}]*[\\p{Ll}\\p{M}]+(?i:'s|'t|'re)?",
      "(?:\\r\\n)+|\\(a+\\)+",
    ]
  ) translated(real, "t.json");
});
