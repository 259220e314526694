// What a step may ask of a GPU.
import { assertEquals } from "@std/assert";
import { overspent } from "./budgets.ts";

Deno.test("less than a budget is no mistake; more, and what has no budget, is told", () => {
  const budget = { calls: 9, launches: 40 };
  assertEquals(overspent({ calls: 9, launches: 39 }, budget), []);
  assertEquals(overspent({ calls: 10, launches: 40, waits: 1 }, budget), [
    "calls: 10 of 9",
    "waits: 1 of undefined",
  ]);
});
