import { assertEquals } from "@std/assert";
import { machine, median, table, withSection } from "../../bench/report.ts";

Deno.test("the median is the middle value, or the mean of the two in the middle", () => {
  assertEquals([median([3, 1, 2]), median([10, 1, 2, 3]), median([5])], [2, 2.5, 5]);
});

Deno.test("the median leaves the values in their order", () => {
  const values = [3, 1, 2];
  median(values);
  assertEquals(values, [3, 1, 2]);
});

Deno.test("a section is added once and then replaced, and the rest of the page stays", () => {
  const first = withSection("# Page\n\nBefore.\n", "step", "one", "x");
  const both = withSection(first, "io", "other", "x") + "\nAfter.\n";
  const replaced = withSection(both, "step", "two", "x");
  assertEquals(replaced, both.replace("\none\n", "\ntwo\n"));
  assertEquals([first.includes("one"), replaced.includes("one"), replaced.includes("After.")], [
    true,
    false,
    true,
  ]);
});

Deno.test("a table is Markdown with figures to the right", () => {
  assertEquals(table(["a", "b"], [["x", "1"]]), "| a | b |\n| --- | ---: |\n| x | 1 |");
});

Deno.test("the machine is described without its name", () => {
  const found = machine();
  assertEquals([found.cores > 0, found.memoryGiB > 0, found.cpu === ""], [true, true, false]);
  assertEquals(JSON.stringify(found).includes(Deno.hostname()), false);
});
