// Normalising by measured statistics: of the training samples alone, and never by those of other columns.
import { assert, assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import type { Config } from "../../../../core/settings/settings.ts";
import { loadAllReaders } from "../../../../core/data/open/readers.ts";
import { openData } from "../../../../core/data/open/open.ts";
import { batchOf, plainPart } from "../../../../core/data/source/source.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { range, settings } from "../tables/help.ts";

useLibtorch();
await loadAllReaders();

function opened(path: string, changes: Partial<Config["data"]>) {
  const config = settings({
    data: { data_path: path, normalise: "measured", validation_split: 0.25, ...changes },
  });
  const { train, val, notes } = openData(config.data, config.training, config.model);
  const values = (source: typeof train) =>
    scope(() => [...toNumbers(batchOf(source, plainPart(range(0, source.length))).input)]);
  return {
    train: values(train),
    val: values(val!),
    note: notes.find((note) => note.includes("Statistics"))!,
  };
}

const TABLE = "a,b,y\n" + range(0, 40).map((i) => `${i % 7},${1000 + 3 * i},0.5\n`).join("");

Deno.test(
  "training samples come to mean 0 and deviation 1, whatever the others are",
  inFolder((folder) => {
    Deno.writeTextFileSync(`${folder}/t.csv`, TABLE);
    const { train, val, note } = opened(`${folder}/t.csv`, { features: ["b"], targets: ["y"] });
    const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    assertEquals([train.length, val.length], [30, 10]);
    assertAlmostEquals(mean(train), 0, 1e-5);
    assertAlmostEquals(mean(train.map((value) => value ** 2)), 1, 1e-5);
    assert(Math.abs(mean(val)) > 1e-3, "the others were not measured");
    assertStringIncludes(note, "Statistics of 30 training samples, measured in ");
  }),
);

Deno.test(
  "other columns, scalings and splits of the same file have statistics of their own; the same ones are remembered",
  inFolder((folder) => {
    const path = `${folder}/t.csv`;
    Deno.writeTextFileSync(path, TABLE);
    const b: Partial<Config["data"]> = { features: ["b"], targets: ["y"] };
    const { train } = opened(path, b);
    for (
      const other of [
        { features: ["a"] },
        { scaling: "log" },
        { softening: 2, scaling: "log" },
        { validation_split: 0.5 },
        { train_samples: 7 },
      ] as const
    ) {
      const first = opened(path, { ...b, ...other as Partial<Config["data"]> });
      assertStringIncludes(first.note, "measured in", JSON.stringify(other));
    }
    const again = opened(path, b);
    assertStringIncludes(again.note, "as measured before");
    assertEquals(again.train, train);
  }),
);
