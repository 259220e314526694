// The page of a sweep: what it says, and what a setting is said to explain.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { axisPlace, explained, type Observation, pageAxesOf } from "../../../../core/cluster/sweep/page.ts";
import { noise, pageOf, ROWS, SWEEP } from "./made_sweep.ts";
import { optuna } from "./optuna_peer.ts";
import { assertSentence } from "../../../sentences.ts";

Deno.test("the page names the best run, how to train it again, and every run once", async () => {
  const html = await pageOf(SWEEP, ROWS);
  const best = ROWS.toSorted((a, b) => (a.metric ?? 9) - (b.metric ?? 9))[0];
  assertStringIncludes(html, "30 of 40 runs, drawn at random");
  assertMatch(
    html,
    new RegExp(`best val_loss</dt><dd>${best.metric!.toPrecision(4).slice(0, 6)}[^<]*<small>${best.run}<`),
  );
  assertStringIncludes(html, `--run-name=${best.run}-again`);
  assertEquals([...html.matchAll(/<tr data-run=/g)].length, 30);
  assertStringIncludes(html, "NaN at step 3 &lt;in layer 1&gt;");
  assert(!html.includes("style="), "the content policy forbids it");
  for (const rows of [[], ROWS.slice(7, 8), ROWS.slice(0, 1)]) {
    assertMatch(await pageOf(SWEEP, rows), /<\/html>/);
  }
  const { search: _, ...grid } = SWEEP;
  assertSentence("core/cluster/sweep/page: takes whole runs", await pageOf(grid, ROWS.slice(0, 9)));
});

Deno.test("an axis goes by the space where there is one, and else by the values", () => {
  const [lr, layers, optimizer, metric] = pageAxesOf(SWEEP, ROWS);
  assertEquals([lr.log, lr.low, lr.high, layers.whole, optimizer.kind, metric.metric], [
    true,
    1e-5,
    0.1,
    true,
    "choice",
    true,
  ]);
  assertEquals(lr.ticks.map(({ label }) => label), ["1e-5", "1e-4", "0.001", "0.01", "0.1"]);
  assertEquals([
    axisPlace(lr, "1e-3"),
    axisPlace(lr, null),
    axisPlace(optimizer, "sgd"),
    axisPlace(optimizer, "?"),
  ], [
    0.5,
    null,
    0.75,
    null,
  ]);
  const listed = pageAxesOf(
    { ...SWEEP, search: undefined },
    ROWS.map((row) => ({ ...row, values: { lr: row.metric! > 0.5 ? "1e-2" : "1e-3" } })),
  );
  assertEquals(listed[0].choices, ["1e-3", "1e-2"]);
});

Deno.test("what a setting explains is numpy's adjusted R² over ranks, and noise explains next to nothing", async () => {
  const n = 40, at = (i: number, k: number) => noise(1000 * k + i);
  const curved = Array.from(
    { length: n },
    (_, i): Observation => ({ x: at(i, 1), y: (at(i, 1) - 0.4) ** 2 + at(i, 2) / 20 }),
  );
  const tied = curved.map(({ x, y }, i): Observation => ({ x: Math.round(8 * x), y: i % 5 === 0 ? 0.5 : y }));
  const chosen = curved.map(({ y }, i): Observation => ({ x: i % 3, y: y + (i % 3) / 4 }));
  const random = curved.map(({ y }, i): Observation => ({ x: at(i, 3), y }));
  const theirs = await optuna<number[]>(
    `
import numpy as np
def ranks(v):
    v = np.asarray(v, float)
    return np.array([(v < one).sum() + ((v == one).sum() + 1) / 2 for one in v])
def share(samples, choice):
    x, y = np.array([s["x"] for s in samples]), ranks([s["y"] for s in samples])
    design = np.stack([x == c for c in sorted(set(x))], 1).astype(float) if choice else np.vander(ranks(x), 3)
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return max(0.0, 1 - (left @ left / (len(y) - design.shape[1])) / y.var(ddof=1))
print(json.dumps([share(*one) for one in asked]))`,
    [[curved, false], [tied, false], [chosen, true], [random, false]],
  );
  const ours = [
    explained(curved, "number"),
    explained(tied, "number"),
    explained(chosen, "choice"),
    explained(random, "number"),
  ];
  theirs.forEach((share, i) => assertAlmostEquals(ours[i]!, share, 1e-9));
  assert(ours[0]! > 0.7 && ours[3]! < 0.2, `${ours}`);
  assertEquals(explained(curved.slice(0, 11), "number"), null);
  assertEquals(explained(curved.map(({ y }) => ({ x: 1, y })), "number"), null);
});
