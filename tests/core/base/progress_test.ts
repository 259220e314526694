// The line of a long piece of work: how far, how fast, how long still.
import { assertEquals } from "@std/assert";
import { openProgress, progressLine } from "../../../core/base/progress.ts";

Deno.test("the time left counts what this run has done, not what an earlier one had", () => {
  const at = { done: 3000, kept: 1000, total: 5000 };
  assertEquals(progressLine("Packing", at, 10), "Packing: 3000 of 5000 samples | 200 samples/s | 10 s left");
  assertEquals(progressLine("Packing", { ...at, done: 1000 }, 0.1), "Packing: 1000 of 5000 samples");
});

for (const isTerminal of [true, false]) {
  Deno.test(`on ${isTerminal ? "a terminal the line is redrawn" : "paper there is a line every 10 s"}`, () => {
    let time = 0, text = "";
    const line = openProgress("Making", { isTerminal, now: () => time, write: (more) => text += more });
    for (const [at, done] of [[1000, 1], [1050, 2], [10_000, 10], [15_000, 15]]) {
      time = at;
      line.update({ done, kept: 0, total: 20 });
    }
    line.clear();
    const said = (text: string) => `Making: ${text} left`;
    const erase = "\r\x1b[2K";
    assertEquals(
      text,
      isTerminal
        ? [
          said("1 of 20 samples | 1.00 samples/s | 19 s"),
          said("10 of 20 samples | 1.00 samples/s | 10 s"),
          said("15 of 20 samples | 1.00 samples/s | 5 s"),
        ]
          .map((line) => erase + line).join("") + erase
        : said("10 of 20 samples | 1.00 samples/s | 10 s") + "\n",
    );
    openProgress("Making", { isTerminal, quiet: true, now: () => 1e9, write: () => assertEquals(1, 2) })
      .update({ done: 1, kept: 0, total: 2 });
  });
}
