// The order of samples: the same for any number of ranks, another each epoch, a function all the way.
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { globalBatch, heldOut, order, orderHash, splitIndices } from "../../../../core/data/source/order.ts";

const all = (o: ReturnType<typeof order>) => Array.from({ length: o.length }, (_, i) => o.at(i));
const ascending = (ids: Iterable<number>) => [...ids].sort((a, b) => a - b);

Deno.test("an epoch holds every sample once, in another order than the next", () => {
  const first = all(order(1000, 7, 0, true)), second = all(order(1000, 7, 1, true));
  assertEquals(ascending(first), Array.from({ length: 1000 }, (_, i) => i));
  assertNotEquals(first, second);
  assertNotEquals(first, all(order(1000, 8, 0, true)));
  assertEquals(first, all(order(1000, 7, 0, true)));
});

Deno.test("without shuffling the order is that of the data", () => {
  assertEquals(all(order(5, 7, 3, false)), [0, 1, 2, 3, 4]);
});

Deno.test("a global batch is the same samples in the same order for any number of ranks", () => {
  const epoch = order(1003, 1, 4, true);
  for (const index of [0, 3, 15]) {
    const one = [...globalBatch(epoch, index, 64, 0, 1)];
    assertEquals(one.length, index === 15 ? 1003 - 15 * 64 : 64);
    for (const world of [2, 3, 5, 64, 100]) {
      const slices = Array.from(
        { length: world },
        (_, rank) => [...globalBatch(epoch, index, 64, rank, world)],
      );
      assertEquals(slices.flat(), one, `${world} ranks`);
      const sizes = slices.map((slice) => slice.length);
      assert(Math.max(...sizes) - Math.min(...sizes) <= 1, `${world} ranks: ${sizes}`);
    }
  }
});

Deno.test("the batches of an epoch hold every sample once, and there is nothing after the last", () => {
  const epoch = order(250, 1, 0, true);
  const ids = [0, 1, 2, 3].flatMap((index) => [...globalBatch(epoch, index, 64, 0, 1)]);
  assertEquals(ascending(ids), Array.from({ length: 250 }, (_, i) => i));
  assertEquals(globalBatch(epoch, 4, 64, 0, 1).length, 0);
});

Deno.test("a split is disjoint, complete, ascending and a function of the seed", () => {
  const { train, val } = splitIndices(1797, 0.2, 3);
  assertEquals(val.length, 359);
  assertEquals(ascending([...train, ...val]), Array.from({ length: 1797 }, (_, i) => i));
  assertEquals([...val], ascending(val));
  assertEquals([...train], ascending(train));
  assertEquals(splitIndices(1797, 0.2, 3), { train, val });
  assertNotEquals(splitIndices(1797, 0.2, 4).val, val);
});

Deno.test("a split by counts takes no more than there are", () => {
  const { train, val } = splitIndices(100, { train: 30, val: 20 }, 0);
  assertEquals([train.length, val.length], [30, 20]);
  assertEquals(new Set([...train, ...val]).size, 50);
  const most = splitIndices(100, { train: 1000, val: 20 }, 0);
  assertEquals([most.train.length, most.val.length], [80, 20]);
  assertEquals(most.val, val, "the validation samples do not depend on how many are trained with");
});

Deno.test("a share holds out at least one sample and leaves at least one", () => {
  assertEquals([heldOut(10, 0), heldOut(10, 0.01), heldOut(10, 0.99), heldOut(1, 0.5), heldOut(2, 0.1)], [
    0,
    1,
    9,
    0,
    1,
  ]);
});

Deno.test("orderHash differs for another epoch, seed or length, and where nothing is shuffled", () => {
  const hash = orderHash(order(1000, 7, 0, true));
  assert(/^[0-9a-f]{8}$/.test(hash), hash);
  assertEquals(hash, orderHash(order(1000, 7, 0, true)));
  const others = [
    order(1000, 7, 1, true),
    order(1000, 8, 0, true),
    order(999, 7, 0, true),
    order(1000, 7, 0, false),
  ];
  assertEquals(new Set([hash, ...others.map((other) => orderHash(other))]).size, 5);
});
