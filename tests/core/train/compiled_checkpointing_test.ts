// Compiled steps with --gradient-checkpointing: the plan computes a block's values once more in backward. It has the bits
// of the ordinary step, running statistics included, and takes less memory than a plan that keeps them.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { block, type Facts, type Model, model } from "../../../core/models/model.ts";
import { BatchNorm } from "../../../core/models/nn/norms.ts";
import { Linear } from "../../../core/models/nn/linear.ts";
import { Group } from "../../../core/models/nn/module.ts";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import { examinePlan } from "../../../core/train/compiled_plans.ts";
import type { Mode } from "../../../core/train/compiler.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { randint, randn, relu } from "../../../ffi/ops.ts";
import { constant, toNumbers } from "../../../ffi/make.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { residual } from "./blocks_model.ts";
import { open, rig, rows, run, weights } from "./rig.ts";
import { CASES, train } from "./zoo_cases.ts";

open();
setThreads(1);
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open
for (const count of [1, 2, 3, 4, 5, 6]) constant(count);
constant(0, "i64"), constant(1, "i64");

function normed(): Model {
  const layers = [0, 1, 2].map(() => {
    const linear = new Linear(7, 7), norm = new BatchNorm(7);
    return { linear, norm, own: new Group({ linear, norm }) };
  });
  const last = new Linear(7, 1);
  const children = Object.fromEntries(layers.map(({ own }, i) => [`l${i}`, own]));
  return model("normed", new Group({ ...children, last }), [
    ...layers.map(({ linear, norm, own }, i) =>
      block(`block ${i}`, own, (x) => relu(norm.forward(linear.forward(x as Tensor))))
    ),
    block("last", last, (x) => last.forward(x as Tensor)),
  ], { layers: "3" });
}

async function trained(make: () => Model, checkpointing: boolean, mode: Mode | null) {
  manualSeed(7n);
  const net = make(), made = rig(net, rows, { checkpointing }), told: string[] = [];
  const tell = { line: (text: string) => told.push(text), warn: (text: string) => told.push(text) };
  const step = { ...made.step, compiled: mode && openCompiledPass(made.arena, mode, () => tell) };
  const losses: number[] = [];
  for (let number = 0; number < 5; number++) {
    manualSeed(BigInt(100 + number));
    const batches = [0, 1].map(() => ({ input: randn([6, 7]), target: randn([6, 1]) }));
    losses.push(run({ ...made, step }, batches, { number }).loss);
    for (const { input, target } of batches) input.free(), target.free();
  }
  const buffers = net.root.namedBuffers().map(([name, t]) => [name, [...toNumbers(t)]] as const);
  return { losses, weights: await weights(made), buffers, told: told.join("\n") };
}

for (const [name, make] of [["residual", () => residual(4, 24, 0.1)], ["batch norm", normed]] as const) {
  Deno.test({
    name: `compiled gradient checkpointing has the ordinary bits: ${name}`,
    ignore: isa === null,
    async fn() {
      const plain = await trained(make, true, null), { told, ...exact } = await trained(make, true, "exact");
      assertMatch(told, /^Steps are compiled: .* equal the ordinary ones\.$/);
      assertEquals({ ...exact, told: "" }, plain);
      const kept = await trained(make, false, "exact");
      assertEquals(exact.weights, kept.weights);
      assert(kernelsOf(told) > kernelsOf(kept.told), "something is computed twice");
      const fast = await trained(make, true, "fast");
      assertMatch(fast.told, /^Steps are compiled: /);
      fast.losses.forEach((loss, i) => assertAlmostEquals(loss, plain.losses[i], 1e-4));
    },
  });
}

Deno.test({
  name: "calls of libtorch's ops are made once more, too, and give back their results in time",
  ignore: isa === null,
  async fn() {
    const unet = CASES[3], told: string[] = [];
    const tell = { line: (text: string) => told.push(text), warn: (text: string) => told.push(text) };
    const plain = await train(unet, { checkpointing: true });
    const fast = await train(
      unet,
      { checkpointing: true },
      ({ arena }) => ({ compiled: openCompiledPass(arena, "fast", () => tell) }),
    );
    assertMatch(told.join("\n"), /^Steps are compiled: /);
    fast.losses.forEach((loss, i) => assertAlmostEquals(loss, plain.losses[i], 1e-4));
  },
});

const kernelsOf = (told: string): number => Number(/(\d+) kernels/.exec(told)![1]);

const language: Facts = { task: "language", input: { shape: [64], dtype: "i64" }, outputs: 65 };
const MODELS = [
  {
    name: "residual",
    make: () => rig(residual(8, 64), rows, {}),
    input: () => randn([256, 7]),
    target: () => randn([256, 1]),
    share: 0.6,
  },
  {
    name: "gpt",
    make: () => rig(gpt({ vocabulary: 65, context: 64, layers: 6, heads: 2, embed: 32 }), language, {}),
    input: () => randint(0, 65, [4, 64], "i64"),
    target: () => randint(0, 65, [4, 64], "i64"),
    share: 0.27,
  },
];

for (const { name, make, input, target, share } of MODELS) {
  Deno.test({
    name: `a plan with gradient checkpointing takes less memory: ${name}`,
    ignore: isa === null,
    fn: () =>
      scope(() => {
        const { step, arena } = make(), x = input(), y = target();
        const [kept, again] = [false, true].map((recomputes) => {
          const plan = examinePlan(step.pass, arena, x, y, { mode: "fast", recomputes });
          if ("reason" in plan) throw new Error(plan.reason);
          return plan.placed.elements;
        });
        assert(again <= share * kept, `${again} floats, against ${kept} without`);
      }),
  });
}
