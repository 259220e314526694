import { assertEquals } from "@std/assert";
import { hiddenShares } from "../../bench/overlap.ts";

Deno.test("hidden is the share of what communication adds to a step that overlap takes away", () => {
  const shares = hiddenShares({ apart: [100, 100, 100], after: [150, 150, 150], during: [100, 125, 150] });
  assertEquals(shares, [1, 0.5, 0]);
});
