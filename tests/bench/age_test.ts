import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  agingPages,
  codeOf,
  fingerprint,
  marked,
  MEASURED,
  older,
  publishedResults,
  wrongAges,
} from "../../bench/age.ts";
import { assertSentence } from "../sentences.ts";

const NOW = { section: "step", date: "2026-11-23", code: codeOf("step")! };
const OLD = { section: "step", date: "2026-11-21" };
const PAGE = "# A step\n\nText.\n";

Deno.test("each page of results that a benchmark writes has results, whose age is known", () => {
  const pages = Object.keys(agingPages()),
    results = new Set(publishedResults().map(({ section }) => section));
  assert(pages.length >= 15, pages.join());
  for (const name of pages) assert(results.has(name), `${name} has no results`);
  for (const name of results) assert(pages.includes(name), `${name} has no page`);
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
  assertSentence("bench/age: older code measured", other!);
  assertMatch(older(OLD)!, /measured at 2026-11-21/);
  assertEquals(codeOf("nothing-of-ours"), null);
});

Deno.test("a page gets its line once, and loses it when it is measured anew", () => {
  const once = marked(PAGE, [OLD]);
  assertMatch(once, /^# A step\n\n_Older than the code: .*\._\n\nText\.\n$/);
  assertEquals(marked(once, [OLD]), once);
  assertEquals(marked(once, [NOW]), PAGE);
});

Deno.test("a page that does not say its age is found, and so is one that says it without reason", () => {
  const aged = marked(PAGE, [OLD]);
  assertEquals(wrongAges({ step: PAGE }, [OLD]), { step: aged });
  assertEquals(wrongAges({ step: aged }, [NOW]), { step: PAGE });
  assertEquals(wrongAges({ step: aged }, [OLD]), {});
});
