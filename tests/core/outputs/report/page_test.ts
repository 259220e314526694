// The page as text; what a browser makes of it is tested in tests/integration/report_test.ts.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { flat } from "../../../../core/run/flat_settings.ts";
import { reportPage } from "../../../../core/outputs/report/page.ts";
import {
  comparison,
  comparisonVerdict,
  settingDifferences,
} from "../../../../core/outputs/report/comparison.ts";
import {
  configurationSection,
  environmentSection,
  warningsSection,
} from "../../../../core/outputs/report/settings.ts";
import { summarySection, typical } from "../../../../core/outputs/report/summary.ts";
import { attemptsSection, rankTimes, timeOfRun } from "../../../../core/outputs/report/time.ts";
import { uplot } from "../../../../deps/uplot.ts";
import { Curve } from "../../../../core/run/curve.ts";
import { join } from "paths";
import { packMap } from "../../../../core/run/diagnostics.ts";
import { readRun } from "../../../../core/run/run_data.ts";
import { makeRun } from "../../run/made_run.ts";
import { dataOf, diagnosticsOf, textOf } from "./reports.ts";
import { assertSentence } from "../../../sentences.ts";

const done = { state: "done", why: "Finished" } as const;

Deno.test("a page names no other place, and holds no style outside of its sheet", async () => {
  const page = await reportPage(
    [dataOf({ ranks: 2, gpus: true, attempts: 2, warnings: ["w"] })],
    1_790_000_900,
  );
  const own = page.replace(/<script>[\s\S]*?<\/script>/g, "");
  assertEquals(own.match(/\b(src|href|action|style|on\w+)="[^"]*"/g), ['href="data:,"', 'href="#warnings"']);
  assertEquals(own.match(/https?:/g), null);
  assertEquals(page.match(/@import|url\(/g), null);
});

Deno.test("the library is embedded as it is published, with its licence's notice", () => {
  const { script, style } = uplot();
  assert(script.startsWith("/*! uPlot, Copyright (c) 2022 Leon Sorokin, MIT licence"));
  assertStringIncludes(script, "uPlot (v1.6.32)");
  assertStringIncludes(style, ".uplot");
  assert(!/<\/script/i.test(script), "it would end its own element");
});

Deno.test("the summary says whether it learned, how good it is, on what, and where the best model lies", () => {
  const text = textOf(summarySection(dataOf({ attempts: 3 }), done, null));
  assertMatch(
    text,
    /It learned\. The validation loss fell from \d\.\d+ to 0\.\d{3} by step 1000 \(epoch 10\)\. Accuracy is \d\d\.\d%\./,
  );
  assertMatch(text, /Validation accuracy \d\d\.\d% .*Best validation loss 0\.\d{3} step 1000, epoch 10/);
  assertStringIncludes(text, "checkpoints/made_best.pt");
  for (const said of ["% of the time", "3 attempts", "655.4K tokens/s", "of what the devices can do"]) {
    assertStringIncludes(text, said);
  }
});

Deno.test("a measure stands beside its baseline, and one that does not beat it has not learned", () => {
  const data = dataOf({}), confusion = [[8, 2], [1, 1]];
  const found = diagnosticsOf({ task: "classification", names: ["cat", "dog"], confusion });
  const said = (accuracy: number) => {
    data.bestMetrics = { accuracy };
    return textOf(summarySection(data, done, found));
  };
  assertSentence("core/outputs/report/page: learned accuracy against", said(0.9));
  assertSentence("core/outputs/report/page: does beat baseline", said(0.8));
  data.bestMetrics = { r2: -0.2 };
  assertSentence(
    "core/outputs/report/page: against always predicting",
    textOf(summarySection(data, done, null)),
  );
  // The harder one of two forecasts is the baseline, and errors are in the target's own units.
  data.bestMetrics = { rmse: 0.5, rmse_in_units: 2, r2: 0.9, skill_persistence: 0.5, skill_climatology: 0.2 };
  const ice = diagnosticsOf({ outputs: [{ target: "ice", lead: 1, units: "m" }] });
  assertMatch(
    textOf(summarySection(data, done, ice)),
    /RMSE is 2\.000 m, against 2\.500 m for climatology\./,
  );
});

Deno.test("a forecast at several leads says from which lead on it beats persistence, or that it does not", () => {
  const data = dataOf({});
  data.bestMetrics = { rmse: 2, skill_persistence: 0.3 };
  const said = (skills: readonly number[]) => {
    const names = skills.map((_, k) => `ice+${k + 1}`);
    const found = diagnosticsOf({
      names,
      outputs: skills.map((_, k) => ({ target: "ice", lead: k + 1, units: "" })),
      metrics: Object.fromEntries(skills.map((skill, k) => [`skill_persistence/${names[k]}`, skill])),
    });
    return textOf(summarySection(data, done, found));
  };
  const late = said([-0.1, 0.1, 0.5]);
  assertMatch(late, /It beats persistence from lead 2 on, and not before\. +The validation loss fell/);
  assert(!late.includes("It learned"), late);
  assertMatch(said([0.1, 0.2]), /It learned\. .* It beats persistence at every lead\./);
  assertMatch(said([-0.1, 0]), /It does not beat persistence at any lead\. +The validation loss fell/);
  assertSentence("core/outputs/report/page: beats persistence leads", said([0.2, -0.1, 0.3]));
  assert(!said([0.3]).includes("persistence at"), "the headline compares a single lead");
  data.bestMetrics = { rmse: 2, skill_persistence: -0.3 };
  assertSentence("core/outputs/report/page: does beat baseline yet", said([-0.5, 0.1]));
});

Deno.test("the mean of an epoch and the loss of a step are never under one name", () => {
  const data = dataOf({}), [mean, step] = [0.0969, 0.1295];
  data.curves.get("epoch_loss")!.last = mean;
  data.curves.get("loss")!.last = step;
  assertSentence("core/outputs/report/page: training loss mean", textOf(summarySection(data, done, null)));
  const columns = textOf(comparison([data, dataOf({ seed: 2 })], [done, done]));
  assertSentence("core/outputs/report/page: training loss last", columns);
  assertMatch(columns, / 0\.130 0\.097 /);
  data.best = null;
  assertMatch(textOf(summarySection(data, done, null)), /Training loss, last step 0\.130/);
});

Deno.test("a run that overfits, never falls, has one evaluation or none says so", () => {
  const data = dataOf({}),
    val = (values: number[]) => {
      const curve = new Curve();
      values.forEach((value, i) => curve.add(100 * (i + 1), value));
      data.curves.set("val_loss", curve);
      const loss = Math.min(...values), epoch = values.indexOf(loss) + 1;
      Object.assign(data, { best: { loss, step: 100 * epoch, epoch }, bestMetrics: {} });
      return textOf(summarySection(data, done, null));
    };
  assertSentence("core/outputs/report/page: fell step risen", val([2, 1, 1.5]));
  assertSentence("core/outputs/report/page: did learn validation", val([1, 1.2, 1.3]));
  assertSentence("core/outputs/report/page: training loss step", val([2]));
  const short = dataOf({ steps: 5, epochs: 1 });
  assertSentence(
    "core/outputs/report/page: learned training loss",
    textOf(summarySection(short, done, null)),
  );
});

Deno.test("a run that failed says where its loss was no number, and in which layer", async () => {
  const data = dataOf({ steps: 4, epochs: 1, exit: 6 });
  data.nonFinite = {
    ...{ kind: "non_finite", step: 5, epoch: 1, loss: NaN },
    ...{ parameter: "layers.0.weight", of: "gradient" },
  };
  const failed = { state: "failed", why: "The loss became NaN" } as const;
  assertSentence("core/outputs/report/page: loss became nan", textOf(summarySection(data, failed, null)));
  // Of a run that never logged a step there is a page as well.
  assertStringIncludes(
    await reportPage([dataOf({ steps: 0, epochs: 1 })], 1_790_000_900),
    "too few logged steps",
  );
});

Deno.test("typical is the middle of what was measured, so that a slow start does not count", () => {
  const data = dataOf({ steps: 101, stepSeconds: 0.05 });
  const rate = typical(data.curves.get("samples_per_s"))!;
  assert(rate > 608 && rate < 672, String(rate));
  assertEquals(typical(undefined), null);
});

Deno.test("the parts of a run's time are said in all, for each step, and in shares that make up 100%", () => {
  const text = textOf(timeOfRun(dataOf({ steps: 1000, stepSeconds: 0.1 })));
  assertMatch(text, /forward and backward 1m 1\ds 7\d\.\d ms 7\d\.\d%/);
  const shares = [...text.matchAll(/ ms (\d+\.\d)%/g)].map(([, share]) => Number(share));
  assertEquals(Math.round(10 * shares.reduce((a, b) => a + b, 0)), 1000, `${shares}`);
  assertEquals(timeOfRun(dataOf({ steps: 50 })), null);
});

Deno.test("the slowest rank is named, and of very many the slowest are shown", () => {
  const text = textOf(rankTimes(dataOf({ ranks: 4, steps: 200 })));
  assertMatch(text, / 2 slowest /);
  assertMatch(text, /The fastest rank has \d+% less to do than the slowest/);
  const many = rankTimes(dataOf({ ranks: 300, steps: 100 }))!;
  assertEquals(many.text.match(/<tr><td data-value/g)!.length, 64);
  assertStringIncludes(textOf(many), "The 64 slowest of 300 are shown.");
  assertEquals(rankTimes(dataOf({ ranks: 1 })), null);
});

Deno.test("attempts say where they ran, which steps they did, what was lost and how they ended", () => {
  const text = textOf(attemptsSection(dataOf({ attempts: 3, ranks: 2 })));
  assertStringIncludes(text, "3 attempts");
  assertMatch(text, /1 \d{4}-\d\d-\d\d \d\d:\d\d UTC node001, job 8100 2 1 to 333 .* was killed 2 /);
  assertMatch(text, /steps that were done again/);
});

Deno.test("settings have their origins, those of one's own first; a command is given as a shell takes it", () => {
  const data = dataOf({});
  const config = configurationSection(data)!;
  assertMatch(
    textOf(config),
    /^ Configuration setting value from training\.epochs 10 --epochs All \d+ settings/,
  );
  assertEquals(flat({ a: { b: [1, "x"], c: null, d: {} }, e: "s" }), [["a.b", '[1,"x"]'], ["a.c", "null"], [
    "e",
    "s",
  ]]);
  data.run = { ...data.run!, command: ["--run-name", "it's new", "--lr=1e-3"] };
  assertStringIncludes(
    environmentSection(data)!.text,
    "hpctrain --run-name &#39;it&#39;\\&#39;&#39;s new&#39; --lr=1e-3",
  );
  data.run.gpu = {
    ...{ name: "NVIDIA H100", capability: "9.0", tf32: true, channels_last: true, cudnn: "9.26.0" },
    ...{ cudnn_searches: true, attention: ["flash"], held_by_others: 0 },
  };
  assertSentence("core/outputs/report/page: gpu nvidia capability", textOf(environmentSection(data)!));
  assertEquals(warningsSection(data), null);
});

Deno.test("compared runs that were validated on different data have no best one", () => {
  const runs = ["a", "b"].map((name) => {
    const data = dataOf({ name });
    return { ...data, run: { ...data.run!, validation: { data: `${name}.npz`, samples: 9, id: name } } };
  });
  assertStringIncludes(
    textOf(comparisonVerdict(runs)),
    "different data: a.npz (9 samples), b.npz (9 samples).",
  );
  const { text } = comparison(runs, [done, done]);
  assert(!text.includes("best</b>") && !text.includes("<b>"));
});

Deno.test("compared runs have a row each with values to sort by, and settings that differ", () => {
  const runs = [
    dataOf({ name: "a", learningRate: 1e-3 }),
    dataOf({ name: "b", learningRate: 3e-3, steps: 500 }),
  ];
  const { text } = comparison(runs, [done, done]);
  assertMatch(text, /<td class="number" data-value="500">500<\/td>/);
  assertMatch(textOf(settingDifferences(runs)), /training\.optimizer\.learning_rate 0\.001 0\.003 $/);
  assertMatch(textOf(settingDifferences([runs[0], runs[0]])), /None: what differs/);
  assertMatch(
    text,
    /class="first"><th scope="row"><span class="key"><i class="swatch h\d"><\/i>\w<b class="chip">best</,
  );
  assertMatch(
    textOf(comparisonVerdict(runs)),
    /^ \w is best: a validation loss of 0\.\d{3} at step \d+, and accuracy/,
  );
});

Deno.test("runs that monitor another metric are told apart by it, and not by a loss that says otherwise", () => {
  const runs = ["a", "b"].map((name, i) => {
    const monitor = { name: "r2", mode: "max", value: [0.9, 0.8][i] } as const;
    return { ...dataOf({ name }), best: { loss: [0.5, 0.3][i], step: 9, epoch: 1, monitor } };
  });
  assertMatch(
    textOf(comparisonVerdict(runs)),
    /^ a is best: R² 0\.900 at step 9, and accuracy \S+ there\. The next one is b with 0\.800\. $/,
  );
});

Deno.test("diagnostics that were hurt in any one place are left out of the page, and never end it", async () => {
  const map = packMap({ width: 3, height: 2, values: Float64Array.of(1, 2, 3, 4, 5, NaN) });
  const axis = { name: "lat", units: "degrees_north", values: [1, 2] };
  const whole = diagnosticsOf({
    names: ["ice+1", "ice+2"],
    outputs: [1, 2].map((lead) => ({ target: "ice", lead, units: "m" })),
    metrics: { "rmse/ice+1": 1, "rmse/ice+2": 2, "skill_persistence/ice+1": 0.1 },
    confusion: [[1, 2], [3, 4]],
    axes: { x: axis, y: axis },
    errors: { along: axis, outputs: [1, 2].map(() => ({ rmse: [1, 2], bias: [1, null] })), rmse: [map, map] },
    shown: [{
      name: "a",
      image: null,
      inputs: [{ name: "x", map }],
      outputs: [{ output: 1, target: map, prediction: map }],
    }],
  });
  const folder = Deno.makeTempDirSync();
  try {
    const run = readRun(makeRun(folder, {}));
    const page = (hurt: unknown) => {
      Deno.writeTextFileSync(join(run.folder, "diagnostics.json"), JSON.stringify(hurt));
      return reportPage([run], 0);
    };
    assertMatch(await page(whole), /id="errors"/);
    let tried = 0;
    const hurt = async (at: any, key: string) => {
      const kept = at[key];
      for (const wrong of [null, 3, "x", {}, [], [null], [{}], { a: 1 }]) {
        at[key] = wrong;
        assertMatch(await page(whole), /<\/html>/);
        tried++;
      }
      at[key] = kept;
      if (typeof kept === "object" && kept !== null) {
        for (const inner of Object.keys(kept).slice(0, 8)) await hurt(kept, inner);
      }
    };
    for (const key of Object.keys(whole)) await hurt(whole, key);
    assert(tried > 300, `${tried} were tried`);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
