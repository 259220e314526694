// Overlapping patches: where they begin, weights that sum to one, and answers that come back whole without seams.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { add, constant, tensor, toNumbers } from "../../../ffi/make.ts";
import { cat, narrow, pixelShuffle } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import {
  beginnings,
  blended,
  ofPatches,
  paddingInPatches,
  type Patches,
  patchesOf,
  weightsAlong,
} from "../../../core/models/patches.ts";
import { useLibtorch } from "../../libtorch.ts";

useLibtorch();

const plan = (more: Partial<Patches> = {}): Patches => ({
  ...{ height: 4, width: 6, wraps: [false, false], overlap: 0.25, atOnce: 3, ...more },
});

Deno.test("patches cover each side, overlap by their share, and have weights that sum to one at each point", () => {
  for (
    const [side, patch, wraps, overlap] of [[13, 4, false, 0.25], [13, 4, true, 0.25], [64, 16, true, 0.5], [
      9,
      9,
      true,
      0.5,
    ], [10, 9, false, 0.9]] as const
  ) {
    const begins = beginnings(side, patch, wraps, overlap);
    const sum = new Float64Array(side);
    weightsAlong(begins, patch, side).forEach((row, i) =>
      row.forEach((weight, at) => {
        assert(weight > 0);
        sum[(begins[i] + at) % side] += weight;
      })
    );
    assert(sum.every((weight) => Math.abs(weight - 1) < 1e-12), `${side} ${patch} ${sum}`);
    begins.slice(1).forEach((begin, i) =>
      assert(begin - begins[i] <= Math.ceil(patch * (1 - overlap)), String(begins))
    );
    if (!wraps) assertEquals(begins.at(-1), side - patch);
  }
  assertEquals(beginnings(13, 4, false, 0.25), [0, 3, 6, 9]);
  assertEquals(beginnings(12, 4, true, 0.25), [0, 3, 6, 9]);
});

Deno.test("what a model says point by point comes back as it is, from any patches and k times finer", () => {
  const values = Float32Array.from({ length: 2 * 3 * 13 * 16 }, (_, i) => Math.sin(i) * 100);
  const largest = (a: ArrayLike<number>, b: ArrayLike<number>) =>
    Array.from(a).reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);
  scope(() => {
    const maps = tensor(values, [2, 3, 13, 16]);
    let asked = 0;
    for (const wraps of [[false, false], [false, true], [true, true]] as const) {
      const same = blended(plan({ wraps }), maps, (x) => {
        asked++;
        assert(x.shape[0] <= 3 || x.shape[0] === 2);
        assertEquals(x.shape.slice(1), [3, 4, 6]);
        return x;
      });
      assertEquals(same.shape, maps.shape);
      assert(largest(toNumbers(same), values) < 2e-5);
      const finer = (x: Tensor) => pixelShuffle(cat([1, 1, 1, 1].map((at) => narrow(x, 1, at, 1)), 1), 2);
      const fine = blended(plan({ wraps, atOnce: 8 }), maps, finer);
      assertEquals(fine.shape, [2, 1, 26, 32]);
      assert(largest(toNumbers(fine), toNumbers(finer(maps))) < 2e-5);
    }
    assert(asked > 0);
    const whole = blended(plan({ height: 13, width: 16, wraps: [true, true] }), maps, (x) => x);
    assertEquals(whole, maps);
  });
});

Deno.test("answers that differ from patch to patch are blended without a jump, also where a map goes around", () => {
  scope(() => {
    const maps = tensor(new Float32Array(32 * 48), [1, 1, 32, 48]);
    for (const around of [false, true]) {
      let number = 0;
      const answer = plan({ height: 16, width: 16, wraps: [false, around], overlap: 0.5, atOnce: 1 });
      const mixed = toNumbers(blended(answer, maps, (x) => add(x, constant((number++ * 7) % 5, "f32"))));
      let jump = 0;
      for (let row = 0; row < 32; row++) {
        for (let column = 0; column < 48; column++) {
          const beside = column + 1 < 48
            ? mixed[row * 48 + column + 1]
            : around
            ? mixed[row * 48]
            : mixed[row * 48 + column];
          const below = mixed[Math.min(31, row + 1) * 48 + column];
          jump = Math.max(
            jump,
            Math.abs(beside - mixed[row * 48 + column]),
            Math.abs(below - mixed[row * 48 + column]),
          );
        }
      }
      assert(jump < 1, `${jump}`); // whole answers are up to 4 apart
    }
  });
});

Deno.test("a patch that is cut out of a map does not wrap around, and one as long as the map does", () => {
  const of = (patch: string, padding: "circular" | "longitude" | "zeros") =>
    paddingInPatches(padding, patchesOf({ patch, patch_overlap: 0.25 }, padding, 1), [32, 64]);
  assertEquals(of("16", "longitude"), "replicate");
  assertEquals(of("16x64", "longitude"), "longitude");
  assertEquals(of("16x64", "circular"), "longitude");
  assertEquals(of("32x64", "circular"), "circular");
  assertEquals(of("16", "zeros"), "zeros");
  const facts = { task: "regression", outputs: 1, input: { shape: [3, 32, 64], dtype: "f32" } } as const;
  assertEquals(ofPatches(facts, patchesOf({ patch: "8x16", patch_overlap: 0 }, "zeros", 1)).input.shape, [
    3,
    8,
    16,
  ]);
});

Deno.test("maps smaller than a patch, and answers that are no maps, are refused", () => {
  scope(() => {
    const maps = tensor(new Float32Array(13 * 16), [1, 1, 13, 16]);
    const refused = (patches: Patches, answer: (x: Tensor) => Tensor) =>
      assertThrows(() => blended(patches, maps, answer), Error).message;
    assertStringIncludes(refused(plan({ height: 20 }), (x) => x), "set --patch to 13x6 or less");
    assertStringIncludes(
      refused(plan(), (x) => narrow(x, 2, 0, 3)),
      "choose a model that answers each pixel",
    );
  });
});
