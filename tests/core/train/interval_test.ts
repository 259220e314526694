import { assertEquals } from "@std/assert";
import { every } from "../../../core/train/interval.ts";

const due = (text: string, stepsPerEpoch: number, steps: number) => {
  const is = every(text, stepsPerEpoch);
  return Array.from({ length: steps }, (_, i) => i + 1).filter(is);
};

Deno.test("an interval of steps falls on its multiples", () => {
  assertEquals(due("4steps", 10, 12), [4, 8, 12]);
  assertEquals(due("4", 10, 12), [4, 8, 12]);
});

Deno.test("an interval of epochs is counted in steps, and parts of an epoch too", () => {
  assertEquals(due("1ep", 5, 12), [5, 10]);
  assertEquals(due("0.5ep", 10, 12), [5, 10]);
  assertEquals(due("0.001ep", 10, 3), [1, 2, 3]);
});

Deno.test("an interval of zero never comes", () => {
  assertEquals(due("0", 10, 100), []);
});

Deno.test("an interval of time comes when it has passed, and again only after as long", async () => {
  const is = every("0.05s", 10);
  assertEquals(is(1), false);
  await new Promise((resolve) => setTimeout(resolve, 60));
  assertEquals([is(2), is(3)], [true, false]);
});
