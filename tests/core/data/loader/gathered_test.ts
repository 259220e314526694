import { assert, assertEquals } from "@std/assert";
import { gatheredRows } from "../../../../core/data/loader/gathered.ts";
import { order, partsOf } from "../../../../core/data/source/order.ts";
import { memorySource } from "../../../../core/data/source/memory.ts";
import { finishesNothing, gathersRows, type Part, type Source } from "../../../../core/data/source/source.ts";
import { beginOf, readBytes } from "../../../../ffi/make.ts";
import { randint, randn } from "../../../../ffi/ops.ts";
import { liveTensors, scope } from "../../../../ffi/tensor.ts";
import { open } from "../../train/rig.ts";

open();

const sourceOf = (length: number, features: number): Source =>
  memorySource({
    ...{ name: "made", task: "classification", outputs: 4, description: "" },
    input: randn([length, features]),
    target: randint(0, 4, [length], "i64"),
  });

const partsIn = (source: Source, global: number, micro: number): Part[][] => {
  const samples = order(source.length, 3, 0, true);
  return Array.from(
    { length: Math.ceil(source.length / global) },
    (_, step) => partsOf(samples, step, { global, micro }, 0, false),
  );
};

const SHAPES = [[1010, 7, 16, 16], [1010, 7, 48, 16], [999, 3, 5, 5], [640, 16, 32, 32], [
  900,
  4000,
  8,
  4,
]] as const;

for (const [length, features, global, micro] of SHAPES) {
  Deno.test(`batches of ${micro} rows of ${features} numbers are the same gathered at once, and begin at 64 bytes`, () => {
    const source = sourceOf(length, features), steps = partsIn(source, global, micro);
    assert(gathersRows(source) && finishesNothing(source));
    const before = liveTensors(), clock = { seconds: 0 };
    const rows = gatheredRows(source, clock);
    for (const _epoch of [0, 1]) {
      const all = steps.flat();
      let at = 0, held = 0;
      rows.begin(() => all[at++] ?? null);
      for (const parts of steps) {
        for (let i = 0; i < parts.length; i++) assert(rows.ready(i, 0));
        rows.release(held);
        scope(() => {
          const batches = parts.map((part) => rows.take(part)); // a step has all of its own at once
          parts.forEach((part, i) => {
            const own = source.raw(part);
            for (const field of ["input", "target"] as const) {
              assertEquals(readBytes(batches[i][field]), readBytes(own[field]));
              assertEquals(beginOf(batches[i][field]) % 64n, 0n);
            }
          });
        });
        held = parts.length;
      }
    }
    assert(clock.seconds > 0);
    rows.close();
    assertEquals(liveTensors(), before);
  });
}
