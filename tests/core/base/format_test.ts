import { assertEquals } from "@std/assert";
import * as format from "../../../core/base/format.ts";

function table<T>(show: (value: T) => string, rows: [T, string][]): void {
  for (const [value, text] of rows) assertEquals(show(value), text, `for ${value}`);
}

Deno.test("bytes are shown in powers of 1024 and never as 1024.0 of the smaller unit", () =>
  table(format.formatBytes, [
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1.0 KiB"],
    [1536, "1.5 KiB"],
    [1024 * 1024 - 1, "1.0 MiB"],
    [2.1 * 2 ** 30, "2.1 GiB"],
    [3 * 2 ** 60, "3072.0 PiB"],
    [-2048, "-2.0 KiB"],
    [NaN, "nan"],
  ]));

Deno.test("counts stay whole up to 9999 and then take a letter", () =>
  table(format.formatCount, [
    [0, "0"],
    [9999, "9999"],
    [10_000, "10.0K"],
    [999_999, "1.0M"],
    [124_439_808, "124.4M"],
    [1.5e9, "1.5B"],
    [7e15, "7000.0T"],
  ]));

Deno.test("rates keep about three figures", () =>
  table(format.formatRate, [
    [0.349, "0.35"],
    [9.994, "9.99"],
    [9.996, "10.0"],
    [12.34, "12.3"],
    [99.96, "100"],
    [1234.4, "1234"],
    [Infinity, "inf"],
  ]));

Deno.test("durations show two units at most and carry over when they round up", () =>
  table(format.formatDuration, [
    [0, "0 s"],
    [0.354, "0.35 s"],
    [9.996, "10 s"],
    [12.4, "12 s"],
    [59.6, "1m 00s"],
    [187, "3m 07s"],
    [3599.7, "1h 00m"],
    [3840, "1h 04m"],
    [86_399, "23h 59m"],
    [51 * 3600, "2d 03h"],
    [-1, "?"],
    [NaN, "?"],
  ]));

Deno.test("milliseconds keep three figures below a second, and all of them above", () =>
  table(format.formatMilliseconds, [
    [0.08123, "0.0812 ms"],
    [12.34, "12.3 ms"],
    [999.4, "999 ms"],
    [999.6, "1000 ms"],
    [1049.6, "1050 ms"],
  ]));

Deno.test("learning rates have one decimal and an exponent", () =>
  table(format.formatLearningRate, [[3e-4, "3.0e-4"], [0.001, "1.0e-3"], [0, "0"], [1, "1.0e+0"], [
    NaN,
    "nan",
  ]]));

Deno.test("values have four decimals, and an exponent where four decimals would hide them", () =>
  table(format.formatValue, [
    [0.69234, "0.6923"],
    [0, "0.0000"],
    [-0.5, "-0.5000"],
    [0.00012345, "1.234e-4"],
    [1234567, "1.235e+6"],
    [NaN, "nan"],
    [-Infinity, "-inf"],
  ]));

Deno.test("formatPlural adds an s to any count but 1", () => {
  assertEquals(format.formatPlural(1, "epoch"), "1 epoch");
  assertEquals(format.formatPlural(0, "epoch"), "0 epochs");
});

Deno.test("whole numbers are written as toLocaleString writes them", () =>
  table(
    format.formatWhole,
    [0, 7, 999, 1000, 19_329, 100_000, 1_234_567, -12_345, -999].map((count) => [
      count,
      count.toLocaleString("en-US"),
    ]),
  ));
