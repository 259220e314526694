// Evaluations whose batches are compiled, beside ordinary ones: the same loss and metrics to the last bit.
import { assert, assertEquals } from "@std/assert";
import { memorySource } from "../../../core/data/source/memory.ts";
import type { Activation, Model } from "../../../core/models/model.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { openCompiledEvaluation } from "../../../core/train/compiled_evaluation.ts";
import { evaluate } from "../../../core/train/evaluate.ts";
import { openFeed } from "../../../core/train/feed.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { scalar } from "../../../ffi/make.ts";
import { mul, mul_, randint, randn } from "../../../ffi/ops.ts";
import { timeOps } from "../../../ffi/profile.ts";
import { liveTensors, scope, type Tensor } from "../../../ffi/tensor.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { open, rig } from "./rig.ts";

open();
setThreads(1);
manualSeed(0n);
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

interface Case {
  readonly name: string;
  readonly task: "regression" | "classification";
  readonly outputs: number;
  readonly model: Model;
  readonly input: Tensor;
  readonly target: Tensor;
}

const CASES: readonly Case[] = [
  {
    name: "numbers",
    task: "regression",
    outputs: 1,
    model: mlp({ inputs: 7, hidden: 16, layers: 2, outputs: 1, dropout: 0.5 }),
    input: randn([100, 7]),
    target: randn([100, 1]),
  },
  {
    name: "classes",
    task: "classification",
    outputs: 3,
    model: mlp({ inputs: 5, hidden: 8, layers: 1, outputs: 3 }),
    input: randn([100, 5]),
    target: randint(0, 3, [100], "i64"),
  },
];

/** The last batch, of four samples, is seen once in each. */
const ROUNDS = 90;

Deno.test({
  name: "what changes from one evaluation to the next runs op by op",
  ignore: isa === null,
  async fn() {
    const source = memorySource({
      ...{ name: "made", description: "", task: "regression", outputs: 1 },
      ...{ input: randn([64, 3]), target: randn([64, 1]) },
    });
    let factor = 1;
    const { blocks: [first, ...others], ...made } = mlp({ inputs: 3, hidden: 4, layers: 1, outputs: 1 });
    const forward = (x: Activation) => mul(first.forward(x) as Tensor, scalar(factor));
    const { arena, step: { pass } } = rig(
      { ...made, blocks: [{ ...first, forward }, ...others] },
      source.facts,
    );
    const feed = openFeed({ device: "cpu", channelsLast: false, loss: pass.loss });
    const compiled = openCompiledEvaluation(arena, ticking());
    const judged = async (by: typeof compiled | null) =>
      (await evaluate(pass, source, feed, 16, () => {}, null, { compiled: by })).valLoss;
    for (let round = 0; round < 40; round++) {
      factor = 1 + round % 2;
      assertEquals(await judged(compiled), await judged(null), `round ${round}`);
    }
    feed.close();
  },
});

/** Each look at the clock is a third of a millisecond later. */
function ticking(): () => number {
  let now = 0;
  return () => now += 1 / 3;
}

for (const { name, model, input, target, ...facts } of CASES) {
  Deno.test({
    name: `an evaluation of ${name} has the same bits compiled, whatever the weights have become`,
    ignore: isa === null,
    async fn() {
      const source = memorySource({ name: "made", description: "", ...facts, input, target });
      const { arena, step: { pass } } = rig(model, source.facts);
      const feed = openFeed({ device: "cpu", channelsLast: false, loss: pass.loss });
      const compiled = openCompiledEvaluation(arena, ticking());
      const judged = async (by: typeof compiled | null) => {
        const { seconds: _, ...found } = await evaluate(pass, source, feed, 16, () => {}, null, {
          compiled: by,
        });
        return found;
      };
      const products = async (by: typeof compiled | null) => {
        const ops: string[] = [], stop = timeOps((name) => ops.push(name));
        await judged(by);
        stop();
        return ops.filter((op) => op === "linear").length;
      };
      assert(await products(compiled) >= 14);
      let live = 0;
      for (let round = 0; round < ROUNDS; round++) {
        noGrad(() => scope(() => arena.parameters.forEach((t) => mul_(t, scalar(1.01)))));
        const found = await judged(compiled);
        if (round === ROUNDS - 9) live = liveTensors();
        if (round % 8 === 0 || round > ROUNDS - 4) assertEquals(found, await judged(null), `round ${round}`);
      }
      assertEquals(liveTensors(), live);
      assertEquals(await products(compiled), 0);
      feed.close();
    },
  });
}
