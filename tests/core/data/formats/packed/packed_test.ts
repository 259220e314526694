// Packed data read again: the values that were packed, in memory and from the files, and a sentence for every damage.
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "paths";
import { reader as packed } from "../../../../../core/data/formats/packed/packed.ts";
import { packedReader } from "../../../../../core/data/shards/reader.ts";
import { loadReader } from "../../../../../core/data/source/reader.ts";
import { batchOf, plainPart, type Source } from "../../../../../core/data/source/source.ts";
import { UserError } from "../../../../../core/base/errors.ts";
import { toNumbers } from "../../../../../ffi/make.ts";
import { scope } from "../../../../../ffi/tensor.ts";
import { inTemp } from "../../../../integration/program.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { python } from "../../../checkpoint/python.ts";
import { blocksOf } from "../../../../integration/docs_blocks.ts";
import { range, settings } from "../../tables/help.ts";
import { pack } from "../../shards/make.ts";
import { assertRefusal, assertSentence } from "../../../../sentences.ts";

useLibtorch();
await loadReader({ module: packedReader });

/** Settings with the seed 1. */
const seeded = (changes: Parameters<typeof settings>[0]) => {
  const config = settings(changes);
  return { ...config, training: { ...config.training, seed: 1 } };
};

type Data = Parameters<typeof settings>[0]["data"];
const open = (folder: string, data: Data = {}) =>
  packed.open(seeded({ data: { data_path: folder, ...data } }));
const WAYS: Data[] = [{ in_memory: "yes" }, { in_memory: "no" }];

/** Each sample's first input and its target. */
const values = (source: Source): [number, number][] =>
  scope(() => {
    const { input, target } = batchOf(source, plainPart(range(0, source.length)));
    const [x, y] = [toNumbers(input), toNumbers(target)];
    return range(0, source.length).map((
      i,
    ) => [x[i * x.length / source.length], y[i * y.length / source.length]]);
  });

const packedValues = (from: number, to: number) =>
  range(from, to).map((i): [number, number] => [100 * i, Math.fround(i / 7)]);

/** What reading all of it, in this way, is refused with. */
function refusal(folder: string, data: Data = {}): string {
  const error = assertThrows(() => {
    const { train, val } = open(folder, data);
    for (const source of [train, val]) if (source) values(source);
  }, UserError);
  assertEquals(error.kind, "data");
  assertMatch(error.message, /\.$/);
  return error.message;
}

/** One byte of a file changed. */
function flip(path: string, at: number): void {
  const bytes = Deno.readFileSync(path);
  bytes[at] ^= 0x10;
  Deno.writeFileSync(path, bytes);
}

for (const way of WAYS) {
  Deno.test(`what is read with in_memory ${way!.in_memory} is what was packed, both sets in their order`, () =>
    inTemp(async (folder) => {
      await pack(folder);
      const { train, val, notes } = open(folder, way);
      assertEquals([values(train), values(val!)], [packedValues(0, 92), packedValues(92, 103)]);
      assertEquals([train.threaded !== undefined, notes], [way!.in_memory === "no", []]);
      assertEquals(train.input, { name: "map", shape: [2, 3], dtype: "f32" });
      assertEquals(train.target, { name: "amount", shape: [1], dtype: "f32" });
      assertSentence("core/data/formats/packed/packed: samples number packed", train.describe(), { folder });
      const scattered = plainPart([91, 0, 45, 9, 10]);
      scope(() =>
        assertEquals(
          [...toNumbers(batchOf(train, scattered).target)],
          [91, 0, 45, 9, 10].map((i) => Math.fround(i / 7)),
        )
      );
    }));
}

Deno.test("fewer samples than there are, and a validation set from those to train with, are seeded choices", () =>
  inTemp(async (folder) => {
    await pack(folder);
    const few = open(folder, { train_samples: 20, val_samples: 5 });
    assertSentence("core/data/formats/packed/packed: used samples because", few.notes[0]);
    for (const [source, from, to] of [[few.train, 0, 92], [few.val!, 92, 103]] as const) {
      const all = packedValues(from, to).map(String), some = values(source).map(String);
      assertEquals(some.every((value) => all.includes(value)) && new Set(some).size, some.length);
    }
    assertEquals(values(few.train), values(open(folder, { train_samples: 20, in_memory: "no" }).train));
    assertEquals(open(folder, { val_samples: 0 }).val, null);
    const whole = join(folder, "whole");
    await pack(whole, { val: 0 });
    const split = open(whole, { validation_split: 0.25 });
    assertEquals([split.train.length, split.val!.length], [77, 26]);
    const both = [...values(split.train), ...values(split.val!)].sort(([a], [b]) => a - b);
    assertEquals(both, packedValues(0, 103));
  }));

Deno.test("numpy reads it with the lines of docs/packed.md", () =>
  inTemp(async (folder) => {
    await pack(join(folder, "packed"));
    const page = Deno.readTextFileSync(new URL("../../../../../docs/packed.md", import.meta.url));
    const [block] = blocksOf(page).filter(({ language }) => language === "python");
    const program = `import os, sys, zlib; os.chdir(sys.argv[1])
${block.text}
for shard in shards:
    for row in shard:
        assert row["crc32"] == zlib.crc32(row["target"].tobytes(), zlib.crc32(row["input"].tobytes()))
print(json.dumps([x.shape, str(x.dtype), y.shape, x.tolist(), y.tolist()]))`;
    const [xShape, dtype, yShape, x, y] = JSON.parse(python(program, folder));
    assertEquals([xShape, dtype, yShape], [[92, 2, 3], "float32", [92, 1]]);
    assertEquals(x[91], [[9100, 9101, 9102], [9103, 9104, 9105]]);
    assertEquals(y.flat(), range(0, 92).map((i) => i / 7));
  }));

const header = 64, row = 24 + 8 + 8; // input, target, checksum and padding

Deno.test("a byte that changed is found in either way, its shard is named, and its sample can be left out", () =>
  inTemp(async (folder) => {
    await pack(folder);
    flip(join(folder, "shard-00003.bin"), header + 4 * row + 9); // in the input of sample 34
    flip(join(folder, "shard-00005.bin"), header + 2 * row + 30); // in the target of sample 52
    for (const way of WAYS) {
      assertMatch(
        refusal(folder, way),
        /^Sample 34 \(\S+shard-00003\.bin\) is damaged: its checksum is wrong \(delete the shard and run the same pack/,
      );
    }
    const [held, streamed] = WAYS.map((way) => open(folder, { ...way, bad_samples: "skip" }));
    const good = packedValues(0, 92).filter(([x]) => x !== 3400 && x !== 5200);
    assertEquals(values(held.train), good);
    assertEquals(held.notes, ["Left out 2 damaged samples (--bad-samples skip)"]);
    // Read as they are wanted, the next one stands in for each.
    assertEquals(
      values(streamed.train).filter(([x], i) => x !== 100 * i),
      packedValues(35, 36).concat(packedValues(53, 54)),
    );
  }));

Deno.test("a shard that becomes shorter while it is read, or goes, ends with a sentence", () =>
  inTemp(async (folder) => {
    await pack(folder);
    const { train } = open(folder, { in_memory: "no" });
    const read = (id: number) => scope(() => batchOf(train, plainPart([id])));
    read(20);
    Deno.truncateSync(join(folder, "shard-00002.bin"), header + 5 * row);
    read(24);
    assertRefusal(
      "data",
      "core/data/formats/packed/packed: shard bin cut",
      assertThrows(() => read(26), UserError),
    );
    Deno.removeSync(join(folder, "shard-00004.bin"));
    assertThrows(() => read(40), UserError, "shard-00004.bin) can't be opened");
  }));

Deno.test("shards that are missing, cut off or too many are found before anything is read", () =>
  inTemp(async (folder) => {
    await pack(folder);
    const shard = join(folder, "shard-00011.bin");
    Deno.truncateSync(shard, 100);
    assertSentence("core/data/formats/packed/packed: shard bin bytes", refusal(folder));
    Deno.removeSync(shard);
    assertMatch(refusal(folder), /shard-00011\.bin is not there\. Copy it again/);
    Deno.removeSync(join(folder, "index.json"));
    assertMatch(refusal(folder), /There is no \S+index\.json: name the folder that hpctrain pack wrote/);
    Deno.mkdirSync(join(folder, ".packing"));
    assertSentence("core/data/formats/packed/packed: packed completely run", refusal(folder));
  }));

const damage: [name: string, change: (index: any) => unknown, says: RegExp][] = [
  ["another format", (i) => i.format = "parquet", /is no index of packed data/],
  ["a newer version", (i) => i.version = 2, /is of version 2; this program reads version 1/],
  ["an unknown type", (i) => i.input.dtype = "complex64", /has input of the type "complex64"/],
  ["a negative size", (i) => i.input.shape = [-2, 3], /has -2 as input\.shape, where a whole number/],
  ["rows that don't fit", (i) => i.input.shape = [2, 4], /says row_bytes 40, but its fields make rows of 48/],
  ["a shard elsewhere", (i) => i.train[0].name = "../../secret", /has no name of a file in train\[0\]/],
  [
    "a shard of another size",
    (i) => i.val[0].bytes = 1e15,
    /says that \S+ has 1000000000000000 bytes, and 10 samples/,
  ],
  ["no shards", (i) => delete i.train, /has no list train/],
  ["an unknown task", (i) => i.task = "chess", /has the task "chess", which is unknown here/],
];
for (const [name, change, says] of damage) {
  Deno.test(`an index with ${name} is refused`, () =>
    inTemp(async (folder) => {
      await pack(folder);
      const path = join(folder, "index.json");
      const index = JSON.parse(Deno.readTextFileSync(path));
      change(index);
      Deno.writeTextFileSync(path, JSON.stringify(index));
      assertMatch(refusal(folder), says);
    }));
}

Deno.test("an index that is cut off is refused", () =>
  inTemp(async (folder) => {
    await pack(folder);
    Deno.truncateSync(join(folder, "index.json"), 300);
    assertSentence("core/data/formats/packed/packed: index json json", refusal(folder));
  }));
