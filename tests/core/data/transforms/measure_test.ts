// Measured statistics against numpy's, on 1, 2 and 4 ranks.
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  type Measurable,
  measure,
  mergeMeasures,
  stated,
} from "../../../../core/data/transforms/statistics.ts";
import { UserError } from "../../../../core/base/errors.ts";
import type { Facts } from "../../../../core/models/model.ts";
import { key, uniform } from "../../../../core/base/random.ts";
import { tensor } from "../../../../ffi/make.ts";
import { narrow } from "../../../../ffi/ops.ts";
import { keep, type Tensor } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder, python } from "../../checkpoint/python.ts";
import { assertRefusal } from "../../../sentences.ts";

useLibtorch();

/** Samples in memory, in their order. */
function samples(input: Tensor, target: Tensor, task: Facts["task"], outputs: number): Measurable {
  keep(input), keep(target);
  const facts = { task, outputs, input: { shape: input.shape.slice(1), dtype: input.dtype } };
  const batch = (ids: Int32Array) => ({
    input: narrow(input, 0, ids[0], ids.length),
    target: narrow(target, 0, ids[0], ids.length),
  });
  return { name: "made.npz", length: input.shape[0], facts, batch };
}

const onRanks = (what: Measurable, world: number) =>
  stated(mergeMeasures(Array.from({ length: world }, (_, rank) => measure(what, rank, world))));

const NUMPY = `
import json, sys, numpy as np
path, shape = sys.argv[1], json.loads(sys.argv[2])
x = np.fromfile(path, dtype=np.float32).reshape(shape).astype(np.float64)
axes = tuple(i for i in range(x.ndim) if i != 1)
print(json.dumps([f(axis=axes).tolist() for f in (x.mean, x.std, x.min, x.max)]))`;

const close = (found: readonly number[], wanted: readonly number[], what: string) =>
  found.forEach((value, i) =>
    assert(Math.abs(value - wanted[i]) <= 1e-6 * Math.abs(wanted[i]), `${what}: ${value}, not ${wanted[i]}`)
  );

Deno.test(
  "mean, deviation and range of each channel are numpy's to 1e-6 on 1, 2 and 4 ranks, hard data too",
  inFolder((folder) => {
    const at = uniform(key(3, "measure"));
    // The second channel has a mean of 1e6 and a deviation of 1; the pass takes several parts of each share.
    const normal = (i: number) =>
      Math.sqrt(-2 * Math.log(1 - at(2 * i))) * Math.cos(2 * Math.PI * at(2 * i + 1));
    const shapes = [[5001, 3, 20, 30], [9001, 3], [7, 3, 5], [3, 3]];
    for (const shape of shapes) {
      const inner = shape.slice(2).reduce((a, b) => a * b, 1);
      const values = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => {
        const channel = Math.floor(i / inner) % 3;
        return channel === 1 ? 1e6 + normal(i % 99991) : channel + normal(i % 99991) * 10 ** -channel;
      });
      Deno.writeFileSync(`${folder}/x.f32`, new Uint8Array(values.buffer));
      const [mean, std, min, max] = JSON.parse(python(NUMPY, `${folder}/x.f32`, JSON.stringify(shape)));
      const what = samples(tensor(values, shape), tensor(new Float32Array(shape[0])), "regression", 1);
      for (const world of [1, 2, 4]) {
        const found = onRanks(what, world);
        assertEquals([found.samples, found.classes], [shape[0], null]);
        close(found.mean, mean, `mean of ${shape} on ${world}`);
        close(found.std, std, `deviation of ${shape} on ${world}`);
        assertEquals([found.min, found.max], [min, max]);
      }
    }
  }),
);

Deno.test("a long pass tells how far it is, and ends with all of its share", () => {
  const what = samples(
    tensor(new Float32Array(9001), [9001, 1]),
    tensor([...Array(9001).keys()]),
    "regression",
    1,
  );
  const told: string[] = [];
  for (const rank of [0, 1]) measure(what, rank, 2, (done, of) => told.push(`${rank}: ${done} of ${of}`));
  assertEquals(told, ["0: 4096 of 4500", "0: 4500 of 4500", "1: 4096 of 4501", "1: 4501 of 4501"]);
});

Deno.test("classes are counted over all ranks; labels to ignore are not", () => {
  const labels = BigInt64Array.from({ length: 1000 }, (_, i) => i % 10 === 9 ? -100n : BigInt(i % 3));
  const wanted = [0, 1, 2, 3].map((label) => labels.filter((value) => value === BigInt(label)).length);
  const what = samples(tensor(new Float32Array(1000), [1000, 1]), tensor(labels), "classification", 4);
  for (const world of [1, 2, 4]) assertEquals(onRanks(what, world).classes, wanted);
});

Deno.test("labels as vectors of 0 and 1 are counted too", () => {
  const what = samples(
    tensor(new Float32Array(3), [3, 1]),
    tensor([0, 1, 0, 1, 0, 1], [3, 2]),
    "classification",
    2,
  );
  assertEquals(onRanks(what, 2).classes, [0, 3]);
});

Deno.test("more ranks than samples leave some ranks without a share", () => {
  const what = samples(tensor([1, 3], [2, 1]), tensor([0, 0]), "regression", 1);
  assertEquals(onRanks(what, 4), { samples: 2, mean: [2], std: [1], min: [1], max: [3], classes: null });
});

Deno.test("a value that is not finite is refused with its sample", () => {
  const values = new Float32Array(5000 * 2);
  values[2 * 4321 + 1] = NaN;
  const error = assertRefusal(
    "data",
    "core/data/transforms/measure: made npz training",
    assertThrows(
      () => measure(samples(tensor(values, [5000, 2]), tensor(new Float32Array(5000)), "regression", 1)),
      UserError,
    ),
  );
  assertEquals(error.kind, "data");
});
