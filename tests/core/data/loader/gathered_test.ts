import { assert, assertEquals, assertThrows } from "@std/assert";
import { gatheredRows } from "../../../../core/data/loader/gathered.ts";
import { order, partsOf } from "../../../../core/data/source/order.ts";
import { memorySource } from "../../../../core/data/source/memory.ts";
import {
  batchOf,
  finishesNothing,
  finishesRows,
  finishThen,
  gathersRows,
  type Part,
  plainPart,
  type Source,
} from "../../../../core/data/source/source.ts";
import { NativeError } from "../../../../ffi/errors.ts";
import { add, beginOf, fill_, readBytes, scalar, tensor } from "../../../../ffi/make.ts";
import { div, indexSelect, mul, randint, randn, toDtype } from "../../../../ffi/ops.ts";
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

Deno.test("rows have the bits that an op takes, whatever their type, and one that is not there is refused", () => {
  const ids = Int32Array.of(8, 0, 8, 3, 5);
  for (const dtype of ["f32", "f64", "f16", "i64", "u8"] as const) {
    for (const shape of [[9, 4], [9, 3], [9], [9, 2, 5], [9, 9000]]) {
      scope(() => {
        const input = toDtype(mul(randn(shape), scalar(100)), dtype), target = add(input, input);
        const source = memorySource({
          ...{ name: "made", task: "regression", outputs: 1, description: "" },
          ...{ input, target },
        });
        const own = source.raw(plainPart(ids)), index = tensor(ids);
        assertEquals(readBytes(own.input), readBytes(indexSelect(input, 0, index)));
        assertEquals(readBytes(own.target), readBytes(indexSelect(target, 0, index)));
        assertEquals(own.input.shape, [5, ...shape.slice(1)]);
        for (const absent of [9, -1]) {
          assertThrows(() => source.raw(plainPart(Int32Array.of(absent))), NativeError, "index out of range");
        }
      });
    }
  }
});

/** As normalised inputs are. */
const scaledSource = (length: number): Source =>
  finishThen(
    sourceOf(length, 5),
    (batch) => scope(() => ({ ...batch, input: div(batch.input, scalar(3)), unscaled: batch.target })),
    true,
  );

Deno.test("batches that are finished at once are those that are finished one by one", () => {
  const source = scaledSource(530), before = liveTensors();
  assert(finishesRows(source) && !finishesNothing(source));
  assert(!finishesRows(finishThen(source, (batch) => batch)), "what more is done may depend on the part");
  const rows = gatheredRows(source, { seconds: 0 });
  assert(rows.finished);
  for (const parts of [partsIn(source, 16, 16).flat(), inOrder(source.length, 32)]) {
    for (const _epoch of [0, 1, 2]) {
      through(rows, parts, (batch, part) => {
        const own = batchOf(source, part);
        for (const field of ["input", "target", "unscaled"] as const) {
          assertEquals(readBytes(batch[field]!), readBytes(own[field]!));
        }
      });
    }
  }
  rows.close();
  assertEquals(liveTensors(), before);
});

Deno.test("an evaluation's rows are made once, and a model that writes to its input does not change the next one's", () => {
  const source = scaledSource(100), made: number[] = [];
  const counted = finishThen(source, (batch, { ids }) => (made.push(ids.length), batch), true);
  const rows = gatheredRows(counted, { seconds: 0 }), parts = inOrder(100, 32);
  const before = through(rows, parts, (batch) => readBytes(batch.input));
  const finished = made.length;
  for (const _epoch of [0, 1]) {
    const again = through(rows, parts, (batch) => {
      const bytes = readBytes(batch.input);
      fill_(batch.input, 7);
      return bytes;
    });
    assertEquals(again, before);
  }
  assertEquals(made.length, finished);
  rows.close();
});

const inOrder = (length: number, size: number): Part[] =>
  Array.from({ length: Math.ceil(length / size) }, (_, i) => {
    const from = i * size, count = Math.min(size, length - from);
    return plainPart(Int32Array.from({ length: count }, (_, k) => from + k));
  });

function through<R>(
  rows: ReturnType<typeof gatheredRows>,
  parts: readonly Part[],
  see: (batch: ReturnType<typeof rows.take>, part: Part) => R,
): R[] {
  let at = 0;
  rows.begin(() => parts[at++] ?? null);
  return parts.map((part) => {
    assert(rows.ready(0, 0));
    const seen = scope(() => [see(rows.take(part), part)])[0];
    rows.release(1);
    return seen;
  });
}
