import { assert, assertEquals, assertRejects } from "@std/assert";
import { linesOf, startContestant } from "../../bench/contestant.ts";
import { type Starter, startups } from "../../bench/step.ts";

const shell = (name: string, script: string): Starter => ({
  name,
  program: "sh",
  args: ["-c", script],
  says: /^step/,
  files: [],
});

Deno.test("a start is timed to the line that is waited for, not to the program's end", async () => {
  const found = await startups(
    [shell("quick", "echo step; sleep 5"), shell("slow", "sleep 0.2; echo step")],
    "",
    1,
    false,
  );
  assert(found.quick[0] < 5 && found.slow[0] >= 0.2, JSON.stringify(found));
});

Deno.test("a program that fails, or ends without its line, is named with what it said", async () => {
  const run = (script: string) => startups([shell("peer", script)], "", 1, false);
  await assertRejects(() => run("echo no luck >&2; exit 3"), Error, "peer made no step: no luck");
  await assertRejects(() => run("echo other"), Error, "peer made no step");
});

Deno.test("a contestant answers each round, and one that ends is an error with its last words", async () => {
  const script =
    `echo '{"ready": true}'; while read n; do echo "{\\"seconds\\": $n, \\"loss\\": 1, \\"peak\\": 2}"; done`;
  const contestant = await startContestant("sh", ["-c", script]);
  assertEquals(await contestant.round(3), { seconds: 3, loss: 1, peak: 2 });
  assertEquals((await contestant.round(5)).seconds, 5);
  await contestant.end();
  await assertRejects(() => startContestant("sh", ["-c", "echo broken >&2"]), Error, "ended: broken");
});

Deno.test("lines come whole, however the bytes arrive", async () => {
  const stream = ReadableStream.from(["on", "e\ntw", "o\nthree\n"].map((s) => new TextEncoder().encode(s)));
  assertEquals(await Array.fromAsync(linesOf(stream)), ["one", "two", "three"]);
});
