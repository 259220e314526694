// What docs/benchmarks.md shows: it is what the results say, and no loss is left out.
import { assert, assertEquals, assertMatch, assertNotMatch, assertStringIncludes } from "@std/assert";
import { byCommandLine, headlines } from "../../bench/headlines.ts";
import { publishedByCommandLine, publishedHeadlines } from "../../bench/page.ts";

const generated = (rates: Record<string, number[]>) => ({
  name: "generate",
  text: JSON.stringify({ date: "2026-11-27", rows: [{ title: "4 x 128", threads: 1, rates }] }),
});

const page = (path: string) => Deno.readTextFileSync(new URL(`../../${path}`, import.meta.url));
const plain = (text: string) => text.replaceAll(/[\s|:-]+/g, " ");

Deno.test("docs/benchmarks.md shows what the files of results say", () => {
  assertStringIncludes(
    plain(page("docs/benchmarks.md")),
    plain(publishedHeadlines()),
    "run ./scripts/bench age",
  );
});

Deno.test("README's figures are those of results that carry a command line, and none was written by hand", () => {
  const readme = page("README.md"), [, table = ""] = readme.split(/<!-- (?:end of )?measured[^>]*-->/);
  assertEquals(plain(table).trim(), plain(publishedByCommandLine()).trim(), "run ./scripts/bench age");
  const prose = readme.replace(table, "").replaceAll(/```[^]*?```/g, ""); // what a run printed is no claim
  assertNotMatch(prose, /\d (ms|us|µs|(samples|tokens|images)\/s)\b|\dx\b|\btimes as fast/);
});

/** A file of results of one job, which took PyTorch two seconds. */
const job = (
  seconds: number,
  threads = 2,
  command: string | undefined = "hpctrain train --data-path a.csv",
) => {
  const took = (all: number[]) => ({ seconds: all, others: [0] });
  const sides = { hpctrain: { command, ...took([seconds]) }, PyTorch: took([2, 1.9, 2.1]) };
  return {
    name: "jobs",
    text: JSON.stringify({
      date: "2026-11-28",
      rows: { [`photos, ${threads} threads`]: { title: "a table", threads, sides } },
    }),
  };
};

Deno.test("README has the chief comparisons of command lines, and every one that is lost", () => {
  const won = /\| a table, 2 threads \| 1\.0 s \| 2\.0 s, PyTorch \| 2\.00x \| jobs, 11-28 \|/;
  assertMatch(byCommandLine([job(1)]), won);
  assertMatch(headlines([job(1)]), won);
  const lost = /\| a table, one thread \| 4\.0 s \| 2\.0 s, PyTorch \| 0\.50x \|/;
  assertMatch(byCommandLine([job(4, 1)]), lost);
  assertNotMatch(byCommandLine([job(1, 1)]), /a table/); // not chief, and not lost
  assertNotMatch(byCommandLine([job(4, 2, "")]), /a table/);
  assertNotMatch(byCommandLine([generated({ hpctrain: [1], eager: [2] })]), /generate/);
});

Deno.test("a loader that is faster than ours stands among what is slower", () => {
  const speed = { rounds: { hpctrain: [100, 110], pytorch: [200, 220] } };
  const text = JSON.stringify({
    date: "2026-11-29",
    speed: {},
    first: {},
    memory: {},
    others: [{ set: "crops", other: "ffcv", speed }],
  });
  const [, slower] = headlines([{ name: "loader", text }]).split("### Slower");
  assertMatch(slower, /reading JPEGs with resized crops \| 105 samples\/s \| 210 samples\/s, FFCV \| 0\.50x/);
});

Deno.test("each row of the published results of whole jobs and steps carries what was typed on every side", () => {
  const read = (name: string) => {
    try {
      return JSON.parse(page(`bench/results/${name}.json`));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return {}; // not measured yet
      throw error;
    }
  };
  for (
    const { sides } of Object.values<{ sides: Record<string, { command: string }> }>(read("jobs").rows ?? {})
  ) {
    for (const [side, { command }] of Object.entries(sides)) assertMatch(command, lineOf(side), side);
    assert(sides.hpctrain && sides.PyTorch, Object.keys(sides).join());
  }
  for (
    const { commands, rounds } of Object.values<Record<string, Record<string, string>>>(
      read("step").steps ?? {},
    )
  ) {
    for (const side of Object.keys(rounds)) assertMatch(commands[side], lineOf(side), side);
  }
});

const lineOf = (side: string) =>
  side.startsWith("hpctrain") ? /^hpctrain train --\S+ \S+/ : /^python3 \w+\.py \S+/;

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
      rounds: { eager: [900], compile: [300], off: [450], exact: [200], fast: [400] },
      first: { fast: 1, compile: 3 },
    }],
  });
  assertMatch(
    headlines([{ name: "compile", text }]),
    /\| MLP; one thread, `--compile` \| 400 us \| 300 us, torch\.compile \| 0\.75x \|/,
  );
});

Deno.test("results without a comparison, or of nothing that is known, give none", () => {
  assertEquals(
    headlines([{ name: "storm", text: "{}" }, { name: "meeting", text: "{}" }]),
    headlines([]),
  );
});
