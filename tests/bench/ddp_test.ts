import { assertEquals } from "@std/assert";
import { efficiencies } from "../../bench/ddp.ts";

Deno.test("the efficiency of ranks is the machine's roof times their own share", () => {
  const timed = (...rates: number[]) => rates.map((rate) => ({ rate, inStep: rate / 2, first: 1 }));
  const found = efficiencies({
    one: timed(100, 100, 50),
    apart: timed(320, 300, 160),
    two: timed(144, 120, 72),
  });
  assertEquals(found, { efficiency: 0.72, roof: 0.8, ours: 0.9 });
});
