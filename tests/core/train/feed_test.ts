import { assert, assertEquals } from "@std/assert";
import { order, partsOf } from "../../../core/data/source/order.ts";
import { loadReader } from "../../../core/data/source/reader.ts";
import { type Part, type Source, threadedSource } from "../../../core/data/source/source.ts";
import { createLoss } from "../../../core/models/losses.ts";
import { openFeed, type Supply } from "../../../core/train/feed.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { liveTensors, scope } from "../../../ffi/tensor.ts";
import { made } from "../data/loader/made_reader.ts";
import { open, settings } from "./rig.ts";

open();
await loadReader(made());

const sourceOf = (length: number, slow = 0): Source =>
  threadedSource({
    name: "made",
    length,
    indices: null,
    reader: made({ slow }),
    stored: { name: "numbers", shape: [4], dtype: "f32" },
    target: { name: "class", shape: [], dtype: "i64" },
    bad: "fail",
    task: "classification",
    outputs: 10,
    description: "made",
  });

/** The steps of an epoch whose global batch is cut into micro-batches of 8. */
const stepsOf = (source: Source, epoch = 0): Part[][] => {
  const samples = order(source.length, 3, epoch, true);
  return Array.from(
    { length: Math.ceil(source.length / 20) },
    (_, step) => partsOf(samples, step, { global: 20, micro: 8 }, epoch, false),
  );
};

const inTurn = (steps: Part[][]) => {
  let at = 0;
  return () => steps[at++] ?? null;
};

const feedOf = (sources: Source[], count: number, prefetch = 1e6) => {
  const { training } = settings();
  return openFeed({
    device: "cpu",
    channelsLast: false,
    loss: createLoss(training, sources[0].facts),
    threads: { count, prefetch, lanes: sources.map((source) => ({ source, rows: 8, parts: 3 })) },
  });
};

/** The samples of each micro-batch of the next step. */
const taken = (supply: Supply): number[][] | null =>
  scope(() => {
    const batches = supply.take();
    return batches && batches.map(({ input }) => [...toNumbers(input)].filter((_, i) => i % 4 === 0));
  });

for (const count of [0, 1, 3]) {
  for (const prefetch of [1, 1e6]) {
    Deno.test(`steps come whole and in order, ${count} threads reading ${prefetch} bytes ahead`, () => {
      const source = sourceOf(90, 0.5);
      const feed = feedOf([source], count, prefetch);
      const before = liveTensors();
      try {
        const supply = feed.of(source);
        for (const epoch of [0, 1]) {
          const steps = stepsOf(source, epoch);
          supply.begin(inTurn(steps));
          for (const step of steps) {
            while (!supply.ready(10));
            assertEquals(taken(supply), step.map(({ ids }) => [...ids]));
            supply.ahead();
          }
          assert(supply.ready(0), "nothing more to come is no reason to wait");
          assertEquals(taken(supply), null);
        }
        assertEquals(liveTensors(), before);
        assert(feed.waited() > 0);
      } finally {
        feed.close();
      }
    });
  }
}

Deno.test("an epoch that is left in the middle leaves nothing behind for the next", () => {
  const source = sourceOf(90);
  const feed = feedOf([source], 2);
  try {
    const supply = feed.of(source);
    for (let epoch = 0; epoch < 5; epoch++) {
      const steps = stepsOf(source, epoch);
      supply.begin(inTurn(steps));
      for (const step of steps.slice(0, epoch)) assertEquals(taken(supply), step.map(({ ids }) => [...ids]));
    }
  } finally {
    feed.close();
  }
});

Deno.test("a source is evaluated in the middle of another's epoch", () => {
  const [train, val] = [sourceOf(90), sourceOf(40)];
  const feed = feedOf([train, val], 2);
  try {
    const [a, b] = [feed.of(train), feed.of(val)];
    const steps = stepsOf(train);
    a.begin(inTurn(steps));
    steps.forEach((step, i) => {
      assertEquals(taken(a), step.map(({ ids }) => [...ids]));
      if (i !== 2) return;
      const all = stepsOf(val);
      b.begin(inTurn(all));
      for (const part of all) assertEquals(taken(b), part.map(({ ids }) => [...ids]));
      assertEquals(taken(b), null);
    });
  } finally {
    feed.close();
  }
});

Deno.test("a source has one supply for the whole run: evaluations take no stream, event or buffer of their own", () => {
  const [train, val] = [sourceOf(40), sourceOf(10)];
  const feed = feedOf([train, val], 0);
  assertEquals([feed.of(val) === feed.of(val), feed.of(train) === feed.of(val)], [true, false]);
  for (let epoch = 0; epoch < 3; epoch++) {
    const supply = feed.of(val);
    supply.begin(inTurn(stepsOf(val, epoch)));
    assertEquals(taken(supply)?.flat().length, 10);
    assertEquals(taken(supply), null);
  }
  feed.close();
});
