// Statistics are measured once, kept in the user's cache, and measured again whenever anything changed.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { spreadOver, statisticsOf } from "../../../../core/data/transforms/statistics.ts";
import { tensor } from "../../../../ffi/make.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { sentenceNamed } from "../../../sentences.ts";

useLibtorch();

/** Two samples, and how often they were read. */
function counted(...values: number[]) {
  const facts = { task: "regression", outputs: 1, input: { shape: [1], dtype: "f32" } } as const;
  const samples = {
    name: "a.npz",
    length: values.length,
    facts,
    reads: 0,
    batch(ids: Int32Array) {
      samples.reads++;
      return { input: tensor([...ids].map((id) => values[id]), [ids.length, 1]), target: tensor(ids) };
    },
  };
  return samples;
}

/** With the user's cache in this folder. */
const withCache = (test: (folder: string) => void) =>
  inFolder((folder) => {
    const before = Deno.env.get("HPCTRAIN_CACHE");
    Deno.env.set("HPCTRAIN_CACHE", `${folder}/cache`);
    try {
      test(folder);
    } finally {
      if (before === undefined) Deno.env.delete("HPCTRAIN_CACHE");
      else Deno.env.set("HPCTRAIN_CACHE", before);
    }
  });

/** The one file of the cache. */
function keptIn(folder: string): string {
  const [{ name }] = Deno.readDirSync(`${folder}/cache/statistics`);
  return `${folder}/cache/statistics/${name}`;
}

const MEASURED = { samples: 2, mean: [2], std: [1], min: [1], max: [3], classes: null };

Deno.test(
  "a second time nothing is read: the statistics are in the user's cache, and the data's folder has no file more",
  withCache((folder) => {
    const file = `${folder}/a.npz`, inside = `${folder}/images`;
    Deno.writeTextFileSync(file, "data");
    Deno.mkdirSync(`${inside}/cats`, { recursive: true });
    Deno.writeTextFileSync(`${inside}/cats/a.jpg`, "data");
    for (const path of [file, inside, `${folder}/*.npz`]) {
      const samples = counted(1, 3), what = { path, settings: { scaling: "log" } };
      const first = statisticsOf(samples, what), second = statisticsOf(samples, what);
      assertEquals([first.statistics, second.statistics, samples.reads], [MEASURED, MEASURED, 1]);
      assertStringIncludes(first.notes[0], `Statistics of 2 training samples, measured in `);
      assertStringIncludes(first.notes[0], `kept in ${folder}/cache/statistics/`);
      assertEquals(second.notes, [
        sentenceNamed("core/data/transforms/statistics: statistics training samples"),
      ]);
    }
    const there = [folder, inside].map((path) => [...Deno.readDirSync(path)].map(({ name }) => name).sort());
    assertEquals(there, [["a.npz", "cache", "images"], ["cats"]]);
  }),
);

Deno.test(
  "other files, sizes, times, settings or samples are measured anew, and each is remembered",
  withCache((folder) => {
    const path = `${folder}/images`;
    Deno.mkdirSync(`${path}/cats`, { recursive: true });
    Deno.writeTextFileSync(`${path}/cats/a.jpg`, "data");
    const samples = counted(1, 3);
    const plain = { path, settings: { resize: 0 }, indices: Int32Array.of(0, 2) };
    const reads = (what: typeof plain) => {
      const before = samples.reads;
      statisticsOf(samples, what);
      return samples.reads - before;
    };
    assertEquals([reads(plain), reads(plain)], [1, 0]);
    assertEquals([reads({ ...plain, settings: { resize: 64 } }), reads(plain)], [1, 0]);
    assertEquals([reads({ ...plain, indices: Int32Array.of(0, 1) }), reads(plain)], [1, 0]);
    Deno.utimeSync(`${path}/cats/a.jpg`, 1, 1);
    assertEquals([reads(plain), reads(plain)], [1, 0], "another time");
    Deno.writeTextFileSync(`${path}/cats/a.jpg`, "longer");
    Deno.utimeSync(`${path}/cats/a.jpg`, 1, 1);
    assertEquals([reads(plain), reads(plain)], [1, 0], "another size");
    Deno.renameSync(`${path}/cats/a.jpg`, `${path}/cats/b.jpg`);
    assertEquals([reads(plain), reads(plain)], [1, 0], "another name");
    const entries = JSON.parse(Deno.readTextFileSync(keptIn(folder))).entries;
    assertEquals(entries.length, 6);
  }),
);

Deno.test(
  "what is damaged is measured anew, and said",
  withCache((folder) => {
    const path = `${folder}/a.npz`;
    Deno.writeTextFileSync(path, "data");
    const samples = counted(1, 3), what = { path, settings: {} };
    statisticsOf(samples, what);
    const kept = keptIn(folder), text = Deno.readTextFileSync(kept);
    const changed = text.replace(/("mean": \[\s*)2/, "$17");
    assert(changed !== text);
    for (const wrong of [changed, text.slice(0, 40), "{}", "null"]) {
      Deno.writeTextFileSync(kept, wrong);
      const { statistics, notes } = statisticsOf(samples, what);
      assertEquals(statistics, MEASURED);
      assertStringIncludes(notes[0], `what was kept in ${kept} is damaged`);
    }
    assertEquals(samples.reads, 5);
  }),
);

Deno.test(
  "where the cache can't be written, they are measured and kept nowhere",
  withCache((folder) => {
    const path = `${folder}/a.npz`;
    Deno.writeTextFileSync(path, "data");
    Deno.writeTextFileSync(`${folder}/cache`, "a file where the folder should be");
    const samples = counted(1, 3), what = { path, settings: {} };
    assertStringIncludes(statisticsOf(samples, what).notes[0], "kept nowhere");
    assertEquals([statisticsOf(samples, what).statistics, samples.reads], [MEASURED, 2]);
  }),
);

Deno.test("data that is made up is measured and not kept", () => {
  const samples = counted(1, 3);
  assertEquals(statisticsOf(samples, { path: "", settings: {} }), { statistics: MEASURED, notes: [] });
});

Deno.test("what is measured unasked is all of a small data set, and evenly spread samples of a large one", () => {
  const maps = { input: { shape: [4, 256, 256] }, target: { shape: [4, 256, 256] } };
  const of = (length: number, most: number) => {
    const { count, at } = spreadOver({ length, ...maps } as never, most);
    return Int32Array.from({ length: count }, (_, i) => at(i));
  };
  assertEquals([...of(5, 2 ** 28)], [0, 1, 2, 3, 4]);
  assertEquals([of(7000, Infinity).length, of(7000, 2 ** 32).length], [7000, 7000]);
  const some = of(100_000, 2 ** 32); // 2^32 numbers are 8,192 samples of 2^19
  assertEquals([some.length, some[0], some.at(-1)], [8192, 0, 99_987]);
  assertEquals(new Set(some.map((id, i) => id - Math.floor(i * 100_000 / 8192))), new Set([0]));
  assertEquals(of(100_000, 2 ** 20).length, 1000); // never fewer
});
