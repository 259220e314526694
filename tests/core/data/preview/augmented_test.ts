// Samples as training with a list might see them, drawn by `inspect`.
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { augmentedPictures } from "../../../../core/data/preview/augmented.ts";
import { type Raster, rowMajorStrides } from "../../../../core/data/preview/picture.ts";
import type { Pictures } from "../../../../core/data/preview/preview.ts";
import { assertRefusal } from "../../../sentences.ts";

const SHAPE = [3, 20, 30];

const pictures = (count: number, isImage = true): Pictures => ({
  field: "x",
  count,
  caption: (sample) => `number ${sample}`,
  raster(sample): Raster {
    const numbers = Array.from({ length: 1800 }, (_, i) => (sample * 50 + i) % 200);
    const values = isImage ? Uint8Array.from(numbers) : Float32Array.from(numbers);
    return { values, shape: SHAPE, strides: rowMajorStrides(SHAPE), isImage };
  },
});

const valuesOf = ({ values }: Raster) => [...values as Uint8Array];

Deno.test("sixteen samples are drawn, or one sixteen times, always the same", () => {
  const seen = augmentedPictures(pictures(5), "random_resized_crop(12), rand_augment", null);
  assertEquals([seen.count, seen.caption!(7), seen.raster(3).shape], [16, "number 2", [3, 12, 12]]);
  assertEquals(valuesOf(seen.raster(3)), valuesOf(seen.raster(3)));
  assertNotEquals(valuesOf(seen.raster(2)), valuesOf(seen.raster(7)));
  const one = augmentedPictures(pictures(5), "random_crop(12)", 4);
  assertEquals(new Set(Array.from({ length: 16 }, (_, i) => one.caption!(i))), new Set(["number 4"]));
  assert(new Set(Array.from({ length: 16 }, (_, i) => String(valuesOf(one.raster(i))))).size > 10);
});

Deno.test("a turned map has missing corners, and colours of maps are refused", () => {
  const turned = augmentedPictures(pictures(2, false), "rotation((45, 45))", null).raster(0);
  assert(valuesOf(turned).some(Number.isNaN));
  const cases = { colours: "invert", "too large a crop": "random_crop(40)", nothing: "" };
  for (const [name, text] of Object.entries(cases)) {
    const error = assertThrows(() => augmentedPictures(pictures(2, false), text, null).raster(0));
    assertRefusal("usage", `core/data/preview/augmented: ${name}`, error);
  }
});
