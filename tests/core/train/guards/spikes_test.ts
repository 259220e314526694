import { assert, assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import type { Tensor } from "../../../../ffi/tensor.ts";
import { openGuard, openJudge, type SpikeSettings } from "../../../../core/train/guards/spikes.ts";
import { assertRefusal, assertSentence } from "../../../sentences.ts";

const SETTINGS: SpikeSettings = { on: "warn", zscore: 8, window: 100, mostSkipped: 3, remedies: "Mend it." };

/** Losses that fall and scatter by a tenth, always the same. */
const calm = (step: number) =>
  (1 + 10 / (step + 10)) * (1 + 0.1 * Math.sin(step * 12.9898) * Math.cos(step * 78.233));

Deno.test("losses that fall and scatter are no spikes, one far above the others is, and the calm after it is not", () => {
  const { judge } = openJudge(SETTINGS);
  for (let step = 0; step < 500; step++) assertEquals(judge(calm(step)), null, `step ${step}`);
  const z = judge(calm(500) * 3);
  assert(z !== null && z > 8, String(z));
  for (let step = 501; step < 600; step++) assertEquals(judge(calm(step)), null, `step ${step}`);
});

Deno.test("the measure is standard deviations above the mean of the window's losses alone", () => {
  const { judge } = openJudge({ zscore: 3, window: 40 });
  for (let i = 0; i < 200; i++) judge(1000); // forgotten when forty others have come
  for (let i = 0; i < 40; i++) judge(10 + (i % 2)); // mean 10.5, deviation 0.5
  assertEquals(judge(12), null, "three deviations are not more than three");
  const { judge: again } = openJudge({ zscore: 3, window: 40 });
  for (let i = 0; i < 40; i++) again(10 + (i % 2));
  assertEquals(again(12.5), 4);
});

Deno.test("a fall is never a spike, nor is anything among the first losses, nor a ripple of a flat line", () => {
  const { judge } = openJudge(SETTINGS);
  for (const loss of [1, 1000, 2, 500]) assertEquals(judge(loss), null);
  const flat = openJudge(SETTINGS);
  for (let i = 0; i < 100; i++) flat.judge(2);
  assertEquals(flat.judge(2.001), null);
  assert(flat.judge(3) !== null);
  assertEquals(flat.judge(0.1), null);
});

Deno.test("what is no number is a spike from the first step on", () => {
  const { judge } = openJudge(SETTINGS);
  assertEquals([judge(NaN), judge(Infinity), judge(1)], [Infinity, Infinity, null]);
});

Deno.test("warn tells of the first, the tenth and the hundredth spike in a row, and holds nothing up", () => {
  const guard = openGuard(SETTINGS);
  for (let step = 0; step < 100; step++) assertEquals(guard.observe(step, calm(step)), null);
  const told = Array.from({ length: 100 }, (_, i) => guard.observe(100 + i, 1e6)).filter((spike) =>
    spike !== null
  );
  assertEquals(told.map(({ step }) => step), [100, 109, 199]);
  assertSentence("core/train/guards/spikes: loss jumped step", told[0].message);
  const unread = {
    item: () => {
      throw new Error("the loss was read");
    },
  } as unknown as Tensor;
  assertEquals([guard.refuse(unread, 1), guard.takesNonFinite, guard.pending], [null, false, null]);
});

Deno.test("rewind waits to be dealt with, and gives up when going back to the same step helps no more", () => {
  const guard = openGuard({ ...SETTINGS, on: "rewind" });
  for (let step = 0; step < 100; step++) guard.observe(step, calm(step));
  const spike = () => {
    assertEquals(guard.observe(100, NaN), null);
    assertEquals(guard.pending?.step, 100);
  };
  for (const to of [50, 50, 50, 90, 90, 90, 90, 90]) {
    spike();
    guard.wentBack(to);
    assertEquals(guard.pending, null);
  }
  spike();
  const error = assertRefusal(
    "numerics",
    "core/train/guards/spikes: loss became nan",
    assertThrows(() => guard.wentBack(90), UserError),
  );
  assertEquals(error.exitCode, 6);
});
