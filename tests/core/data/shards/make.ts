// Samples that tell by their numbers where they came from, and places to pack them. Test helper.
import { join } from "paths";
import { inputOf, type PackedSchema, rowLayoutOf, targetOf } from "../../../../core/data/shards/schema.ts";
import { closeFile, openForReading } from "../../../../ffi/libc.ts";
import { type Make, type PackPlan, writeShards } from "../../../../core/data/shards/write.ts";

closeFile(openForReading("/dev/null")); // opens libc before a test looks whether it does

export const SCHEMA: PackedSchema = {
  encoding: "rows",
  input: { name: "map", shape: [2, 3], dtype: "f32", seen: "f32" },
  target: { name: "amount", shape: [1], dtype: "f64", seen: "f32" },
  task: "regression",
  outputs: 1,
};

export const plan = (out: string, changes: Partial<PackPlan> = {}): PackPlan => ({
  out,
  schema: SCHEMA,
  samples: 103,
  val: 11,
  perShard: 10,
  origin: { kind: "test", hash: "abc", said: "numbers of a test" },
  ...changes,
});

/** Input: 100 i + 0 to 5; target: i / 7. */
export const make: Make = (first, count, rows) => {
  const layout = rowLayoutOf(SCHEMA);
  for (let i = 0; i < count; i++) {
    const numbers = Float32Array.from({ length: 6 }, (_, j) => 100 * (first + i) + j);
    inputOf(rows, layout, i).set(new Uint8Array(numbers.buffer));
    targetOf(rows, layout, i).set(new Uint8Array(Float64Array.of((first + i) / 7).buffer));
  }
};

export const alone = { rank: 0, world: 1 };

export const pack = (out: string, changes: Partial<PackPlan> = {}) =>
  writeShards(plan(out, changes), alone, make);

/** Every file of a folder by name, as hex: for comparing. */
export function contents(folder: string): Record<string, string> {
  const names = [...Deno.readDirSync(folder)].map(({ name, isDirectory }) => isDirectory ? `${name}/` : name)
    .sort();
  return Object.fromEntries(
    names.map((name) => [name, name.endsWith("/") ? "" : Deno.readFileSync(join(folder, name)).toHex()]),
  );
}
