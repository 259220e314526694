import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { memorySource } from "../../../core/data/source/memory.ts";
import type { Source } from "../../../core/data/source/source.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { UserError } from "../../../core/base/errors.ts";
import type { Metrics } from "../../../core/train/measure.ts";
import { evaluate, lessAtOnce } from "../../../core/train/evaluate.ts";
import { openFeed } from "../../../core/train/feed.ts";
import { NativeError } from "../../../ffi/errors.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { liveTensors } from "../../../ffi/tensor.ts";
import { open, rig } from "./rig.ts";

open();
manualSeed(1n);

const COUNT = 53;
const data = memorySource({
  name: "made",
  task: "classification",
  outputs: 9,
  description: "made",
  input: randn([COUNT, 4]),
  target: randint(0, 9, [COUNT], "i64"),
});
const model = mlp({ inputs: 4, hidden: 16, layers: 2, outputs: 9, dropout: 0.5 });
const { step: { pass } } = rig(model, data.facts);
const feed = openFeed({ device: "cpu", channelsLast: false, loss: pass.loss });

/** Evaluates, and tells which samples were asked for. */
async function evaluated(size: number, poll: (done: number) => void = () => {}) {
  const seen: number[][] = [];
  const watched: Source = { ...data, raw: (part) => (seen.push([...part.ids]), data.raw(part)) };
  return { seen, evaluation: await evaluate(pass, watched, feed, size, poll) };
}

Deno.test("every sample is evaluated exactly once, in batches of any size", async () => {
  for (const size of [53, 20, 8, 1, 100]) {
    const { seen, evaluation } = await evaluated(size);
    assertEquals(seen.flat().sort((a, b) => a - b), Array.from({ length: COUNT }, (_, i) => i));
    assertEquals(seen.slice(0, -1).every((ids) => ids.length === size), true);
    assertEquals(evaluation.samples, COUNT);
  }
});

/** Counts are equal; scores of another batch size are rounded a little differently. */
function assertAlike({ ece, ...counts }: Metrics, { ece: whole, ...others }: Metrics): void {
  assertAlmostEquals(ece, whole, 1e-6);
  assertEquals(counts, others);
}

Deno.test("loss and metrics do not depend on the batch size", async () => {
  const { evaluation: whole } = await evaluated(COUNT);
  assert(whole.metrics.top5 > whole.metrics.accuracy);
  for (const size of [20, 7, 1]) {
    const { evaluation } = await evaluated(size);
    assertAlmostEquals(evaluation.valLoss, whole.valLoss, 1e-6);
    assertAlike(evaluation.metrics, whole.metrics);
  }
});

Deno.test("dropout is off in an evaluation and on again after it, also after one that was cut short", async () => {
  const [a, b] = [await evaluated(20), await evaluated(20)];
  assertEquals(a.evaluation.valLoss, b.evaluation.valLoss);
  assertEquals(model.root.training, true);
  await assertRejects(
    () =>
      evaluated(20, () => {
        assertEquals(model.root.training, false);
        throw new Error("cut");
      }),
    Error,
    "cut",
  );
  assertEquals(model.root.training, true);
});

Deno.test("an evaluation leaves no tensor behind", async () => {
  await evaluated(20);
  const before = liveTensors();
  for (let i = 0; i < 3; i++) await evaluated(20);
  assertEquals(liveTensors(), before);
});

/** As if no more than `room` samples fitted in memory; `seen` are the batches that were tried. */
function withRoomFor(room: number, seen: number[]) {
  const apply: typeof pass.loss.apply = (output, target) => {
    seen.push(target.shape[0]);
    if (target.shape[0] > room) {
      throw new NativeError("mm", "", "CUDA out of memory. Tried to allocate 9 GiB.");
    }
    return pass.loss.apply(output, target);
  };
  return { ...pass, loss: { ...pass.loss, apply } };
}

Deno.test("a batch that does not fit in memory is judged in parts that do, to the same figures, and so are all after it", async () => {
  const source = { ...data };
  const { evaluation: whole } = await evaluated(20);
  const seen: number[] = [];
  const short = await evaluate(withRoomFor(6, seen), source, feed, 20, () => {});
  assertEquals(seen.slice(0, 6), [20, 10, 5, 5, 5, 5]);
  assertAlmostEquals(short.valLoss, whole.valLoss, 1e-6);
  assertAlike(short.metrics, whole.metrics);
  assertEquals([short.samples, short.halvedTo], [53, 5]);
  seen.length = 0;
  const again = await evaluate(withRoomFor(6, seen), source, feed, 20, () => {});
  assertEquals([Math.max(...seen), again.halvedTo], [5, null]);
  assert(lessAtOnce(5, 20).includes("--set training.eval_batch_size=5"));
});

Deno.test("where not even one sample fits, the sentence names the evaluation's batch size", async () => {
  const error = await assertRejects(
    () => evaluate(withRoomFor(0, []), { ...data }, feed, 20, () => {}),
    UserError,
    "Out of memory in an evaluation with a batch of 20",
  );
  assertEquals(error.kind, "memory");
  assert(error.message.includes("--set training.eval_batch_size=10"));
});
