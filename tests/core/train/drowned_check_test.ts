// Steps in bf16 of a network so deep that rounding is most of its first gradients: a plan is right if it is right in f32.
import { assert } from "@std/assert";
import type { Ref } from "../../../core/compile/graph.ts";
import type { LoweringRule } from "../../../core/compile/lower/lowering.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { block, type Facts, model } from "../../../core/models/model.ts";
import { Conv2d } from "../../../core/models/nn/conv.ts";
import { Linear } from "../../../core/models/nn/linear.ts";
import { Group } from "../../../core/models/nn/module.ts";
import { BatchNorm2d } from "../../../core/models/nn/norms.ts";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { meanDim, randn, relu } from "../../../ffi/ops.ts";
import { spoilt } from "./spoilt.ts";
import { open, rig, run } from "./rig.ts";
import { assertSentence } from "../../sentences.ts";

open();
setThreads(1);
const isa = machineIsa(), ignore = isa === null;
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

const LAYERS = 40, CHANNELS = 8;
const FACTS: Facts = { task: "regression", input: { shape: [1, 32, 32], dtype: "f32" }, outputs: 1 };

function deep() {
  const layers = Array.from({ length: LAYERS }, (_, i) => {
    const [from, options] = i === 0 ? [1, { stride: 4 }] : [CHANNELS, { padding: 1 }];
    const conv = new Conv2d(from, CHANNELS, 3, options), norm = new BatchNorm2d(CHANNELS);
    return { conv, norm, module: new Group({ conv, norm }) };
  });
  const last = new Linear(CHANNELS, 1);
  const root = new Group({ ...Object.fromEntries(layers.map((one, i) => [`layer${i}`, one.module])), last });
  return model("deep", root, [
    ...layers.map(({ conv, norm, module }, i) =>
      block(`layer${i}`, module, (x) => relu(norm.forward(conv.forward(x as Tensor))))
    ),
    block("last", last, (x) => last.forward(meanDim(x as Tensor, [2, 3]))),
  ], { layers: String(LAYERS) });
}

/** At one of these weights some value may be so close to ReLU's corner that rounding decides, in f32 too, on some processor. */
const SEEDS = [7n, 8n, 9n];

/** What two steps in bf16 say of their plan. */
function told(seed = SEEDS[0]): string {
  manualSeed(seed);
  const plain = rig(deep(), FACTS, { cast: "bf16" }), lines: string[] = [];
  const tell = { line: (text: string) => lines.push(text), warn: (text: string) => lines.push(text) };
  const compiled = openCompiledPass(plain.arena, "fast", () => tell);
  for (const number of [0, 1]) {
    const batch = { input: randn([8, 1, 32, 32]), target: randn([8, 1]) };
    run({ ...plain, step: { ...plain.step, compiled } }, [batch], { number, lr: 0 });
    batch.input.free();
    batch.target.free();
  }
  return lines.join("\n");
}

/** The first convolution's numbers are right, and its gradients too large. */
const larger = (right: LoweringRule): LoweringRule => (g, x, ...args) => {
  const made = right(g, x, ...args) as Ref, [, channels] = g.b.shape(x as Ref);
  if (channels !== 1) return made;
  const times = (t: Ref, factor: number) => g.b.pointwise("mul", t, g.b.number(factor));
  return g.b.pointwise("add", times(made, 1.5), times(g.b.stop(made), -0.5));
};

Deno.test({
  name: "where rounding is most of the first gradients in bf16, a plan that is right in f32 is used",
  ignore,
  fn: () => {
    const used = /^Steps are compiled: .* gradients differ from those of f32 by ([5-9]\d|1\d\d)%/;
    const all: string[] = [];
    const one = SEEDS.some((seed) => used.test(all[all.push(told(seed)) - 1]));
    assert(one, all.join("\n"));
  },
});

Deno.test({
  name: "where rounding is most of the first gradients in bf16, a plan that is wrong in f32 is refused",
  ignore,
  fn: () =>
    spoilt("conv2d", larger, () => {
      assertSentence("core/train/drowned_check: compiled steps give", told());
      return Promise.resolve();
    }),
});
