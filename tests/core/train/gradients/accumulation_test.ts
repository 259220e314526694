// However a global batch is cut into micro-batches: the same gradients and the same loss.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import type { Facts, Model } from "../../../../core/models/model.ts";
import { gpt } from "../../../../core/models/zoo/gpt.ts";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import type { MicroBatch } from "../../../../core/train/micro_batch.ts";
import { fill_, tensor, toNumbers } from "../../../../ffi/make.ts";
import { narrow, randint, randn } from "../../../../ffi/ops.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { keep, liveTensors } from "../../../../ffi/tensor.ts";
import { open, rig, rows, run } from "../rig.ts";

open();

const language: Facts = { task: "language", input: { shape: [12], dtype: "i64" }, outputs: 17 };
const IGNORED = 16;

function seeded<T>(make: () => T): T {
  manualSeed(3n);
  return make();
}
const network = () => seeded(() => mlp({ inputs: 7, hidden: 32, layers: 2, outputs: 1 }));
const writer = () => seeded(() => gpt({ vocabulary: 17, context: 12, layers: 2, heads: 2, embed: 16 }));

function vectors(count: number): MicroBatch {
  manualSeed(4n);
  return { input: randn([count, 7]), target: randn([count, 1]) };
}

/** Sequence i has i tokens that don't count; the last one has none that does. */
function sentences(count: number): MicroBatch {
  manualSeed(5n);
  const ids = toNumbers(randint(0, 16, [count, 12], "i64"));
  const ignored = (i: number) => i === count - 1 ? 12 : i % 12;
  const target = ids.map((id, at) => at % 12 < ignored(Math.floor(at / 12)) ? IGNORED : id);
  const whole = (values: Float64Array) => tensor(BigInt64Array.from(values, BigInt), [count, 12]);
  return { input: whole(ids), target: whole(target) };
}

function cut({ input, target }: MicroBatch, size: number): MicroBatch[] {
  const parts: MicroBatch[] = [];
  for (let from = 0; from < input.shape[0]; from += size) {
    const count = Math.min(size, input.shape[0] - from);
    parts.push({ input: narrow(input, 0, from, count), target: narrow(target, 0, from, count) });
  }
  return parts;
}

function gradients(model: Model, facts: Facts, batch: MicroBatch, micro: number) {
  const made = rig(model, facts, { ignoreIndex: IGNORED });
  const { loss } = run(made, cut(batch, micro));
  return { loss, gradient: toNumbers(made.arena.gradient) };
}

const length = (x: Float64Array) => Math.hypot(...x);

function compare(make: () => Model, facts: Facts, batch: MicroBatch, sizes: number[]): void {
  const [whole, ...parts] = sizes.map((micro) => gradients(make(), facts, batch, micro));
  assert(length(whole.gradient) > 1e-3, "a gradient of nothing proves nothing");
  for (const [i, part] of parts.entries()) {
    const apart = length(part.gradient.map((g, k) => g - whole.gradient[k])) / length(whole.gradient);
    assert(apart < 1e-6, `${sizes[i + 1]} at a time: gradients differ by ${apart}`);
    assertAlmostEquals(part.loss / whole.loss, 1, 1e-6, `loss, ${sizes[i + 1]} at a time`);
  }
}

Deno.test("16 at once, 2 x 8 and 8 x 2 give the same gradients and loss", () => {
  compare(network, rows, vectors(16), [16, 8, 2]);
});

Deno.test("a global batch whose last micro-batch is short gives the same gradients and loss", () => {
  compare(network, rows, vectors(13), [13, 8, 2, 5]);
});

Deno.test("tokens that don't count weigh nothing, in whichever micro-batch they are", () => {
  compare(writer, language, sentences(16), [16, 8, 2]);
});

Deno.test("a micro-batch without one token that counts adds nothing, and no NaN", () => {
  compare(writer, language, sentences(5), [5, 2, 1]);
});

Deno.test("what a micro-batch's share is leaves nothing behind, however many there are", () => {
  const made = rig(writer(), language, { ignoreIndex: IGNORED });
  const batch = sentences(8);
  const parts = cut(batch, 3).map(({ input, target }) => ({ input: keep(input), target: keep(target) }));
  const step = (ignored: number) => {
    fill_(narrow(narrow(parts[0].target, 0, 0, 1), 1, 0, ignored), IGNORED);
    run(made, parts);
  };
  for (let i = 1; i < 4; i++) step(i);
  const before = liveTensors();
  for (let i = 4; i < 12; i++) step(i);
  // The two views of the target above are this test's own.
  assertEquals(liveTensors() - before, 2 * 8);
});
