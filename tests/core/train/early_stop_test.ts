// What evaluations are judged by: the best ones, and when patience is at its end.
import { assertEquals } from "@std/assert";
import type { Cursor } from "../../../core/checkpoint/training_state.ts";
import { modeOf, monitorOf } from "../../../core/run/best.ts";
import { judge } from "../../../core/train/monitor.ts";
import { settings } from "./rig.ts";

/** The evaluations that were the best so far, the one that ended the run, and those that are kept at its end. */
function follow(values: number[], patience: number, { keep = 1, mode = "min" as "min" | "max" } = {}) {
  let done: Pick<Cursor, "best" | "judged"> = { best: null };
  const better: number[] = [];
  const kept = () => done.judged?.kept.map(({ epoch }) => epoch);
  for (const [i, value] of values.entries()) {
    const now = { step: 10 * (i + 1), epoch: i + 1, within: false, value, valLoss: value };
    const verdict = judge(done, { name: "m", mode }, now, { keep, patience });
    done = verdict;
    if (verdict.better) better.push(i + 1);
    if (verdict.stop) return { better, stopped: i + 1, kept: kept() };
  }
  return { better, stopped: null, kept: kept() };
}

Deno.test("a run stops after that many evaluations without a better one", () => {
  assertEquals(follow([3, 2, 2.5, 2.4, 2.3, 1], 3), { better: [1, 2], stopped: 5, kept: [2] });
});

Deno.test("a better loss within patience begins the count anew", () => {
  const { better, stopped } = follow([3, 3.1, 2.9, 3, 2.8, 3, 3, 3], 2);
  assertEquals([better, stopped], [[1, 3, 5], 7]);
});

Deno.test("early stopping counts an equal value as no progress", () => {
  assertEquals(follow([2, 2, 2], 2), { better: [1], stopped: 3, kept: [1] });
});

Deno.test("patience of 0 never stops a run", () => {
  assertEquals(follow([1, 2, 3, 4, 5], 0), { better: [1], stopped: null, kept: [1] });
});

Deno.test("a value that is not finite is never among the best, not even the first", () => {
  assertEquals(follow([NaN, 2, NaN, 1], 0), { better: [2, 4], stopped: null, kept: [4] });
  assertEquals(follow([Infinity, 2, -Infinity, 1], 0, { keep: 3 }).kept, [4, 2]);
  assertEquals(follow([Infinity, Infinity, Infinity], 2), { better: [], stopped: 2, kept: [] });
});

Deno.test("with mode max the most is best, for the best checkpoint and for patience", () => {
  assertEquals(follow([1, 3, 2, 2.5], 2, { mode: "max" }), { better: [1, 2], stopped: 4, kept: [2] });
});

Deno.test("of six evaluations the three best are kept in their order; of equal ones the earlier stands first", () => {
  assertEquals(follow([5, 3, 4, 3, 6, 2], 0, { keep: 3 }).kept, [6, 2, 4]);
});

Deno.test("an evaluation that is made again after a kill stands in the list once", () => {
  const monitor = { name: "m", mode: "min" } as const, most = { keep: 3, patience: 0 };
  const now = { step: 10, epoch: 1, within: false, value: 2, valLoss: 2 };
  const first = judge({ best: null }, monitor, now, most), again = judge(first, monitor, now, most);
  assertEquals(again.judged.kept, first.judged.kept);
});

Deno.test("another monitor begins a new list, and one without a list goes on from the best loss", () => {
  const now = { step: 30, epoch: 3, within: false, value: 0.5, valLoss: 9 }, most = { keep: 2, patience: 2 };
  const before = judge({ best: null }, { name: "val_loss", mode: "min" }, {
    ...now,
    step: 20,
    epoch: 2,
    value: 1,
  }, most);
  const other = judge(before, { name: "r2", mode: "max" }, now, most);
  assertEquals([other.judged.kept.map(({ step }) => step), other.best], [[30], { epoch: 3, valLoss: 9 }]);
  const older = { best: { epoch: 1, valLoss: 0.1 } };
  const verdict = judge(older, { name: "val_loss", mode: "min" }, { ...now, valLoss: 0.5 }, most);
  assertEquals([verdict.better, verdict.stop, verdict.best], [false, true, older.best]);
});

Deno.test("the mode is known of metrics that are the better the larger they are, by all their spellings", () => {
  const max = [
    "r2",
    "accuracy",
    "val_accuracy",
    "mean_iou",
    "iou/cat",
    "f1",
    "auroc",
    "skill_climatology",
    "top5",
  ];
  assertEquals(max.map(modeOf), max.map(() => "max"));
  assertEquals(["val_loss", "rmse", "mae", "perplexity", "crps", "ece"].map(modeOf), Array(6).fill("min"));
  const monitor = (...flags: string[]) => monitorOf(settings(...flags));
  assertEquals(monitor(), { name: "val_loss", mode: "min" });
  assertEquals(monitor("--metric-for-best-model", "eval_loss"), { name: "val_loss", mode: "min" });
  assertEquals(monitor("--monitor", "val_r2"), { name: "r2", mode: "max" });
  assertEquals(monitor("--monitor", "val/mine", "--monitor-mode=max"), { name: "mine", mode: "max" });
});
