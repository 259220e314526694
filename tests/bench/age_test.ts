import { assert, assertEquals, assertMatch } from "@std/assert";
import { codeOf, fingerprint, marked, MEASURED, older, publishedResults } from "../../bench/age.ts";

const root = new URL("../../", import.meta.url);

Deno.test("no section of the page is older than the code it speaks of without saying so", async () => {
  const page = await Deno.readTextFile(new URL("docs/benchmarks.md", root));
  const flat = (text: string) => text.replaceAll(/\s+/g, " ");
  assertEquals(
    flat(page),
    flat(marked(page)),
    "Run the benchmark again, or ./scripts/bench age, which says how old it is.",
  );
});

Deno.test("each section of the page is known by what it measures, and each has results", async () => {
  const page = await Deno.readTextFile(new URL("docs/benchmarks.md", root));
  const sections = [...page.matchAll(/<!-- ([\w-]+): written by scripts\/bench -->/g)].map(([, name]) =>
    name
  );
  const results = new Set(publishedResults().map(({ section }) => section));
  for (const name of sections.filter((name) => name !== "exported-models")) {
    assert(Object.hasOwn(MEASURED, name), `bench/age.ts does not say what "${name}" measures`);
    assert(results.has(name), `${name} has no results`);
  }
});

Deno.test("results carry the commit and a fingerprint of what they measure, and are old when that differs", () => {
  const code = codeOf("loader-amd-epyc")!;
  assertEquals(code.fingerprint, fingerprint(MEASURED.loader));
  assertEquals(older({ section: "loader", date: "2026-11-23", code }), null);
  const other = older({
    section: "loader",
    date: "2026-11-23",
    code: { commit: "abc1234", fingerprint: "0" },
  });
  assertMatch(
    other!,
    /^_Older than the code: measured at commit abc1234, 2026-11-23; .*`core\/data`.* changed since\._$/,
  );
  assertMatch(older({ section: "step", date: "2026-11-21" })!, /measured at 2026-11-21/);
  assertEquals(codeOf("nothing-of-ours"), null);
});

Deno.test("a section gets its line once, and loses it when it is measured anew", () => {
  const page =
    "# P\n\n<!-- step: written by scripts/bench -->\n\n## A step\n\nText.\n\n<!-- end of step -->\n";
  const old = [{ section: "step", date: "2026-11-21" }];
  const once = marked(page, old);
  assertMatch(once, /## A step\n\n_Older than the code: .*\._\n\nText\./);
  assertEquals(marked(once, old), once);
  assertEquals(marked(once, [{ section: "step", date: "2026-11-23", code: codeOf("step")! }]), page);
});
