import { assert, assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import {
  nodesWithin,
  type ShardRange,
  shardsOfRank,
  type ShardSum,
  treeSum,
} from "../../../../core/train/micro_batch.ts";

/** The sum as it is written down: "((0+1)+2)". */
const written = (left: string, right: string) => `(${left}+${right})`;
const leaf = (from: number, to: number) => to - from === 1 ? String(from) : undefined;

/** Each rank adds up what it can alone, and the others' sums come to it. */
function onRanks(shards: number, world: number): string {
  const sums = Array.from({ length: world }, (_, rank) => shardsOfRank(shards, rank, world)).flatMap((own) =>
    nodesWithin(own, shards).map((node): ShardSum<string> => ({
      ...node,
      value: treeSum(node, leaf, written),
    }))
  );
  const known = (from: number, to: number) => sums.find((s) => s.from === from && s.to === to)?.value;
  return treeSum({ from: 0, to: shards }, known, written);
}

Deno.test("whoever holds which shards, the same numbers are added in the same order", () => {
  for (let shards = 1; shards <= 40; shards++) {
    const alone = treeSum({ from: 0, to: shards }, leaf, written);
    for (let world = 1; world <= shards; world++) {
      if (shards % world === 0) assertEquals(onRanks(shards, world), alone, `${shards} on ${world}`);
    }
  }
  assertEquals(treeSum({ from: 0, to: 6 }, leaf, written), "(((0+1)+(2+3))+(4+5))");
});

Deno.test("a rank's nodes are its shards, each once", () => {
  for (const [shards, world] of [[8, 4], [12, 6], [24, 3], [7, 1], [30, 5]]) {
    for (let rank = 0; rank < world; rank++) {
      const own = shardsOfRank(shards, rank, world);
      const numbers = ({ from, to }: ShardRange) => Array.from({ length: to - from }, (_, i) => from + i);
      assertEquals(nodesWithin(own, shards).flatMap(numbers), numbers(own));
    }
  }
});

Deno.test("a rank that holds as many shards as a power of two has one sum to give", () => {
  for (const world of [1, 2, 4, 8]) assertEquals(nodesWithin(shardsOfRank(8, world - 1, world), 8).length, 1);
});

Deno.test("a number of ranks that can't share the shards alike is refused with what to set", () => {
  const { kind, message } = assertThrows(() => shardsOfRank(8, 0, 3), UserError);
  assertEquals(kind, "usage");
  for (const part of ["8 virtual shards", "3 ranks", "training.virtual_shards", "multiple of 3"]) {
    assert(message.includes(part), message);
  }
});
