// A learnt vocabulary: that of Hugging Face's trainer, and packed with its texts.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { openTokenizer } from "../../../core/data/text/open.ts";
import { decode } from "../../../core/data/text/tokenizer.ts";
import { hostileTexts } from "../../../tests/core/data/text/hostile.ts";
import { inTemp, run, succeed } from "../../../tests/integration/program.ts";
import { peer } from "../../../tests/peer.ts";
import { vocabulary } from "../learn.ts";

const TEXTS = [
  ...hostileTexts(1000),
  "the quick brown fox don't jump over the lazy dogs, they've said; 1234 times in 2023.\n\n    return x\n"
    .repeat(3),
  "Straße, naïve café, Ελληνικά κείμενα, русский текст, 漢字かな交じり文 日本語, 한국어, العربية, हिन्दी 👍🏽\r\n"
    .repeat(3),
];

/** Lacks the real libraries: the test says so. */
async function theirs(size: number): Promise<{ vocab: Record<string, number>; merges: unknown[] }> {
  assert(Deno.env.get("HPCTRAIN_REAL_LIBRARIES"), "./scripts/test names the folder of the real libraries");
  const program = new URL("./learned.py", import.meta.url).pathname;
  const asked = peer([program, String(size)], { stdin: "piped", stdout: "piped", stderr: "piped" }).spawn();
  const told = asked.output(), writer = asked.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(TEXTS)));
  await writer.close();
  const { success, stdout, stderr } = await told;
  assert(success, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout));
}

Deno.test("a vocabulary has the tokens and the merges that Hugging Face's trainer learns", async () => {
  const words = vocabulary();
  for (const text of TEXTS) words.add(text);
  const { model } = JSON.parse(words.learn(700)), learned = await theirs(700);
  assertEquals(model.merges, learned.merges);
  assertEquals(model.vocab, learned.vocab);
});

Deno.test("pack learns a vocabulary of the size that is typed, keeps it, and packs with it", () =>
  inTemp(async (cwd) => {
    const document = (i: number) =>
      `Chapter ${i}. ${"the clocks were striking thirteen, naïve ".repeat(20 + i)}`;
    for (let i = 0; i < 20; i++) Deno.writeTextFileSync(join(cwd, `${i}.txt`), document(i));
    const files = Array.from({ length: 20 }, (_, i) => `${i}.txt`);
    await succeed(["pack", ...files, "tokens", "--train-tokenizer=300"], { cwd });
    const { model } = JSON.parse(Deno.readTextFileSync(join(cwd, "tokens/tokenizer.json")));
    assertEquals(Object.keys(model.vocab).length, 300);
    const tokenizer = openTokenizer(join(cwd, "tokens"));
    const tokens = new Uint16Array(Deno.readFileSync(join(cwd, "tokens/train.bin")).buffer);
    const first = decode(tokenizer, tokens.subarray(0, tokens.indexOf(tokenizer.end!)));
    assert(Array.from({ length: 20 }, (_, i) => document(i)).includes(first), first);
    const both = await run(["pack", ...files, "more", "--train-tokenizer=300", "--tokenizer=bytes"], { cwd });
    assertMatch(both.stderr, /leave one of them out/);
  }));
