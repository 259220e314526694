import { assertEquals } from "@std/assert";
import {
  bad,
  exitCode,
  findingsSummary,
  findingsTable,
  good,
  olderVersion,
  warn,
} from "../../../../core/cluster/doctor/check.ts";
import { assertSentence } from "../../../sentences.ts";

const LINES = [
  good("glibc", "2.36"),
  warn("cores", "one\n  of two", "Ask for more."),
  bad("libtorch", "none", "Install it."),
];

Deno.test("each finding is one line, aligned, with what to do behind it", () => {
  assertEquals(findingsTable(LINES).split("\n"), [
    "  good  glibc     2.36",
    "  warn  cores     one; of two. Ask for more.",
    "  bad   libtorch  none. Install it.",
  ]);
});

Deno.test("the verdict names what is wrong, and only bad ends with 1", () => {
  assertSentence("core/cluster/doctor/report: verdict training would", findingsSummary(LINES));
  assertSentence("core/cluster/doctor/report: verdict training works", findingsSummary(LINES.slice(0, 2)));
  assertEquals(findingsSummary(LINES.slice(0, 1)), "Verdict: good. Training works here.");
  assertEquals([1, 2, 3].map((n) => exitCode(LINES.slice(0, n))), [0, 0, 1]);
});

Deno.test("versions are compared by numbers", () => {
  const pairs = [["2.9", "2.10"], ["2.10", "2.9"], ["560.28.03", "560"], ["550.54.14", "550.54.15"]];
  assertEquals(pairs.map(([a, b]) => olderVersion(a, b)), [true, false, false, true]);
});
