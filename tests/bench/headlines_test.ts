// What docs/benchmarks.md shows: it is what the results say, and no loss is left out.
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { headlines } from "../../bench/headlines.ts";
import { publishedHeadlines } from "../../bench/page.ts";

const generated = (rates: Record<string, number[]>) => ({
  name: "generate",
  text: JSON.stringify({ date: "2026-11-27", rows: [{ title: "4 x 128", threads: 1, rates }] }),
});

Deno.test("docs/benchmarks.md shows what the files of results say", async () => {
  const page = await Deno.readTextFile(new URL("../../docs/benchmarks.md", import.meta.url));
  const plain = (text: string) => text.replaceAll(/[\s|:-]+/g, " ");
  assertStringIncludes(plain(page), plain(publishedHeadlines()), "run ./scripts/bench age");
});

Deno.test("a comparison that is lost stands on the page, with both figures and the day", () => {
  const page = headlines([generated({ hpctrain: [90, 100, 95], eager: [100, 110, 105] })]);
  assertStringIncludes(page, "### Slower: 1 of 1 comparisons");
  assertMatch(
    page,
    /\| generate, 4 x 128, 1 thread \| 95\.0 tokens\/s \| 105 tokens\/s, eager \| 0\.90x \| generate, 11-27 \|/,
  );
});

Deno.test("hpctrain is compared with the best of the others, not with the worst", () => {
  const text = JSON.stringify({
    date: "2026-11-27",
    cases: [{
      title: "MLP, batch 32; one thread",
      rounds: { eager: [900], compile: [300], off: [450], exact: [200], fast: [100] },
      first: { fast: 1, compile: 3 },
    }],
  });
  assertMatch(
    headlines([{ name: "compile", text }]),
    /\| MLP; one thread, `--compile` \| 100 us \| 300 us, torch\.compile \| 3\.00x \|/,
  );
});

Deno.test("results without a comparison, or of nothing that is known, give none", () => {
  assertEquals(
    headlines([{ name: "storm", text: "{}" }, { name: "meeting", text: "{}" }]),
    headlines([]),
  );
});
