// Which samples train and which validate, and in which order: functions of the seed alone, whatever the sizes.
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import type { Config } from "../../../../core/settings/settings.ts";
import { loadAllReaders } from "../../../../core/data/open/readers.ts";
import { openData } from "../../../../core/data/open/open.ts";
import { order, orderHash, partsOf, splitIndices } from "../../../../core/data/source/order.ts";
import { key, uniformInt } from "../../../../core/base/random.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { range, settings } from "./help.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();
await loadAllReaders();

/** Sizes at the edges, and some from anywhere. */
const at = uniformInt(key(1, "sizes"), 20_000);
const SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 255, 256, 257, 1023, 1024, 4097, ...range(0, 30).map(at)];

Deno.test("for every size and share no sample is in both sets, and each is in one", () => {
  for (const total of SIZES.filter((size) => size > 0)) {
    for (const share of [0, 0.001, 0.1, 0.5, 0.9, 0.9999]) {
      const { train, val } = splitIndices(total, share, total);
      const seen = new Uint8Array(total);
      for (const id of [...train, ...val]) seen[id]++;
      assert(seen.every((times) => times === 1), `${total} samples, of which ${share} validate`);
      assertEquals(splitIndices(total, share, total), { train, val });
    }
  }
});

Deno.test("sets by count hold what was asked for, or what there is, and nothing twice", () => {
  for (const total of SIZES.filter((size) => size > 0)) {
    for (const part of [{ train: 5, val: 3 }, { train: 10_000, val: 64 }, { train: 1, val: 10 ** 12 }]) {
      const { train, val } = splitIndices(total, part, 3);
      assertEquals(val.length, Math.min(part.val, total));
      assertEquals(train.length, Math.min(part.train, total - val.length));
      assertEquals(new Set([...train, ...val]).size, train.length + val.length);
      assert([...train, ...val].every((id) => id >= 0 && id < total));
    }
  }
});

Deno.test("another seed is another split, and more training samples leave those to validate with as they are", () => {
  assertNotEquals(splitIndices(1000, 0.1, 1).val, splitIndices(1000, 0.1, 2).val);
  const some = splitIndices(1000, { train: 300, val: 100 }, 1);
  const more = splitIndices(1000, { train: 600, val: 100 }, 1);
  assertEquals(some.val, more.val);
  assert(some.train.every((id) => more.train.includes(id)), "and no training sample is taken away");
});

Deno.test("for every size an epoch visits each sample once, and another epoch in another order", () => {
  for (const length of SIZES.filter((size) => size > 0)) {
    const epochs = [0, 1].map((epoch) => {
      const all = order(length, 9, epoch, true);
      return Int32Array.from({ length }, (_, position) => all.at(position));
    });
    for (const ids of epochs) {
      const seen = new Uint8Array(length);
      for (const id of ids) seen[id]++;
      assert(seen.every((times) => times === 1), `${length} samples`);
    }
    if (length >= 64) assertNotEquals(epochs[0], epochs[1], `${length} samples`);
  }
});

/** Of the ids of all global batches of two epochs, as `world` ranks take them in parts of `micro`. */
async function hashOfBatches(length: number, global: number, world: number, micro = 7): Promise<string> {
  const ids: number[] = [];
  for (const epoch of [0, 1]) {
    const all = order(length, 4, epoch, true);
    for (let index = 0; index * global < length; index++) {
      for (let rank = 0; rank < world; rank++) {
        const parts = partsOf(all, index, { global, micro }, epoch, micro % 2 === 0, rank, world);
        for (const part of parts) ids.push(...part.ids.subarray(0, part.count));
      }
      ids.push(-1); // where a global batch ends is part of it
    }
  }
  const hash = await crypto.subtle.digest("SHA-256", Int32Array.from(ids));
  return new Uint8Array(hash).toHex();
}

Deno.test("the sequence of global batches is the same for 1, 2, 3, 4 and 64 ranks, however each is cut", async () => {
  for (const [length, size] of [[1000, 64], [1003, 128], [50, 64], [4096, 512], [17, 3]]) {
    const one = await hashOfBatches(length, size, 1);
    for (const world of [1, 2, 3, 4, 64]) {
      for (const micro of [7, 16, 1000]) {
        const found = await hashOfBatches(length, size, world, micro);
        assertEquals(found, one, `${length} by ${size} on ${world}, ${micro} at once`);
      }
    }
    if (length > size) assertNotEquals(one, await hashOfBatches(length, size + 1, 1));
  }
});

const TABLE = "a,y\n" + range(0, 200).map((i) => `${i},${i / 2 + 0.25}\n`).join("");

function open(path: string, data: Partial<Config["data"]>, seed = 42) {
  const config = settings({ data: { data_path: path, ...data } });
  return openData(config.data, { ...config.training, seed }, config.model);
}

Deno.test(
  "opened data says how many samples it took, and knows hashes of both orders",
  inFolder((folder) => {
    const path = `${folder}/t.csv`;
    Deno.writeTextFileSync(path, TABLE);
    const { train, val, notes, orders } = open(path, { validation_split: 0.2 });
    assertEquals(new Set([...train.indices!, ...val!.indices!]).size, 200);
    assertEquals([train.indices!.length, val!.indices!.length], [160, 40]);
    const hashes = [
      orderHash(order(160, 42, 0, true), train.indices!),
      orderHash(order(40, 42, 0, false), val!.indices!),
    ];
    assertSentence("core/data/tables/split: data samples train", notes[0]);
    assertEquals(orders, { train: hashes[0], val: hashes[1] });
    const again = open(path, { validation_split: 0.2 });
    assertEquals([again.notes, again.orders], [notes, orders], "the same again");
    const others = [
      open(path, { validation_split: 0.2 }, 43),
      open(path, { validation_split: 0.2, shuffle: false }),
      open(path, { validation_split: 0.1, train_samples: 160 }),
    ];
    for (const other of others) {
      assertEquals(other.train.length, 160);
      assert(other.orders.train !== hashes[0], other.orders.train);
    }
  }),
);

Deno.test("the hash is of the samples, not of their places: two splits of one size differ", () => {
  const all = order(100, 1, 0, true);
  const [a, b] = [1, 2].map((seed) => splitIndices(1000, { train: 100, val: 0 }, seed).train);
  assertNotEquals(orderHash(all, a), orderHash(all, b));
  assertNotEquals(orderHash(all, a), orderHash(all));
});

Deno.test("a change far behind in a long order changes its hash", () => {
  const plain = Int32Array.from({ length: 100_000 }, (_, i) => i), changed = plain.map((id) => id);
  changed.subarray(90_000).reverse();
  const all = order(100_000, 1, 0, false);
  assertNotEquals(orderHash(all, plain), orderHash(all, changed));
});
