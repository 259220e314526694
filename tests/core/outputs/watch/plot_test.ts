import { assert, assertEquals } from "@std/assert";
import { Curve } from "../../../../core/run/curve.ts";
import { columnsOfCurve, type Plot, plot, plotScale } from "../../../../core/outputs/watch/plot.ts";
import { terminalWidthOf } from "../../../../core/base/terminal_text.ts";
import { ASCII, COLOURED, PLAIN } from "./views.ts";

function curveOf(values: readonly number[]): Curve {
  const curve = new Curve();
  values.forEach((value, i) => curve.add(i + 1, value));
  return curve;
}

const plotOf = (values: readonly number[], more: Partial<Plot> = {}): Plot => ({
  title: "Loss",
  lines: [{ name: "train", curve: curveOf(values), colour: "cyan" }],
  format: (value) => value.toFixed(1),
  ...more,
});

Deno.test("a falling line falls, dot by dot", () => {
  const lines = plot(plotOf([8, 7, 6, 5, 4, 3, 2, 1]), 28, 6, PLAIN).map((line) => line.trimEnd());
  assertEquals(lines, [
    "Loss  train 1.0",
    "      8.0│ ⠉⠒⠤⣀",
    "      5.7│     ⠉⠑⠢⢄⡀",
    "         │         ⠈⠑⠢⢄⡀",
    "      1.0│             ⠈⠑⠒⠤⣀",
    "           1          step 8",
  ]);
});

Deno.test("every line has the width that was asked for, whatever the values", () => {
  const many = Array.from({ length: 9000 }, (_, i) => Math.sin(i / 300) * 10 ** (i % 7));
  for (
    const values of [[], [1], [2, 2, 2], [NaN, NaN], [NaN, 1, NaN], [0, 0], [1e300, -1e300], [1e-300], [
      Infinity,
      3,
    ], many]
  ) {
    for (const [width, height] of [[80, 10], [20, 5], [19, 4], [3, 3], [200, 40]]) {
      for (const style of [PLAIN, ASCII, COLOURED]) {
        const lines = plot(plotOf(values, { logFrom: 10 }), width, height, style);
        assertEquals(lines.length, height);
        for (const line of lines) assertEquals(terminalWidthOf(line), width, JSON.stringify(line));
      }
    }
  }
});

Deno.test("columns are means of what falls into them, and empty where nothing does", () => {
  assertEquals([...columnsOfCurve(curveOf([1, 3, 5, 7]), 1, 4, 2)], [2, 6]);
  assertEquals([...columnsOfCurve(curveOf([4, NaN, 6]), 1, 3, 3)], [4, NaN, 6]);
});

Deno.test("a wide range is drawn to a logarithmic scale, a constant in the middle, a rate against nothing", () => {
  const of = (...values: number[]) => [Float64Array.from(values)];
  assertEquals([plotScale(of(1, 100), 20).log, plotScale(of(1, 10), 20).log, plotScale(of(0, 100), 20).log], [
    true,
    false,
    false,
  ]);
  assertEquals(plotScale(of(1, 100), 20).shareOf(10), 0.5);
  assertEquals(plotScale(of(5, 5)).shareOf(5), 0.5);
  assertEquals(plotScale(of(0, 0)).shareOf(0), 0.5);
  assertEquals([plotScale(of(90, 100), Infinity, true).valueAt(0), plotScale(of(90, 100)).valueAt(0)], [
    0,
    90,
  ]);
});

Deno.test("two lines have two colours, and without Unicode there is none", () => {
  const two = plotOf([3, 2, 1], {
    lines: [
      { name: "train", curve: curveOf([9, 8, 7]), colour: "cyan" },
      { name: "val", curve: curveOf([1, 2, 3]), colour: "yellow" },
    ],
  });
  const coloured = plot(two, 60, 10, COLOURED).join("\n");
  assert(coloured.includes("\x1b[36m") && coloured.includes("\x1b[33m"));
  const ascii = plot(two, 60, 10, ASCII).join("\n");
  assert(/^[\x20-\x7e\n]*$/.test(ascii), ascii);
  assert(/[:'.]{2}/.test(ascii), ascii);
});
