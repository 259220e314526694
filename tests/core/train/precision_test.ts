// The loss scale of fp16, on a CPU, with infinities put into the gradients; and bf16 autocast beside fp32.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { batchOf, plainPart } from "../../../core/data/source/source.ts";
import { makeTokens } from "../../../core/data/synthetic/synthetic.ts";
import { UserError } from "../../../core/base/errors.ts";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { chooseAmp, LossScaler, type ScaleSettings } from "../../../core/train/precision.ts";
import { fill_, toNumbers } from "../../../ffi/make.ts";
import { narrow, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { scope } from "../../../ffi/tensor.ts";
import { peer } from "./peer.ts";
import { open, type Rig, rig, rows, run, settings, weights } from "./rig.ts";
import { assertSentence } from "../../sentences.ts";

open();

const USUAL: ScaleSettings = { init: 1024, growthInterval: 3, min: 1, maxSkipped: 20 };

function scaled(more: Partial<ScaleSettings> = {}, accumulate = 1) {
  manualSeed(1n);
  const scaler = new LossScaler({ ...USUAL, ...more }, "cpu");
  let poison = false;
  // A gradient overflows after the last micro-batch's backward: observe sees each outcome after it.
  const observe = () => {
    if (poison) fill_(narrow(made.arena.gradients[2], 0, 0, 1), Infinity);
  };
  const made: Rig = rig(mlp({ inputs: 7, hidden: 8, layers: 1, outputs: 1 }), rows, { scaler, observe });
  const batch = { input: randn([8, 7]), target: randn([8, 1]) };
  let number = 0;
  const step = (overflow: boolean) => {
    poison = overflow;
    return run(made, Array(accumulate).fill(batch), { number: number++, norm: true });
  };
  return { scaler, made, step };
}

Deno.test("the loss scale follows torch.amp.GradScaler over growth and overflow", async () => {
  const overflows = Array.from({ length: 30 }, (_, i) => [4, 5, 12, 20, 21, 22].includes(i));
  const { scaler, step } = scaled();
  const ours = overflows.map((overflow) => (step(overflow), scaler.scale));
  const theirs = await peer<number[]>("scaler.py", {
    overflows,
    init: USUAL.init,
    interval: USUAL.growthInterval,
  });
  assertEquals(ours, theirs);
  assertEquals(scaler.skipped, 6);
});

Deno.test("scaling changes neither the loss, nor the norm, nor the gradients", () => {
  const { made, step } = scaled();
  const { loss, norm } = step(false);
  const gradient = toNumbers(made.arena.gradient);
  const plain = scaled({ init: 1 });
  assertEquals(plain.step(false), { loss, norm, skipped: null });
  assertEquals(toNumbers(plain.made.arena.gradient), gradient);
});

Deno.test("scale and shares of accumulated micro-batches are both taken out again", () => {
  const once = scaled(), twice = scaled({}, 2);
  assertEquals(twice.step(false), once.step(false));
  assertEquals(toNumbers(twice.made.arena.gradient), toNumbers(once.made.arena.gradient));
});

Deno.test("a step with an overflow is skipped: no weight changes, and the optimizer does not count it", async () => {
  const { made, scaler, step } = scaled();
  step(false);
  const before = await weights(made);
  const { skipped } = step(true);
  assertSentence("core/train/precision: step skipped gradient", skipped);
  assertEquals(await weights(made), before);
  assertEquals([made.step.optimizer.steps, scaler.skipped], [1, 1]);
  assertEquals(step(false).skipped, null);
});

Deno.test("the loss scale never falls below its floor", () => {
  const { scaler, step } = scaled({ init: 8, min: 4 });
  for (let i = 0; i < 5; i++) step(true);
  assertEquals(scaler.scale, 4);
});

Deno.test("a good step between overflows begins the count of skipped steps anew", () => {
  const { scaler, step } = scaled({ maxSkipped: 3 });
  for (const overflow of [true, true, false, true, true, false]) step(overflow);
  assertEquals(scaler.skipped, 4);
});

Deno.test("training gives up after the set number of skipped steps and names the first tensor", () => {
  const { step } = scaled({ maxSkipped: 3 });
  step(true);
  step(true);
  const error = assertThrows(() => step(true), UserError);
  assertEquals(error.kind, "numerics");
  assert(error.message.startsWith("Gave up at step 3: 3 steps in a row"), error.message);
  assert(error.message.includes("first such tensor: the gradient of 2.weight"), error.message);
});

Deno.test("auto means full precision on a CPU", () => {
  assertEquals([chooseAmp("auto", "cpu"), chooseAmp("bf16", "cpu"), chooseAmp("off", "cpu")], [
    "off",
    "bf16",
    "off",
  ]);
});

Deno.test("bf16 autocast trains gpt to within 2% of fp32's loss after 200 steps", () => {
  const flags = "--model gpt --context 64 --embed 64 --heads 4 --layers 4".split(" ");
  const { model } = settings(...flags);
  const source = makeTokens({ role: "train", samples: 1600, seed: 0, loss: "auto", model });
  const after = (cast: "bf16" | null) => {
    manualSeed(0n);
    const made = rig(gpt({ vocabulary: 65, context: 64, layers: 4, heads: 4, embed: 64 }), source.facts, {
      cast,
    });
    const losses = Array.from({ length: 200 }, (_, number) =>
      scope(() => {
        const ids = Int32Array.from({ length: 8 }, (_, i) => number * 8 + i);
        return run(made, [batchOf(source, plainPart(ids))], { number, lr: 3e-3 }).loss;
      }));
    assert(losses[0] > 4, `the first loss ${losses[0]} should be that of guessing among 65`);
    return losses.slice(-20).reduce((a, b) => a + b) / 20;
  };
  const full = after(null), half = after("bf16");
  assert(full < 2.5, `fp32 learned nothing: ${full}`);
  assert(full !== half, "bf16 gave fp32's own bits: it was not on");
  assert(Math.abs(half - full) / full < 0.02, `bf16 ${half}, fp32 ${full}`);
});
