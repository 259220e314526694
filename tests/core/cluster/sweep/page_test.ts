// The page of a sweep: what it says, what a browser makes of it, and what a setting is said to explain.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { explained, type Sample } from "../../../../core/cluster/sweep/importance.ts";
import { sweepPage } from "../../../../core/cluster/sweep/page.ts";
import { axesOf, placeOf } from "../../../../core/cluster/sweep/page_axes.ts";
import type { Sweep, SweepRow } from "../../../../core/cluster/sweep/runs.ts";
import { parseSearchFile } from "../../../../core/cluster/sweep/space.ts";
import { uniform } from "../../../../core/base/random.ts";
import { CHROMIUM, inBrowser, needsChromium } from "../../../integration/browser.ts";
import { optuna } from "./optuna_peer.ts";

const noise = uniform(5n);
const { space } = parseSearchFile(
  "space: {lr: {log: [1e-5, 1e-1]}, layers: {int: [1, 6]}, optimizer: {choice: [adamw, sgd]}}",
  "f",
);
const SWEEP: Sweep = {
  ...{ format: 1, version: "0", name: "s", command: [], saveDir: ".", metric: "val_loss", runs: [] },
  goal: "minimize",
  search: { kind: "tpe", space, maxRuns: 40, seed: 0, rungs: null },
};

const ROWS = Array.from({ length: 30 }, (_, i): SweepRow => {
  const exponent = -5 + 4 * noise(i), state = i === 7 ? "failed" : i % 9 === 4 ? "pruned" : "done";
  return {
    run: `s-${String(i).padStart(3, "0")}`,
    values: {
      lr: (10 ** exponent).toExponential(3),
      layers: String(1 + i % 6),
      optimizer: i % 2 ? "sgd" : "adamw",
    },
    state,
    step: 100 * i,
    steps: null,
    metric: state === "failed" ? null : 0.2 + (exponent + 3) ** 2 + noise(100 + i) / 10,
    epoch: 3,
    folder: "",
    why: state === "failed" ? "The loss is NaN at step 3 <in layer 1>" : "",
  };
});

const pageOf = (sweep: Sweep, rows: readonly SweepRow[]) =>
  sweepPage({
    sweep,
    goal: sweep.goal ?? "minimize",
    rows,
    wordsOf: (run) => ["--model=mlp", `--set=it's=${run} \$(x)`],
    weights: "checkpoints/best.pt",
    seconds: 90,
    now: 0,
  });

Deno.test("the page names the best run, how to train it again, and every run once", async () => {
  const html = await pageOf(SWEEP, ROWS);
  const best = ROWS.toSorted((a, b) => (a.metric ?? 9) - (b.metric ?? 9))[0];
  assertStringIncludes(html, "30 of 40 runs, chosen by TPE");
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
  assertMatch(await pageOf(grid, ROWS.slice(0, 9)), /It takes 12 whole runs to say anything; there are 7\./);
});

Deno.test("an axis goes by the space where there is one, and else by the values", () => {
  const [lr, layers, optimizer, metric] = axesOf(SWEEP, ROWS);
  assertEquals([lr.log, lr.low, lr.high, layers.whole, optimizer.kind, metric.metric], [
    true,
    1e-5,
    0.1,
    true,
    "choice",
    true,
  ]);
  assertEquals(lr.ticks.map(({ label }) => label), ["1e-5", "1e-4", "0.001", "0.01", "0.1"]);
  assertEquals([placeOf(lr, "1e-3"), placeOf(lr, null), placeOf(optimizer, "sgd"), placeOf(optimizer, "?")], [
    0.5,
    null,
    0.75,
    null,
  ]);
  const listed = axesOf(
    { ...SWEEP, search: undefined },
    ROWS.map((row) => ({ ...row, values: { lr: row.metric! > 0.5 ? "1e-2" : "1e-3" } })),
  );
  assertEquals(listed[0].choices, ["1e-3", "1e-2"]);
});

Deno.test("what a setting explains is numpy's adjusted R² over ranks, and noise explains next to nothing", async () => {
  const n = 40, at = (i: number, k: number) => noise(1000 * k + i);
  const curved = Array.from(
    { length: n },
    (_, i): Sample => ({ x: at(i, 1), y: (at(i, 1) - 0.4) ** 2 + at(i, 2) / 20 }),
  );
  const tied = curved.map(({ x, y }, i): Sample => ({ x: Math.round(8 * x), y: i % 5 === 0 ? 0.5 : y }));
  const chosen = curved.map(({ y }, i): Sample => ({ x: i % 3, y: y + (i % 3) / 4 }));
  const random = curved.map(({ y }, i): Sample => ({ x: at(i, 3), y }));
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

Deno.test({
  name: `ranges are chosen by keys and by dragging, on a phone and in the dark too${needsChromium}`,
  ignore: !CHROMIUM,
  fn: async () => {
    const folder = Deno.makeTempDirSync(), path = join(folder, "s.html");
    Deno.writeTextFileSync(path, await pageOf(SWEEP, ROWS));
    const shown =
      `[...document.querySelectorAll("#table tr[data-run]")].filter((row) => row.offsetParent).length`;
    const press = (handle: string, key: string, times: number) =>
      `for (let i = 0; i < ${times}; i++) document.querySelector('[data-handle="${handle}"]').dispatchEvent(new KeyboardEvent("keydown", { key: "${key}", bubbles: true, cancelable: true }))`;
    try {
      await inBrowser(async (open) => {
        for (const [width, dark] of [[1400, true], [390, false]] as const) {
          await open(`file://${path}`, { width, height: 900, mobile: width < 500, dark }, async (page) => {
            assertEquals(await page.evaluate(shown), 30);
            assertEquals(await page.evaluate(`document.querySelectorAll("#parallel polyline").length`), 30);
            await page.evaluate(press("0-0", "ArrowUp", 25)); // from the middle: 1e-3
            const above = ROWS.filter(({ values }) => Number(values.lr) >= 0.000999).length;
            assertEquals(await page.evaluate(shown), above);
            assertEquals(
              await page.evaluate(
                `document.querySelector('[data-handle="0-0"]').getAttribute("aria-valuetext")`,
              ),
              "0.001",
            );
            await page.evaluate(press("2-1", "ArrowDown", 1));
            const both = ROWS.filter(({ values }) =>
              Number(values.lr) >= 0.000999 && values.optimizer === "adamw"
            ).length;
            assertEquals(await page.evaluate(shown), both);
            assertMatch(
              await page.evaluate(`document.getElementById("count").textContent`),
              new RegExp(`^${both} of 30 runs`),
            );
            await page.evaluate(press("2-1", "Escape", 1));
            assertEquals(await page.evaluate(shown), 30);
            const rail = await page.evaluate<number[]>(
              `(() => { document.getElementById("parallel").scrollIntoView(); const { x, y, width, height } = document.querySelectorAll("#parallel .rail")[2].getBoundingClientRect(); return [x, y, width, height]; })()`,
            );
            const [x, y, across, down] = rail, tall = width < 640;
            const from: [number, number] = tall
              ? [x + across * 0.55, y + down / 2]
              : [x + across / 2, y + down * 0.45];
            const to: [number, number] = tall
              ? [x + across * 0.9, y + down / 2]
              : [x + across / 2, y + down * 0.1];
            await page.drag(from, to);
            assertEquals(await page.evaluate(shown), 15); // sgd
            assert(await page.evaluate<number>(`document.documentElement.scrollWidth`) <= width);
            assertEquals([page.errors, page.requests], [[], []]);
          });
        }
      });
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  },
});
