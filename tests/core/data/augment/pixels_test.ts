// The vector code of bytes beside plain loops: the same bits, whatever the sizes, steps and strips are.
import { assertEquals } from "@std/assert";
import { key, uniform } from "../../../../core/base/random.ts";
import { saturation } from "../../../../core/data/augment/colour.ts";
import { type Filter, filterOf } from "../../../../core/data/augment/filters.ts";
import { range, resampleBytes, sharpen } from "../../../../core/data/augment/pixels.ts";
import { cut, planesOf } from "../../../../core/data/augment/planes.ts";
import { Room, Sample } from "../../../../core/data/augment/sample.ts";
import { affine } from "../../../../core/data/augment/warp.ts";

const at = uniform(key(3, "pixels test"));
const bytes = (count: number) => Uint8Array.from({ length: count }, (_, i) => Math.floor(300 * at(i)));
const room = new Room();

/** One direction, with Pillow's rounding: half of 2^-22 is added, and the fraction is cut off. */
function summed(
  from: (i: number, line: number) => number,
  { from: firsts, taps, weights, most }: Filter,
  lines: number,
) {
  return (i: number, line: number): number => {
    if (line >= lines) throw new Error(`line ${line} of ${lines}`);
    let sum = 1 << 21;
    for (let k = 0; k < taps[i]; k++) sum += Math.imul(from(firsts[i] + k, line), weights[i * most + k]);
    return Math.min(255, Math.max(0, sum >> 22));
  };
}

Deno.test("bytes are resampled as a plain loop does it, in strips and bands, with few and many taps", () => {
  const sizes = [
    [5, 7, 9, 3],
    [1, 1, 4, 17],
    [67, 130, 31, 65],
    [700, 900, 24, 30], // more than a strip in either order
    [33, 20, 70, 90],
  ];
  for (const [height, width, rows, columns] of sizes) {
    const planes = planesOf({ data: bytes(2 * height * width), shape: [2, height, width] });
    const view = cut({ ...planes, starts: [planes.starts[1] + width - 1], column: -1 }, 0, 0, height, width);
    const pixel = (y: number, x: number) => planes.data[view.starts[0] + y * width - x] as number;
    for (const kernel of ["bilinear", "bicubic"] as const) {
      const down = filterOf(height, rows, 0, rows, true, kernel);
      const across = filterOf(width, columns, 0, columns, true, kernel);
      for (const rowsFirst of [false, true]) {
        const into = new Uint8Array(rows * columns);
        resampleBytes(view, { down, across, rowsFirst }, into);
        const middle = new Uint8Array(rowsFirst ? rows * width : height * columns);
        const first = rowsFirst ? summed(pixel, down, width) : summed((x, y) => pixel(y, x), across, height);
        middle.forEach((_, i) => {
          middle[i] = rowsFirst
            ? first(Math.floor(i / width), i % width)
            : first(i % columns, Math.floor(i / columns));
        });
        const last = rowsFirst
          ? summed((x, y) => middle[y * width + x], across, rows)
          : summed((y, x) => middle[y * columns + x], down, columns);
        const plain = into.map((_, i) => {
          const y = Math.floor(i / columns), x = i % columns;
          return rowsFirst ? last(x, y) : last(y, x);
        });
        assertEquals(into, plain, `${[height, width, rows, columns, kernel, rowsFirst]}`);
      }
    }
  }
});

Deno.test("bytes are moved as other whole numbers are, and what comes from outside is the fill of each channel", () => {
  for (const [height, width] of [[1, 1], [3, 2], [29, 31], [40, 64]]) {
    const data = bytes(3 * height * width);
    for (const [angle, shear, shift] of [[13, 0, 0], [0, 25, 0], [-170, -9, 3], [0, 0, -5]]) {
      const moved = [data, Int32Array.from(data)].map((data) => {
        const sample = new Sample(room, { data, shape: [3, height, width] }, "picture", null);
        sample.mirror();
        affine(
          sample,
          { angle, translate: [shift, 1], scale: 1.1, shear: [shear, 0], centre: null },
          { interpolation: "nearest", fill: [7, 8, 9] },
        );
        return Array.from(sample.own(), Number);
      });
      assertEquals(moved[0], moved[1], `${[height, width, angle]}`);
    }
  }
});

Deno.test("colours, sharpness and the range of bytes are those of plain loops at every length", () => {
  const { fround } = Math, [red, green, blue] = [0.2989, 0.587, 0.114].map(fround);
  for (const [height, width] of [[1, 1], [3, 3], [4, 9], [5, 12], [7, 23]]) {
    const data = bytes(3 * height * width), plane = height * width;
    const sample = new Sample(room, { data, shape: [3, height, width] }, "picture", null);
    saturation(sample, 1.7);
    const grey = (i: number) =>
      Math.trunc(fround(
        fround(data[i] * red + data[i + plane] * green) + data[i + 2 * plane] * blue,
      ));
    const plain = Array.from(
      data,
      (x, i) =>
        Math.trunc(Math.min(255, Math.max(0, fround(x * fround(1.7) + grey(i % plane) * fround(1 - 1.7))))),
    );
    assertEquals(Array.from(sample.own(), Number), plain, `${[height, width]}`);

    const sharp = data.slice();
    sharpen(sharp, [3, height, width], -0.9);
    const beside = (i: number) => {
      const y = Math.floor(i / width) % height, x = i % width;
      if (y === 0 || x === 0 || y === height - 1 || x === width - 1) return data[i];
      let sum = 4 * data[i];
      for (const dy of [-width, 0, width]) for (const dx of [-1, 0, 1]) sum += data[i + dy + dx];
      const soft = Math.floor((2 * sum + 13) / 26);
      return Math.trunc(Math.min(255, Math.max(0, data[i] + (soft - data[i]) * -0.9)));
    };
    assertEquals(Array.from(sharp), Array.from(data, (_, i) => beside(i)), `${[height, width]}`);
    assertEquals(range(data), [Math.min(...data), Math.max(...data)]);
  }
});
