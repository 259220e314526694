import { assert, assertEquals } from "@std/assert";
import { inflateSync } from "node:zlib";
import { Canvas, glyphOf, slide, textWidth } from "../../../../core/outputs/report/slide.ts";
import { dataOf } from "./reports.ts";

/** The pixels of a PNG as our encoder writes them. */
function pixelsOf(png: Uint8Array<ArrayBuffer>): { width: number; height: number; rgb: Uint8Array } {
  const view = new DataView(png.buffer), [width, height] = [view.getUint32(16), view.getUint32(20)];
  const rows = inflateSync(png.subarray(41, 41 + view.getUint32(33)));
  const rgb = new Uint8Array(3 * width * height);
  for (let y = 0; y < height; y++) {
    const from = y * (3 * width + 1) + 1;
    rgb.set(rows.subarray(from, from + 3 * width), y * 3 * width);
  }
  return { width, height, rgb };
}

function count(rgb: Uint8Array, [red, green, blue]: readonly number[]): number {
  let found = 0;
  for (let i = 0; i < rgb.length; i += 3) {
    if (rgb[i] === red && rgb[i + 1] === green && rgb[i + 2] === blue) found++;
  }
  return found;
}

Deno.test("a slide has four charts with their lines, of one run or of several", () => {
  const runs = [dataOf({ name: "first" }), dataOf({ name: "second", seed: 2, learningRate: 2e-3 })];
  for (const chosen of [runs.slice(0, 1), runs]) {
    const { width, height, rgb } = pixelsOf(slide(chosen));
    assertEquals([width, height], [1600, 900]);
    for (const quarter of [[0, 130], [800, 130], [0, 520], [800, 520]]) {
      const part = new Canvas(800, 380, [255, 255, 255]);
      for (let y = 0; y < 380; y++) {
        const from = 3 * ((quarter[1] + y) * width + quarter[0]);
        part.rgb.set(rgb.subarray(from, from + 3 * 800), 3 * 800 * y);
      }
      const lines = count(part.rgb, [0, 114, 178]) + count(part.rgb, [213, 94, 0]);
      assert(lines > 700, `${lines} pixels of lines at ${quarter}`);
    }
  }
});

Deno.test("runs without any curve, with wild values and wild names are drawn all the same", () => {
  const data = dataOf({ steps: 3 });
  data.name = "学習\u0000 名前 ".repeat(50);
  for (const value of [1e300, -1e300, 0, NaN]) {
    data.curves.get("loss")!.add(10 + data.curves.get("loss")!.lastStep, value);
  }
  assert(slide([data]).length > 1000);
  data.curves.clear();
  data.systemCurves.clear();
  assert(slide([data]).length > 1000);
});

Deno.test("a line is as wide as it is asked to be, smooth at its edges, and no darker where it crosses itself", () => {
  const canvas = new Canvas(20, 20, [255, 255, 255]);
  canvas.line([[2, 10], [18, 10], [2, 10]], 4, [0, 0, 0]);
  const column = Array.from({ length: 20 }, (_, y) => canvas.rgb[3 * (y * 20 + 10)]);
  assertEquals(column.slice(7, 13), [255, 0, 0, 0, 0, 255]);
  const soft = new Canvas(20, 20, [255, 255, 255]);
  soft.line([[2, 10.5], [18, 10.5]], 2, [0, 0, 0]);
  assertEquals(soft.rgb[3 * (9 * 20 + 10)], 128);
});

Deno.test("every printable letter has its own shape, and digits are all as wide", () => {
  const shapes = new Set<string>();
  for (let code = 33; code < 127; code++) {
    const { strokes, advance } = glyphOf(String.fromCharCode(code));
    assert(advance > 0 && strokes.length > 0);
    shapes.add(JSON.stringify(strokes));
  }
  assertEquals(shapes.size, 94);
  assert(!shapes.has(JSON.stringify(glyphOf("学").strokes)));
  assertEquals(new Set([..."0123456789"].map((digit) => glyphOf(digit).advance)).size, 1);
  assertEquals(textWidth("11", 20), 2 * textWidth("1", 20));
});
