// Reports about ranks: which is the slowest, and which parameters no gradient reached.
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { type Spent, spentNothing } from "../../../core/run/account.ts";
import { ranksEvent, unusedSentence } from "../../../core/train/rank_group.ts";
import { tensor, zeros } from "../../../ffi/make.ts";
import { useLibtorch } from "../../libtorch.ts";

useLibtorch();

const spent = (data_s: number, compute_s: number, communication_s: number): Spent => ({
  ...spentNothing(),
  ...{ data_s, compute_s, communication_s },
});

Deno.test("the slowest rank is the one with most time of its own, waiting for others not counted", () => {
  const event = ranksEvent(200, 100, [spent(0, 3, 5), spent(4, 3, 1), spent(0, 2, 6)]);
  assertEquals([event.slowest, event.data_s, event.compute_s], [1, [0, 4, 0], [3, 3, 2]]);
  assertAlmostEquals(event.spread, 5 / 7);
});

Deno.test("ranks that take no time are not apart", () => {
  assertEquals(ranksEvent(1, 1, [spent(0, 0, 1), spent(0, 0, 1)]).spread, 0);
});

Deno.test("parameters without a gradient are named, five of them at most", () => {
  const names = ["a", "b", "c", "d", "e", "f", "g"];
  const one = tensor(Float32Array.of(0, 1e-3));
  const gradients = (used: string) => names.map((name) => name === used ? one : zeros([2]));
  assertEquals(unusedSentence({ names: ["b"], gradients: [one] }, 10), null);
  const said = unusedSentence({ names, gradients: gradients("b") }, 10)!;
  assertEquals(said.split(" at step 10: ")[0], "No gradient reached a, c, d, e, f and 1 more");
});
