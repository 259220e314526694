// What metrics cost a step, counted in operations: on a GPU each is a kernel to launch, and an mlp's step has few. The host sums
// small batches of numbers, and losses, by itself.
import { assert, assertEquals } from "@std/assert";
import { memorySource } from "../../../core/data/source/memory.ts";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import type { Outcome } from "../../../core/train/blocks.ts";
import { measureOf } from "../../../core/train/metrics.ts";
import { RunningMetrics } from "../../../core/train/running_metrics.ts";
import { itemsOf, type MicroBatch } from "../../../core/train/micro_batch.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { timeOps } from "../../../ffi/profile.ts";
import { scope } from "../../../ffi/tensor.ts";
import { open, rig, run } from "./rig.ts";

open();

const ROWS = 64, STEPS = 320;
const shown = (inputs: number, outputs: number) => mlp({ inputs, hidden: 64, layers: 2, outputs });

const TASKS = {
  "one number": {
    task: "regression",
    outputs: 1,
    model: shown(7, 1),
    input: randn([ROWS, 7]),
    target: randn([ROWS, 1]),
    most: 0,
  },
  "many numbers": {
    task: "regression",
    outputs: 65,
    model: shown(7, 65),
    input: randn([ROWS, 7]),
    target: randn([ROWS, 65]),
    most: 3.6,
  },
  "a class": {
    task: "classification",
    outputs: 10,
    model: shown(7, 10),
    input: randn([ROWS, 7]),
    target: randint(0, 10, [ROWS], "i64"),
    most: 3.6,
  },
  "tokens": {
    task: "language",
    outputs: 17,
    model: gpt({ vocabulary: 17, context: 8, layers: 1, heads: 1, embed: 8 }),
    input: randint(0, 17, [ROWS, 8], "i64"),
    target: randint(0, 17, [ROWS, 8], "i64"),
    most: 0,
  },
} as const;

for (const [name, { task, outputs, model, input, target, most }] of Object.entries(TASKS)) {
  Deno.test(`metrics of ${name} cost at most ${most} operations a step, and none of them reads a value`, () => {
    const source = memorySource({ name: "made", task, outputs, description: "made", input, target });
    const made = rig(model, source.facts, { direct: true });
    const { loss } = made.step.pass;
    const running = new RunningMetrics(measureOf(source, { loss, full: false }));
    const observe = (o: Outcome, b: MicroBatch) =>
      running.observe({ output: o.output, target: b.target, loss: o.loss, items: itemsOf(b, loss) });
    const batch: MicroBatch = { input, target, items: ROWS };
    const opsOf = (step: typeof made.step) => {
      const steps = (from: number) => {
        for (let number = from; number < from + STEPS; number++) {
          scope(() => run({ ...made, step }, [batch], { number }));
        }
      };
      steps(0); // what is made once is made
      const names: string[] = [];
      const end = timeOps((op) => names.push(op));
      steps(STEPS);
      end();
      return names;
    };
    const without = opsOf(made.step), withThem = opsOf({ ...made.step, observe });
    const each = (withThem.length - without.length) / STEPS;
    const reads = (ops: readonly string[]) => ops.filter((op) => op === "item").length;
    console.log(`${name}: ${without.length / STEPS} operations a step, ${each} more with metrics`);
    assert(most === 0 ? each === 0 : each > 0 && each <= most, `${each}`);
    assertEquals(reads(withThem), reads(without));
    assertEquals(running.result().items, 2 * STEPS * ROWS);
  });
}
