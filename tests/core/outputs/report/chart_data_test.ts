import { assert, assertEquals } from "@std/assert";
import { Curve } from "../../../../core/run/curve.ts";
import { chartsOfRun, chartsOfRuns } from "../../../../core/outputs/report/charts.ts";
import { chartData, thinned } from "../../../../core/outputs/report/chart_data.ts";
import type { RunData } from "../../../../core/run/run_data.ts";
import { dataOf } from "./reports.ts";

function curveOf(count: number, value: (step: number) => number): Curve {
  const curve = new Curve();
  for (let step = 1; step <= count; step++) curve.add(step, value(step));
  return curve;
}

Deno.test("thinned out, a curve keeps its least and greatest, its means and its last step", () => {
  const curve = curveOf(4000, (step) => step === 1234 ? 1e6 : step === 777 ? -50 : 10 + step % 10);
  const { x, y, lo, hi } = thinned(curve, 100);
  assertEquals([x.length, x.at(-1), x[0]], [100, 4000, 40]);
  assertEquals([Math.max(...hi as number[]), Math.min(...lo as number[])], [1e6, -50]);
  assertEquals([y[0], lo![0], hi![0]], [14.5, 10, 19]);
  for (let i = 0; i < x.length; i++) assert(lo![i]! <= y[i]! && y[i]! <= hi![i]!);
});

Deno.test("a smooth curve has no band, and a gap is where there was no number", () => {
  const smooth = thinned(curveOf(1000, (step) => 1000 + step / 1000), 100);
  assertEquals([smooth.lo, smooth.hi, smooth.wrong], [undefined, undefined, undefined]);
  const broken = thinned(curveOf(9, (step) => step > 3 && step < 7 ? NaN : step), 3);
  assertEquals([broken.y, broken.wrong, broken.wrongs], [[2, null, 8], [4, 5, 6], 3]);
});

const drawnOf = (data: RunData) => chartData([data], chartsOfRun(data, null));

Deno.test("a run's charts: loss and the first measure large, times stacked, machines apart, flat lines as numbers", () => {
  const data = dataOf({ ranks: 2, gpus: true });
  const { charts, xs } = drawnOf(data);
  const titles = (of: string) => charts.filter(({ place }) => place === of).map(({ title }) => title);
  assertEquals(titles("large"), ["Loss", "Accuracy"]);
  assertEquals(titles("training"), ["Learning rate", "Gradient norm", "Loss scale"]);
  assertEquals(titles("measures"), ["Perplexity"]);
  assertEquals(charts[0].lines.map(({ label }) => label), ["training, each step", "validation"]);
  assertEquals([charts[0].axis, charts[0].best], ["loss", [{
    run: 0,
    x: data.best!.step,
    y: data.best!.loss,
  }]]);
  const [time] = charts.filter(({ place }) => place === "time");
  assertEquals([time.title, time.stacked], ["Time of a step", true]);
  assertEquals(time.lines.map(({ label, hue }) => [label, hue]), [
    ["waiting for data", 0],
    ["bringing data to the device", 1],
    ["forward and backward", 2],
    ["waiting for other ranks", 3],
    ["optimizer", 4],
    ["evaluation", 6],
    ["rest", 7],
  ]);
  assertEquals(charts.find(({ title }) => title === "GPU busy")!.lines.map(({ label }) => label), [
    "rank 0",
    "rank 1",
  ]);
  assert(titles("machine").length >= 7, titles("machine").join());
  // Steps that several lines share stand there once.
  assertEquals(new Set(charts.flatMap(({ lines }) => lines.map(({ x }) => x))).size, xs.length);
  assert(xs.length <= 5, `${xs.length} lists of steps`);
  data.curves.set("lr", curveOf(100, () => 0.003));
  const constant = drawnOf(data);
  assert(!constant.charts.some(({ title }) => title === "Learning rate"));
  assertEquals(constant.unchanged, ["Learning rate 3.0e-3"]);
  // A run that explodes begins with logarithmic axes, the small ones of norms too.
  const wide = ({ charts }: typeof constant) =>
    charts.filter((chart) => chart.wide).map(({ title }) => title);
  assertEquals([wide(constant), constant.logarithmic], [[], false]);
  for (const name of ["loss", "grad_norm"]) data.curves.set(name, curveOf(10, (step) => 10 ** step));
  const exploded = drawnOf(data);
  assertEquals([wide(exploded), exploded.logarithmic], [["Loss", "Gradient norm"], true]);
});

Deno.test("fields that nobody knew get charts of their own", () => {
  const data = dataOf({ steps: 5 });
  data.curves.set("my_own_metric", curveOf(5, (step) => step));
  assert(drawnOf(data).charts.some(({ title }) => title === "my_own_metric"));
});

Deno.test("of several runs each is one line in each chart, and many points are shared among them", () => {
  const runs = [1, 2, 3, 4, 5, 6, 7, 8].map((seed) => dataOf({ name: `run${seed}`, seed, steps: 3000 }));
  const data = chartData(runs, chartsOfRuns(runs));
  assertEquals(data.charts.slice(0, 2).map(({ title }) => title), [
    "Validation loss",
    "Training loss of each step",
  ]);
  assertEquals(data.charts[0].lines.map(({ label, run, hue }) => [label, run, hue]).at(-1), ["run8", 7, 7]);
  const points = data.charts.flatMap(({ lines }) => lines.map(({ y }) => y.length)).reduce(
    (a, b) => a + b,
    0,
  );
  assert(points < 60_000, `${points} points`);
  // A run of another length has a relative axis, so that shapes can be compared.
  const unlike = [runs[0], dataOf({ name: "short", steps: 900 })];
  assertEquals([data.relative, chartData(unlike, chartsOfRuns(unlike)).relative], [false, true]);
});
