// An epoch's sums, kept by ranks and shards, and taken up again from a checkpoint.
import { assertEquals } from "@std/assert";
import { emptySums, sumsOf, sumsSoFar, wholeMetrics } from "../../../core/train/epoch.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { shardsOfRank } from "../../../core/train/micro_batch.ts";

/** Of a regression with one target a shard keeps its loss, items, and six sums more. */
const SIZE = 8;

interface Of {
  readonly sums: readonly number[];
  readonly rank?: number;
  readonly world?: number;
  readonly shards?: number;
  readonly stepInEpoch?: number;
}

function runOf({ sums, rank = 0, world = 1, shards, stepInEpoch = 3 }: Of): Trainer {
  return {
    data: {
      train: {
        facts: { task: "regression", input: { shape: [1], dtype: "f32" }, outputs: 1 },
        target: { name: "target", shape: [1], dtype: "f32" },
      },
    },
    pass: { loss: { name: "mse" } },
    gradients: {
      shards: shards === undefined ? null : { count: shards, own: shardsOfRank(shards, rank, world) },
    },
    cursor: { stepInEpoch, sums },
    ranks: world === 1 ? null : {
      team: { rank, world },
      sumsOf: (running: { sums(): number[] }) => running.sums().map((value) => value + 1000), // of others
    },
  } as unknown as Trainer;
}

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i + 1);
const plus = (a: readonly number[], b: readonly number[]) => a.map((value, i) => value + b[i]);

for (const world of [1, 2, 4]) {
  for (const shards of [undefined, 4, 8]) {
    Deno.test(`${world} ranks with ${shards ?? "no"} shards take up a checkpoint's sums, each once`, () => {
      const sums = numbers(SIZE * (shards ?? 1));
      const parts = Array.from(
        { length: world },
        (_, rank) => sumsSoFar(runOf({ sums, rank, world, shards })).sums(),
      );
      assertEquals(parts.reduce(plus), sums);
      if (shards === undefined || world === 1) return;
      const own = parts.map((part) => part.filter((value) => value !== 0).length);
      assertEquals(own, parts.map(() => sums.length / world), "each has its own shards' and no more");
    });
  }
}

Deno.test("sums of a run that was cut into other shards are taken up by one rank, whole", () => {
  const sums = numbers(SIZE);
  const parts = [0, 1].map((rank) => sumsSoFar(runOf({ sums, rank, world: 2, shards: 4 })).sums());
  assertEquals(parts[0], [...sums, ...Array(3 * SIZE).fill(0)]);
  assertEquals(parts[1], Array(4 * SIZE).fill(0));
});

Deno.test("an epoch that begins has nothing in its sums, whatever the one before left", () => {
  assertEquals(sumsSoFar(runOf({ sums: numbers(SIZE), stepInEpoch: 0 })).sums(), Array(SIZE).fill(0));
});

Deno.test("with other ranks the whole is all ranks', and a rank's own part stays its own; alone it is the same", () => {
  const alone = runOf({ sums: numbers(SIZE) });
  const own = sumsSoFar(alone);
  assertEquals(sumsOf(alone, own), numbers(SIZE));
  assertEquals(wholeMetrics(alone, own, []), own);
  const ranks = runOf({ sums: [], rank: 1, world: 2 });
  const part = emptySums(ranks);
  const all = sumsOf(ranks, part);
  assertEquals(all, Array(SIZE).fill(1000));
  assertEquals(wholeMetrics(ranks, part, all).sums(), all);
  assertEquals(part.sums(), Array(SIZE).fill(0));
});
