// Words -> axes -> points -> names: which runs a sweep has, and what they are called.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { drawnPoints, grid, readAxes, runNames } from "../../../../core/cluster/sweep/axes.ts";
import { ranked, type SweepRow, whyUnranked } from "../../../../core/cluster/sweep/runs.ts";
import { UserError } from "../../../../core/base/errors.ts";

const read = (...words: string[]) => readAxes(words, "hpctrain sweep");
const refusal = (...words: string[]) => assertThrows(() => grid(read(...words).axes), UserError).message;

Deno.test("flags with one value are every run's, those with several make all combinations, the last fastest", () => {
  const { fixed, axes } = read(
    "--epochs",
    "3",
    "--lr",
    "1e-3,1e-2",
    "--tf32",
    "--set",
    "model.hidden_size=8,16",
  );
  assertEquals(fixed, ["--epochs=3", "--tf32"]);
  assertEquals(grid(axes), [["1e-3", "8"], ["1e-3", "16"], ["1e-2", "8"], ["1e-2", "16"]]);
  assertEquals(runNames("s", axes, grid(axes)), [
    "s-lr1e-3-hidden8",
    "s-lr1e-3-hidden16",
    "s-lr1e-2-hidden8",
    "s-lr1e-2-hidden16",
  ]);
});

Deno.test("a run whose metric is not finite is never a sweep's best", () => {
  const rows = [Infinity, 0.5, NaN, -Infinity, 0.7].map((metric, i) =>
    ({ run: `r${i}`, metric }) as SweepRow
  );
  assertEquals(ranked(rows, "val_r2").map(({ run }) => run), ["r4", "r1"]);
  assertEquals(ranked(rows, "val_loss").map(({ run }) => run), ["r1", "r4"]);
});

Deno.test("runs of a sweep that were validated on different data are not ranked, whyUnranked, and it is said", () => {
  const rows = [0.5, 0.3].map((metric, i) =>
    ({ run: `r${i}`, metric, validation: { data: "a.npz", samples: 9 + i, id: `${i}` } }) as SweepRow
  );
  assertEquals(ranked(rows, "val_loss"), []);
  assertMatch(whyUnranked(rows)!, /different data: a\.npz \(9 samples\), a\.npz \(10 samples\)\.$/);
  assertEquals(whyUnranked([rows[0], { ...rows[1], metric: null }]), null);
});

Deno.test("a comma that belongs to the value is written with a backslash, and lists are parted by semicolons", () => {
  const { axes } = read("--data-path=a\\,b.nc,c.nc", "--features", "u,v;u");
  assertEquals(axes.map(({ choices }) => choices), [["a,b.nc", "c.nc"], ["u,v", "u"]]);
  assertEquals(read("--features=u,v").axes, []);
});

Deno.test("commas within brackets belong to the value", () => {
  const one = "multistep(milestones=[30ep, 60ep], gamma=0.5)", other = "onecycle(max_lr=0.1, pct_start=0.2)";
  assertEquals(read(`--scheduler=${one}`).axes, []);
  const { axes } = read(`--scheduler=cosine,${one},${other},linear`);
  assertEquals(axes.map(({ choices }) => choices), [["cosine", one, other, "linear"]]);
});

Deno.test("runs whose values look alike in a name are told apart by their number", () => {
  const { axes } = read("--data-path=x/a.nc,y/a.nc");
  assertEquals(runNames("s", axes, grid(axes)), ["s-data_patha.nc-run0", "s-data_patha.nc-run1"]);
});

Deno.test("names of hostile values are names of files", () => {
  const { axes } = read("--data-path=$(rm -rf x),`y`, ,../../etc/passwd,-rf,ä'\"\\\\;|&");
  for (const name of runNames("s", axes, grid(axes))) assertMatch(name, /^[\w][\w.+-]{0,127}$/);
});

Deno.test("random runs are a function of the seed, lie within their ranges, and more begin with those of fewer", () => {
  const { axes } = read("--lr=1e-5..1e-1", "--layers=1..4", "--optimizer=adamw,sgd");
  const points = drawnPoints(axes, 200, 7);
  assertEquals(points.slice(0, 5), drawnPoints(axes, 5, 7));
  assert(JSON.stringify(points) !== JSON.stringify(drawnPoints(axes, 200, 8)));
  for (const [lr, layers, optimizer] of points) {
    assert(Number(lr) >= 1e-5 && Number(lr) <= 1e-1);
    assert(["1", "2", "3", "4"].includes(layers) && ["adamw", "sgd"].includes(optimizer));
  }
  const small = points.filter(([lr]) => Number(lr) < 1e-3).length; // by logarithm: half of them
  assert(small > 70 && small < 130, `${small}`);
  assertEquals(drawnPoints(read("--layers=1..2").axes, 10, 0).length, 2); // there are no more
});

Deno.test("what can't be swept is refused in a sentence", () => {
  assertMatch(refusal("--lr", "1e-3,fast"), /^--lr must be .*"fast"/);
  assertMatch(refusal("--run-name", "a,b"), /each run is named by its values/);
  assertMatch(refusal("--save-dir", "a,b"), /in one folder/);
  assertMatch(
    refusal("--lr", "1e-3,1e-2", "--set", "training.optimizer.learning_rate=1,2"),
    /two lists of values for learning_rate/,
  );
  assertMatch(refusal("--lr", "1e-5..1e-2"), /--random N/);
  assertMatch(refusal("--lr", "1e-2..1e-5"), /from a smaller to a larger/);
  assertMatch(refusal("--lrr", "1,2"), /Did you mean "--lr"/);
  assertMatch(refusal("lr=1"), /is no flag/);
  const many = Array.from({ length: 101 }, (_, i) => i + 1).join(",");
  assertMatch(refusal("--layers", many, "--hidden-size", many), /10201 runs/);
});
