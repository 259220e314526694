// --sampling: which samples come how often, the same on any number of ranks and after any stop.
import { assertAlmostEquals, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { memorySource } from "../../../../core/data/source/memory.ts";
import { globalBatch, order } from "../../../../core/data/source/order.ts";
import { openSampling } from "../../../../core/data/source/sampling.ts";
import type { Source } from "../../../../core/data/source/source.ts";
import { tensor, zeros } from "../../../../ffi/make.ts";
import { inFolder, python } from "../../checkpoint/python.ts";
import { contents, trained } from "../../train/started.ts";
import { open } from "../../train/rig.ts";
import { assertSentence } from "../../../sentences.ts";

open();

/** 100 samples of class 0, 17 of class 1, 3 of class 2, and none of class 3. */
const LABELS = Array.from({ length: 120 }, (_, i) => i % 40 === 7 ? 2 : i % 7 === 3 && i !== 87 ? 1 : 0);
const source = (more: Partial<Source> = {}): Source => ({
  ...memorySource({
    ...{ name: "made", task: "classification", outputs: 4, description: "" },
    input: zeros([120, 2]),
    target: tensor(BigInt64Array.from(LABELS, BigInt)),
  }),
  ...more,
});
const settings = (sampling: string, shuffle = true) => ({ sampling, shuffle });
const all = (o: { length: number; at(i: number): number }) =>
  Array.from({ length: o.length }, (_, i) => o.at(i));

Deno.test("balanced sampling takes each class equally often in each run of as many, and all samples of a class in turn", () => {
  const { of, note } = openSampling(settings("balanced"), 5, source());
  const ids = all(of(0)), sizes = [0, 1, 2].map((label) => LABELS.filter((own) => own === label).length);
  assertEquals(ids.length, 120);
  for (let from = 0; from < 120; from += 3) {
    assertEquals(ids.slice(from, from + 3).map((id) => LABELS[id]).sort(), [0, 1, 2]);
  }
  sizes.forEach((size, label) => {
    const own = ids.filter((id) => LABELS[id] === label);
    for (let from = 0; from + size <= own.length; from += size) {
      assertEquals(new Set(own.slice(from, from + size)).size, size, `round at ${from} of class ${label}`);
    }
  });
  assertSentence("core/data/source/sampling: balanced sampling epoch", note, {
    sizes: sizes[2],
    sizes2: sizes[0],
  });
  assertNotEquals(all(of(1)), ids);
  assertEquals(all(openSampling(settings("balanced"), 5, source({ labels: () => LABELS })).of(0)), ids);
});

Deno.test("samples come as often as their weights say, and never with a weight of 0", () => {
  const sampleWeights = Float64Array.from(LABELS, (_, i) => i % 4); // 0, 1, 2, 3
  const { of } = openSampling(settings("weights:w"), 5, source({ sampleWeights }));
  const counts = [0, 0, 0, 0], epochs = 400;
  for (let epoch = 0; epoch < epochs; epoch++) all(of(epoch)).forEach((id) => counts[id % 4]++);
  assertEquals(counts[0], 0);
  counts.forEach((count, weight) => assertAlmostEquals(count / (120 * epochs), weight / 6, 0.006)); // 3 sigma
});

Deno.test("a batch has the same samples on any number of ranks, wherever a run goes on", () => {
  const sampleWeights = Float64Array.from(LABELS, (_, i) => 1 + i % 5);
  for (const sampling of ["balanced", "weights:w"]) {
    const epoch = () => openSampling(settings(sampling), 9, source({ sampleWeights })).of(3);
    const whole = all(epoch());
    for (const world of [1, 2, 3, 8]) {
      for (const step of [4, 0, 2]) {
        const slices = Array.from(
          { length: world },
          (_, rank) => [...globalBatch(epoch(), step, 25, rank, world)],
        );
        assertEquals(slices.flat(), whole.slice(step * 25, (step + 1) * 25), `${sampling} on ${world}`);
      }
    }
  }
});

Deno.test("without --sampling the order is what it was, and what can't be sampled is refused in a sentence", () => {
  const plain = openSampling(settings(""), 5, source());
  assertEquals([all(plain.of(2)), plain.note], [all(order(120, 5, 2, true)), null]);
  const refused = (sampling: string, own: Source, words: string, shuffle = true) =>
    assertThrows(() => openSampling(settings(sampling, shuffle), 0, own), UserError, words);
  const numbers = memorySource({
    ...{
      name: "n",
      task: "regression",
      outputs: 1,
      description: "",
      input: zeros([4, 2]),
      target: zeros([4, 1]),
    },
  });
  refused("balanced", numbers, "a sample of n has no class");
  refused("balanced", source(), "--no-shuffle", false);
  refused("weights:w", numbers, "a column of a table");
  const weights = (values: number[]) => ({ ...numbers, sampleWeights: Float64Array.from(values) });
  refused("weights:w", weights([1, 1, -1, 0]), "w of n is -1 at training sample 2");
  refused("weights:w", weights([0, 0, 0, 0]), "none can be drawn");
});

const FLAGS =
  "--model mlp --batch-size 8 --global-batch-size 24 --epochs 2 --log-interval 1 --scheduler constant --mixup 0.3 --targets y"
    .split(" ");

Deno.test(
  "a run with --sampling has the same bits after any number of stops, with any loader threads, and its weights are no feature",
  inFolder(async (folder) => {
    python(
      `
import sys, numpy as np
rng = np.random.default_rng(0)
x = rng.standard_normal((110, 3)).astype("f4")
y = (x[:, 0] + x[:, 1] > 1.2).astype(int)
w = np.where(y == 1, 5.0, 0.5)
rows = "\\n".join(",".join(map(str, [*r, l, v])) for r, l, v in zip(x, y, w))
open(sys.argv[1] + "/t.csv", "w").write("a,b,c,y,w\\n" + rows + "\\n")
`,
      folder,
    );
    for (const [at, sampling] of ["balanced", "weights:w"].entries()) {
      const own = [
        ...FLAGS,
        "--data-path",
        `${folder}/t.csv`,
        "--sampling",
        sampling,
        ...(at === 0 ? ["--features", "a,b,c"] : []),
      ];
      const run = (name: string, more: string[], resume: string | null = null) =>
        trained(`${folder}/${name}${at}`, [...own, ...more], resume);
      const weights = (path: string) =>
        [...contents(path)].filter(([name]) => name.startsWith("/model_state_dict/"));
      const straight = await run("straight", ["--num-workers", "0"]);
      const first = await run("first", ["--max-steps", "3"]);
      const second = await run("second", ["--max-steps", "6"], first.path);
      const last = await run("last", ["--num-workers", "2"], second.path);
      assertEquals(weights(last.path), weights(straight.path));
      const named = await run("named", ["--features", "a,b,c"]);
      assertEquals(weights(named.path), weights(straight.path), "the weights' column is no feature");
      const plain = await run("plain", ["--features", "a,b,c", "--sampling", ""]);
      assertNotEquals(weights(plain.path), weights(straight.path));
    }
  }),
);
