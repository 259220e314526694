// The page as text; what a browser makes of it is tested in tests/integration/report_test.ts.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { comparison, differences, reportPage } from "../../../../core/outputs/report/page.ts";
import {
  attemptsSection,
  configurationSection,
  environmentSection,
  flat,
  headline,
  rankTimes,
  timeOfRun,
  typical,
  warningsSection,
} from "../../../../core/outputs/report/sections.ts";
import { uplot } from "../../../../deps/uplot.ts";
import { dataOf, textOf } from "./reports.ts";

const done = { state: "done", why: "Finished" } as const;

Deno.test("a page names no other place, and holds no style outside of its sheet", async () => {
  const page = await reportPage(
    [dataOf({ ranks: 2, gpus: true, attempts: 2, warnings: ["w"] })],
    1_790_000_900,
  );
  const own = page.replace(/<script>[\s\S]*?<\/script>/g, "");
  assertEquals(own.match(/\b(src|href|action|style|on\w+)="[^"]*"/g), ['href="data:,"']);
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

Deno.test("the headline has the best loss and its metrics, time, goodput, speed and memory", () => {
  const text = textOf(headline(dataOf({ attempts: 3 }), done));
  assertMatch(text, /best validation loss 0\.\d{4} step 1000, epoch 10/);
  for (
    const said of [
      "validation accuracy",
      "goodput 92.",
      "3 attempts",
      "655.4K tokens/s",
      "of what the devices can do",
    ]
  ) {
    assertStringIncludes(text, said);
  }
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
  assertStringIncludes(
    textOf(environmentSection(data)!),
    "GPU NVIDIA H100, capability 9.0; TF32 products, cuDNN 9.26.0 searching its fastest kernels, channels last, flash",
  );
  assertEquals(warningsSection(data), null);
});

Deno.test("compared runs have a row each with values to sort by, and settings that differ", () => {
  const runs = [
    dataOf({ name: "a", learningRate: 1e-3 }),
    dataOf({ name: "b", learningRate: 3e-3, steps: 500 }),
  ];
  const { text } = comparison(runs, [done, done]);
  assertMatch(text, /<td class="number" data-value="500">500<\/td>/);
  assertMatch(textOf(differences(runs)), /training\.optimizer\.learning_rate 0\.001 0\.003 $/);
  assertEquals(differences([runs[0], runs[0]]), null);
});
