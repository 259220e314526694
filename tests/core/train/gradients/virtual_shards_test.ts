// --deterministic=world: however many ranks share the virtual shards, the same bits. The ranks are one process here: it
// computes each one's part alone, and then puts them together as ranks will.
import { assert, assertAlmostEquals, assertEquals, assertNotEquals } from "@std/assert";
import { memorySource } from "../../../../core/data/source/memory.ts";
import { order, partsOfShards } from "../../../../core/data/source/order.ts";
import type { Facts, Model } from "../../../../core/models/model.ts";
import { cosmoCnn } from "../../../../core/models/zoo/convnets.ts";
import { gpt } from "../../../../core/models/zoo/gpt.ts";
import type { Outcome } from "../../../../core/train/blocks.ts";
import { measureOf } from "../../../../core/train/metrics.ts";
import { RunningMetrics } from "../../../../core/train/running_metrics.ts";
import { itemsOf, type MicroBatch, sharesOf } from "../../../../core/train/micro_batch.ts";
import {
  alone as noOthers,
  type CombineSums,
  computeShard,
  openVirtualShards,
  ownSums,
  shardedGradients,
  shardState,
} from "../../../../core/train/gradients/virtual_shards.ts";
import { fill_, tensor, toNumbers } from "../../../../ffi/make.ts";
import { indexSelect, narrow, randint, randn } from "../../../../ffi/ops.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { liveTensors, scope, type Tensor } from "../../../../ffi/tensor.ts";
import { openStep } from "../../../../core/train/user_step.ts";
import { print } from "../../models/native.ts";
import { open, type Rig, rig, type RigOptions, run } from "../rig.ts";

open();

/** 47 samples in batches of 21: shards of two and three samples, and the last batch has fewer than there are shards. */
const SAMPLES = 47, PLAN = { global: 21, micro: 2 }, PER_EPOCH = 3, STEPS = 20;

interface Workload {
  readonly facts: Facts;
  readonly make: () => Model;
  readonly data: () => { input: Tensor; target: Tensor };
  readonly options: RigOptions;
}

const IGNORED = 16;
const language: Workload = {
  facts: { task: "language", input: { shape: [12], dtype: "i64" }, outputs: 17 },
  make: () => gpt({ vocabulary: 17, context: 12, layers: 2, heads: 2, embed: 16, dropout: 0.2 }),
  data() {
    const made = () => randint(0, IGNORED, [SAMPLES, 12], "i64");
    const data = { input: made(), target: made() };
    fill_(narrow(data.target, 0, 3, 9), IGNORED); // samples of which nothing counts
    return data;
  },
  options: { clipNorm: 1, ignoreIndex: IGNORED },
};
const maps: Workload = {
  facts: { task: "regression", input: { shape: [1, 16, 16], dtype: "f32" }, outputs: 2 },
  make: () => cosmoCnn({ channels: 1, height: 16, width: 16, filters: 4, outputs: 2, dropout: 0.2 }),
  data: () => ({ input: randn([SAMPLES, 1, 16, 16]), target: randn([SAMPLES, 2]) }),
  options: { flags: ["--optimizer", "sgd"] },
};

function seeded<T>(seed: bigint, make: () => T): T {
  manualSeed(seed);
  return make();
}

/** Trains with the parts of all ranks, each computed alone, and tells all there is to compare. */
async function trained(w: Workload, count: number, world: number) {
  const made = rig(seeded(1n, w.make), w.facts, w.options);
  const { arena, step: { pass } } = made;
  const data = seeded(2n, w.data);
  const buffers = made.model.root.namedBuffers().map(([, t]) => t);
  const { missing: _, ...facts } = w.facts;
  const source = memorySource({ name: "made", ...facts, description: "made", ...data });
  const measure = measureOf(source, { loss: pass.loss, full: false });
  const ranks = Array.from({ length: world }, (_, rank) => {
    const shards = openVirtualShards({ count, rank, world, combine: noOthers }, arena, buffers);
    const metrics = new RunningMetrics(measure, count);
    const observe = ({ output, loss }: Outcome, b: MicroBatch) =>
      metrics.observe({ output, target: b.target, loss, items: itemsOf(b, pass.loss), part: b.shard });
    return { shards, metrics, step: { ...made.step, observe } };
  });
  const losses: number[] = [];
  for (let number = 0; number < STEPS; number++) {
    scope(() => {
      const batches = batchesOf(data, number, count);
      const shares = sharesOf(batches, pass.loss);
      const before = shardState(ranks[0].shards);
      const sumsOf = ({ shards, step }: typeof ranks[number]) => {
        const mine = (_: unknown, i: number) =>
          batches[i].shard! >= shards.own.from && batches[i].shard! < shards.own.to;
        const [own, parts] = [batches.filter(mine), shares.filter(mine)];
        const { watch } = openStep(step);
        return ownSums(shards, before, (shard) => computeShard(step, shard, own, parts, watch));
      };
      // The others' sums come in another order than theirs.
      const combine: CombineSums = (own) => [...ranks.slice(1).toReversed().flatMap(sumsOf), ...own];
      const gradients = shardedGradients({ ...ranks[0].shards, combine }, made.step);
      losses.push(run({ ...made, step: { ...ranks[0].step, gradients } }, batches, { number }).loss);
    });
  }
  const sums = ranks.map(({ metrics }) => metrics.sums()).reduce((a, b) => a.map((x, i) => x + b[i]));
  const metrics = new RunningMetrics(measure, count);
  metrics.restore(sums);
  return { losses, sums, metrics: metrics.result(), tensors: await tensorsOf(made) };
}

function batchesOf(data: { input: Tensor; target: Tensor }, number: number, count: number): MicroBatch[] {
  const samples = order(SAMPLES, 7, Math.floor(number / PER_EPOCH), true);
  return partsOfShards(samples, number % PER_EPOCH, PLAN, 0, false, { from: 0, to: count }, count)
    .map(({ ids, shard }) => ({
      input: indexSelect(data.input, 0, tensor(ids)),
      target: indexSelect(data.target, 0, tensor(ids)),
      shard,
    }));
}

/** Weights, running statistics and the optimizer's state. */
const tensorsOf = ({ model, step }: Rig): Promise<string[]> =>
  Promise.all(
    [...model.root.stateDict().map(([, t]) => t), ...[...step.optimizer.slots.values()].flat()].map(print),
  );

for (
  const [title, workload] of [["gpt with dropout", language], ["a convnet with batch norm", maps]] as const
) {
  Deno.test(`${title}: ${STEPS} steps have the same bits on 1, 2 and 4 ranks`, async () => {
    const [one, two, four] = await onWorlds(workload, 8, [1, 2, 4]);
    assertEquals(two, one);
    assertEquals(four, one);
    assertNotEquals(one.losses[0], one.losses[STEPS - 1]);
  });
}

Deno.test("12 shards have the same bits on 1, 3, 4 and 6 ranks, which don't all hold whole halves", async () => {
  const [one, ...shared] = await onWorlds(maps, 12, [1, 3, 4, 6]);
  for (const other of shared) assertEquals(other, one);
});

const shardsAlone = ({ arena, model, step }: Rig, count: number) =>
  shardedGradients(
    openVirtualShards(
      { count, rank: 0, world: 1, combine: noOthers },
      arena,
      model.root.namedBuffers().map(([, t]) => t),
    ),
    step,
  );

async function onWorlds(workload: Workload, shards: number, worlds: readonly number[]) {
  const ends = [];
  for (const world of worlds) ends.push(await trained(workload, shards, world));
  return ends;
}

Deno.test("one step's gradient and loss are those of a step without shards, but for rounding", () => {
  const make = () => gpt({ vocabulary: 17, context: 12, layers: 1, heads: 2, embed: 16 });
  const [plain, ...cut] = [null, 1, 4, 8].map((count) =>
    scope(() => {
      const made = rig(seeded(1n, make), language.facts, { ignoreIndex: IGNORED });
      const gradients = count ? shardsAlone(made, count) : undefined;
      const batches = batchesOf(seeded(2n, language.data), 0, count ?? 8);
      const { loss } = run({ ...made, step: { ...made.step, gradients } }, batches);
      return { loss, gradient: toNumbers(made.arena.gradient) };
    })
  );
  const length = (x: Float64Array) => Math.hypot(...x);
  assert(length(plain.gradient) > 1e-3, "a gradient of nothing proves nothing");
  for (const { loss, gradient } of cut) {
    assertAlmostEquals(loss / plain.loss, 1, 1e-6);
    const apart = length(gradient.map((g, i) => g - plain.gradient[i])) / length(plain.gradient);
    assert(apart < 1e-6, `gradients differ by ${apart}`);
  }
});

Deno.test("running statistics move by the mean of what each shard moves them by, counters by one a step", () => {
  scope(() => {
    const buffers = (made: Rig) => Object.fromEntries(made.model.root.namedBuffers());
    const after = (count: number | null, only: (b: MicroBatch) => boolean) => {
      const made = rig(seeded(1n, maps.make), maps.facts, maps.options);
      const batches = batchesOf(seeded(2n, maps.data), 0, 2).filter(only).map((b) =>
        count ? b : { ...b, shard: 0 }
      );
      const gradients = count ? shardsAlone(made, count) : undefined;
      run({ ...made, step: { ...made.step, gradients } }, batches);
      return buffers(made);
    };
    const both = after(2, () => true), [first, second] = [0, 1].map((k) => after(null, (b) => b.shard === k));
    for (const [name, value] of Object.entries(both)) {
      const [whole, ...parts] = [value, first[name], second[name]].map(toNumbers);
      if (name.endsWith("num_batches_tracked")) assertEquals([...whole], [1]);
      // Only the first layer sees the same input in both: those behind it draw other dropout.
      else if (name.startsWith("features.0")) {
        whole.forEach((x, i) => assertAlmostEquals(x, (parts[0][i] + parts[1][i]) / 2, 1e-6, name));
      }
    }
  });
});

Deno.test("steps with shards leave no tensor behind", () => {
  const made = rig(seeded(1n, maps.make), maps.facts, maps.options);
  const gradients = shardsAlone(made, 8);
  const data = seeded(2n, maps.data);
  const counts = Array.from({ length: 6 }, (_, number) => {
    scope(() => run({ ...made, step: { ...made.step, gradients } }, batchesOf(data, number, 8), { number }));
    return liveTensors();
  });
  assertEquals(new Set(counts.slice(2)).size, 1, counts.join());
});
