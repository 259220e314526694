// Sources of every shape -> rows, and from the rows back to the very numbers that the source gives.
import { assertEquals } from "@std/assert";
import { join } from "paths";
import { memorySource } from "../../../../core/data/source/memory.ts";
import { openPacked } from "../../../../core/data/shards/source.ts";
import { packingOf } from "../../../../core/data/shards/samples.ts";
import { writeShards } from "../../../../core/data/shards/write.ts";
import { type Batch, batchOf, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { constant, readBytes, sub, tensor } from "../../../../ffi/make.ts";
import { div, toDtype } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { inTemp } from "../../../integration/program.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { range, settings } from "../tables/help.ts";
import { alone } from "./make.ts";

useLibtorch();

const origin = { kind: "test", hash: "1", said: "a test" };

/** Packs and reads again: what each field is stored as, and whether every sample has the source's own bits. */
async function roundTrip(folder: string, train: Source, val: Source | null) {
  const packing = packingOf(train, val, 0);
  const { input, target } = packing.schema;
  await writeShards({ ...packing, out: folder, perShard: 7, origin }, alone, packing.make);
  packing.close();
  const config = settings({ data: { data_path: folder, validation_split: 0 } });
  const again = openPacked({ ...config, training: { ...config.training, seed: 1 } });
  for (const [source, other] of [[train, again.train], [val, again.val]] as const) {
    const bits = (source: Source | null) =>
      source && scope(() => {
        const { input, target } = batchOf(source, plainPart(range(0, source.length)));
        return [input.dtype, input.shape, target.dtype, target.shape, readBytes(input), readBytes(target)];
      });
    assertEquals(bits(other), bits(source));
    if (source) assertEquals(other!.facts, source.facts);
  }
  return [`${input.dtype} / ${input.divisor ?? 1}`, `${target.dtype} / ${target.divisor ?? 1}`];
}

const SAMPLES = 20;
const numbers = (size: number, modulus = 256) => range(0, SAMPLES * size).map((i) => (i * 37) % modulus);
const pixels = () => tensor(Uint8Array.from(numbers(3 * 4 * 5)), [SAMPLES, 3, 4, 5]);
const labels = () => tensor(Uint8Array.from(numbers(1, 10)), [SAMPLES]);
const f32 = (batch: Batch) => toDtype(batch.input, "f32");

type Case = [name: string, parts: Parameters<typeof memorySource>[0], stored: string[]];
const cases = (): Case[] => {
  const facts = { name: "n", task: "classification", outputs: 10, description: "" } as const;
  const classes = { ...facts, input: pixels(), target: labels() };
  const unit = (raw: Batch) => div(f32(raw), constant(255));
  const label = ({ target }: Batch) => toDtype(target, "i64");
  return [
    ["bytes that are divided by 255", {
      ...classes,
      finish: (raw) => ({ input: unit(raw), target: label(raw) }),
    }, [
      "u8 / 255",
      "u8 / 1",
    ]],
    ["bytes that are normalised", {
      ...classes,
      finish: (raw) => ({ input: sub(unit(raw), constant(0.5)), target: label(raw) }),
    }, ["f32 / 1", "u8 / 1"]],
    ["a table of doubles", {
      ...facts,
      task: "regression",
      outputs: 2,
      input: tensor(Float64Array.from(numbers(7), (x) => x / 7), [SAMPLES, 7]),
      target: tensor(Float64Array.from(numbers(2), (x) => x / 3), [SAMPLES, 2]),
      finish: (raw) => ({ input: f32(raw), target: toDtype(raw.target, "f32") }),
    }, ["f32 / 1", "f32 / 1"]],
    ["maps of 16 bits, and masks", {
      ...facts,
      task: "segmentation",
      input: tensor(Int16Array.from(numbers(16), (x) => x - 100), [SAMPLES, 1, 4, 4]),
      target: tensor(Int32Array.from(numbers(16, 10)), [SAMPLES, 4, 4]),
      finish: (raw) => ({ input: f32(raw), target: label(raw) }),
    }, ["i16 / 1", "i32 / 1"]],
    ["rows as the model sees them", {
      ...facts,
      input: toDtype(pixels(), "f32"),
      target: toDtype(labels(), "i64"),
    }, [
      "f32 / 1",
      "i64 / 1",
    ]],
  ];
};

for (const i of range(0, scope(() => cases().length))) {
  const name = scope(() => cases()[i][0]);
  Deno.test(`${name} come back bit for bit, stored as small as they can be`, () =>
    inTemp(async (folder) => {
      const [, parts, stored] = cases()[i];
      assertEquals(await roundTrip(join(folder, "one"), memorySource(parts), null), stored);
      const some = memorySource({ ...parts, rows: Int32Array.of(3, 5, 19) });
      assertEquals(await roundTrip(join(folder, "two"), memorySource(parts), some), stored);
    }));
}
