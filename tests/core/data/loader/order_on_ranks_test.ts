// The sequence of global batches as it is read, not as it is planned: by ranks, each with its own loader threads.
import { assertEquals, assertNotEquals } from "@std/assert";
import { batchRows, openLoader } from "../../../../core/data/loader/loader.ts";
import { order, partsOf } from "../../../../core/data/source/order.ts";
import { loadReader } from "../../../../core/data/source/reader.ts";
import { type Part, threadedSource } from "../../../../core/data/source/source.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { open } from "../../train/rig.ts";
import { made } from "./made_reader.ts";

open();
await loadReader(made());

const LENGTH = 131, GLOBAL = 24, MICRO = 5, EPOCHS = 2;
const STEPS = Math.ceil(LENGTH / GLOBAL);

interface Way {
  readonly world: number;
  readonly threads: number;
  readonly prefetch: number;
  /** Steps before which everything is closed, and opened anew, as by a stop and a resumption. */
  readonly stops: readonly number[];
}

const source = () =>
  threadedSource({
    name: "made",
    length: LENGTH,
    indices: null,
    reader: made({ slow: 0.2 }),
    stored: { name: "numbers", shape: [4], dtype: "f32" },
    target: { name: "class", shape: [], dtype: "i64" },
    bad: "fail",
    task: "classification",
    outputs: 10,
    description: "made",
  });

/** The samples that a rank read in each of these steps, by the first number of each row. */
function readByRank(rank: number, { world, threads, prefetch }: Way, from: number, to: number): number[][] {
  const data = source();
  const partsAt = (step: number): Part[] => {
    const epoch = Math.floor(step / STEPS);
    const samples = order(LENGTH, 11, epoch, true);
    return partsOf(samples, step % STEPS, { global: GLOBAL, micro: MICRO }, epoch, false, rank, world);
  };
  const steps = Array.from({ length: to - from }, (_, i) => partsAt(from + i));
  const loader = threads > 0
    ? openLoader([{ source: data, rows: MICRO, held: 1 }], threads, prefetch, false)
    : null;
  const rows = loader ? loader.lanes[0] : batchRows(data);
  try {
    const queue = steps.flat().values();
    rows.begin(() => queue.next().value ?? null);
    return steps.map((parts) =>
      parts.flatMap((part) => {
        const ids = scope(() => [...toNumbers(rows.take(part).input)].filter((_, i) => i % 4 === 0));
        rows.release(1);
        return ids;
      })
    );
  } finally {
    loader?.close();
  }
}

/** The global batches of all epochs. */
function readAll(way: Way): number[][] {
  const edges = [0, ...way.stops, EPOCHS * STEPS];
  return edges.slice(1).flatMap((to, i) => {
    const ranks = Array.from({ length: way.world }, (_, rank) => readByRank(rank, way, edges[i], to));
    return ranks[0].map((_, step) => ranks.flatMap((steps) => steps[step]));
  });
}

async function hashOf(batches: readonly number[][]): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(batches)));
  return new Uint8Array(hash).toHex();
}

const alone = readAll({ world: 1, threads: 0, prefetch: 0, stops: [] });

Deno.test("an epoch reads each sample once, and the next in another order", () => {
  const [first, second] = [0, 1].map((epoch) => alone.slice(epoch * STEPS, (epoch + 1) * STEPS).flat());
  const all = Array.from({ length: LENGTH }, (_, i) => i);
  for (const epoch of [first, second]) assertEquals(epoch.toSorted((a, b) => a - b), all);
  assertNotEquals(first, second);
});

for (const world of [1, 2, 4]) {
  Deno.test(`the hash of what is read is the same on ${world} ranks with 0, 1 and 4 threads, any reading ahead, any stops`, async () => {
    const wanted = await hashOf(alone);
    const ways = [
      { threads: 0, prefetch: 0, stops: [2, 7] },
      { threads: 1, prefetch: 1, stops: [] },
      { threads: 1, prefetch: 1e9, stops: [1, 6] },
      { threads: 4, prefetch: 1, stops: [8] },
      { threads: 4, prefetch: 1e9, stops: [] },
    ];
    for (const way of ways) {
      assertEquals(await hashOf(readAll({ world, ...way })), wanted, JSON.stringify(way));
    }
  });
}
