import { assertEquals } from "@std/assert";
import { type Best, judgeEpoch } from "../../../core/train/epoch_end.ts";

/** The epochs that were the best so far, and the one that ended the run. */
function follow(losses: number[], patience: number) {
  let best: Best | null = null;
  const better: number[] = [];
  for (const [i, valLoss] of losses.entries()) {
    const verdict = judgeEpoch(best, { epoch: i + 1, valLoss }, patience);
    best = verdict.best;
    if (verdict.better) better.push(i + 1);
    if (verdict.stop) return { better, stopped: i + 1 };
  }
  return { better, stopped: null };
}

Deno.test("a run stops after that many epochs without a better validation loss", () => {
  assertEquals(follow([3, 2, 2.5, 2.4, 2.3, 1], 3), { better: [1, 2], stopped: 5 });
});

Deno.test("a better loss within patience begins the count anew", () => {
  assertEquals(follow([3, 3.1, 2.9, 3, 2.8, 3, 3, 3], 2), { better: [1, 3, 5], stopped: 7 });
});

Deno.test("early stopping counts an equal validation loss as no progress", () => {
  assertEquals(follow([2, 2, 2], 2), { better: [1], stopped: 3 });
});

Deno.test("patience of 0 never stops a run", () => {
  assertEquals(follow([1, 2, 3, 4, 5], 0), { better: [1], stopped: null });
});

Deno.test("a validation loss that is not finite is never the best, not even the first", () => {
  assertEquals(follow([NaN, 2, NaN, 1], 0), { better: [2, 4], stopped: null });
  assertEquals(follow([Infinity, 2, -Infinity, 1], 0), { better: [2, 4], stopped: null });
  assertEquals(follow([Infinity, Infinity, Infinity], 2), { better: [], stopped: 2 });
});
