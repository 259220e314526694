// Samples as pictures: pixels of images, colours of maps, what is shrunk, what is missing.
import { assert, assertEquals } from "@std/assert";
import {
  contactSheet,
  enlarged,
  paint,
  type Raster,
  rowMajorStrides,
} from "../../../../core/data/preview/picture.ts";

const LARGE = { width: 100, height: 100 };

function raster(values: ArrayLike<number>, shape: readonly number[], isImage = false): Raster {
  return { values, shape, strides: rowMajorStrides(shape), isImage };
}

const pixel = ({ rgb, width }: { rgb: Uint8Array; width: number }, x: number, y: number) => [
  ...rgb.subarray(3 * (y * width + x), 3 * (y * width + x) + 3),
];

Deno.test("an image keeps its pixels: grey, channels first, channels last", () => {
  const grey = paint(raster(Uint8Array.of(0, 10, 200, 255), [1, 2, 2], true), LARGE);
  assertEquals([pixel(grey, 1, 0), pixel(grey, 0, 1)], [[10, 10, 10], [200, 200, 200]]);
  const first = paint(raster(Uint8Array.of(1, 2, 3, 4, 5, 6), [3, 1, 2], true), LARGE);
  assertEquals([pixel(first, 0, 0), pixel(first, 1, 0)], [[1, 3, 5], [2, 4, 6]]);
  const last = { ...raster(Uint8Array.of(1, 3, 5, 2, 4, 6), [3, 1, 2], true), strides: [1, 6, 3] };
  assertEquals(paint(last, LARGE), first);
});

Deno.test("a map goes from viridis's darkest colour at its least value to the lightest at its largest", () => {
  const map = paint(raster(Float32Array.of(-5, 0, 5, NaN), [1, 2, 2]), LARGE);
  assertEquals(pixel(map, 0, 0), [0x44, 0x01, 0x54]);
  assertEquals(pixel(map, 1, 0), [0x21, 0x91, 0x8c]);
  assertEquals(pixel(map, 0, 1), [0xfd, 0xe7, 0x25]);
  const [red, green, blue] = pixel(map, 1, 1);
  assert(red === green && green === blue, "what is missing is grey");
});

Deno.test("a map of one value, and one of no value at all, are drawn too", () => {
  assertEquals(pixel(paint(raster(Float32Array.of(3, 3), [1, 1, 2]), LARGE), 1, 0), [0x21, 0x91, 0x8c]);
  assertEquals(pixel(paint(raster(Float32Array.of(NaN, Infinity), [1, 1, 2]), LARGE), 0, 0), [128, 128, 128]);
});

Deno.test("channels of maps stand beside each other, each in its own range; at most four", () => {
  const values = Float32Array.from({ length: 6 * 4 }, (_, i) => i % 4 + 100 * Math.floor(i / 4));
  const map = paint(raster(values, [6, 2, 2]), LARGE);
  assertEquals([map.width, map.height], [4 * 2 + 3, 2]);
  for (const left of [0, 3, 6, 9]) assertEquals(pixel(map, left, 0), [0x44, 0x01, 0x54]);
});

Deno.test("what is too large is shrunk to the mean of what each pixel covers, with its proportions", () => {
  const values = Uint8Array.from({ length: 40 * 20 }, (_, i) => i % 40 < 20 ? 100 : 200);
  const image = paint(raster(values, [1, 20, 40], true), { width: 8, height: 100 });
  assertEquals([image.width, image.height], [8, 4]);
  assertEquals([pixel(image, 0, 0), pixel(image, 3, 3), pixel(image, 4, 0)], [
    [100, 100, 100],
    [100, 100, 100],
    [200, 200, 200],
  ]);
  const halves = paint(raster(Uint8Array.of(0, 100, 50, 250), [1, 2, 2], true), { width: 1, height: 1 });
  assertEquals(pixel(halves, 0, 0), [100, 100, 100]);
  const holes = paint(raster(Uint8Array.of(7, 7), [1, 1, 2], true), { width: 1, height: 1 });
  assertEquals([holes.width, holes.height], [1, 1]);
});

Deno.test("a sheet has its pictures in rows, and enlarged pixels are squares", () => {
  const one = (grey: number) => ({ width: 1, height: 1, rgb: new Uint8Array(3).fill(grey) });
  const made = contactSheet([one(1), one(2), one(3)], 2, 1);
  assertEquals([made.width, made.height], [3, 3]);
  assertEquals([pixel(made, 0, 0)[0], pixel(made, 2, 0)[0], pixel(made, 0, 2)[0], pixel(made, 1, 1)[0]], [
    1,
    2,
    3,
    24,
  ]);
  const large = enlarged({ width: 2, height: 1, rgb: Uint8Array.of(1, 1, 1, 9, 9, 9) }, 3);
  assertEquals([large.width, large.height], [6, 3]);
  assertEquals([pixel(large, 2, 2)[0], pixel(large, 3, 0)[0]], [1, 9]);
});
