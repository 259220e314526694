// `hpctrain report` from outside, its pages opened in a real browser.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join, toFileUrl } from "paths";
import { reportPage } from "../../core/outputs/report/page.ts";
import { readRun } from "../../core/run/run_data.ts";
import { type MadeRun, makeRun } from "../core/run/made_run.ts";
import { writeDiagnostics } from "../../core/run/diagnostics.ts";
import { diagnosticsOf } from "../core/outputs/report/reports.ts";
import { FAINT_TEXTS, NAMELESS, press, stopsOf } from "./accessibility.ts";
import { CHROMIUM, inBrowser, needsChromium, type OpenPage, type Page, type Size } from "./browser.ts";
import { inTemp, run, succeed, TINY } from "./program.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

const DESK: Size = { width: 1280, height: 900 };

/** Opens a page in the browser that all tests of this file share. */
let onPage: OpenPage;
const looks: { readonly name: string; readonly fn: () => Promise<void> }[] = [];

/** A report of runs that were made up, opened. */
function opened(
  runs: readonly MadeRun[],
  body: (page: Page, path: string) => Promise<void>,
  size: Size = DESK,
): Promise<void> {
  return inTemp(async (cwd) => {
    for (const made of runs) makeRun(cwd, made);
    const names = runs.map(({ name = "made" }) => name);
    const path = join(cwd, "report.html");
    const page = await reportPage(names.map((name) => readRun(join(cwd, "logs", name))), Date.now() / 1000);
    Deno.writeTextFileSync(path, page);
    await onPage(toFileUrl(path).href, size, (page) => body(page, path));
  });
}

function browserTest(name: string, fn: () => Promise<void>): void {
  looks.push({ name, fn });
}

/** For each chart that is drawn: its title, and how many pixels of its canvas are in the colour of one of its lines. */
const CHARTS = `[...document.querySelectorAll(".chart:has(canvas)")].map((chart) => {
  const canvas = chart.querySelector("canvas");
  const wanted = [...chart.querySelectorAll(".swatch")].map((swatch) =>
    getComputedStyle(swatch).backgroundColor.match(/\\d+/g).map(Number));
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let pixels = 0;
  for (let i = 0; i < data.length; i += 4) {
    const near = (colour) => colour.every((part, j) => Math.abs(data[i + j] - part) < 40);
    if (data[i + 3] > 200 && wanted.some(near)) pixels++;
  }
  return { title: chart.querySelector("h3").textContent, pixels };
})`;

type Drawn = { title: string; pixels: number }[];

async function quiet(page: Page): Promise<void> {
  assertEquals(page.errors, []);
  assertEquals(page.requests, []);
  // What makes the page safe to open anywhere is in the page itself.
  const policy = await page.evaluate<string>(`document.querySelector("meta[http-equiv]").content`);
  assertMatch(policy, /default-src 'none'.*script-src 'sha256-/);
}

browserTest(
  "the report of a run that was trained shows its curves, complains of nothing and asks for nothing",
  () =>
    inTemp(async (cwd) => {
      const training = [...TINY, "--run-name=r", "--hidden-size=8", "--log-interval=1", "--epochs=3"];
      await succeed(training, { cwd });
      const { stdout } = await succeed(["report"], { cwd });
      assertMatch(stdout, /^r\.html \(\d+\.\d KiB\)\n$/);
      await onPage(toFileUrl(join(cwd, "r.html")).href, DESK, async (page) => {
        await quiet(page);
        const drawn = await page.evaluate<Drawn>(CHARTS);
        const titles = drawn.map(({ title }) => title);
        assertEquals(titles, ["Loss", "R²", "Learning rate", "Gradient norm"]);
        const fold = (of: string) =>
          page.evaluate<string[]>(
            `(document.getElementById("${of}").open = true, new Promise((resolve) => setTimeout(resolve, 100)).then(() =>
              [...document.querySelectorAll("#${of} .chart:has(canvas) h3")].map((h3) => h3.textContent)))`,
          );
        assertEquals((await fold("machine")).slice(0, 1), ["Samples a second"]);
        assertEquals(await fold("measures"), ["MAE", "RMSE", "Bias"]);
        // Lines are at least as long as a chart is wide, more or less.
        for (const { title, pixels } of drawn) {
          assert(pixels > 100, `${title} has ${pixels} pixels of its line`);
        }
        const text = await page.evaluate<string>("document.body.innerText");
        for (
          const said of [
            "done",
            "Best validation loss",
            "checkpoints/r_best.pt",
            "Attempts and lost time",
            "training.epochs",
            "--log-interval=1",
          ]
        ) {
          assertStringIncludes(text, said);
        }
      });
    }),
);

browserTest(
  "a report of 100,000 steps is below 2 MB, opens in a second, and keeps a spike of one step",
  () =>
    inTemp(async (cwd) => {
      const logs = makeRun(cwd, {
        name: "long",
        steps: 100_000,
        ranks: 8,
        gpus: true,
        attempts: 4,
        nan: [70_000],
      });
      const file = join(logs, "events.jsonl"), events = Deno.readTextFileSync(file);
      Deno.writeTextFileSync(file, events.replace(/("step":50001,"epoch":6,"loss":)[\d.]+/, "$1777.25"));
      await succeed(["report", "long", "--out", "long.html"], { cwd });
      const path = join(cwd, "long.html"), { size } = Deno.statSync(path);
      assert(size < 2e6, `${size} bytes`);
      const times: number[] = [];
      // The machine may be busy with something else now and then.
      for (let attempt = 0; attempt < 6 && Math.min(...times) >= 1000 || times.length === 0; attempt++) {
        await onPage(toFileUrl(path).href, DESK, async (page) => {
          times.push(await page.evaluate<number>("Number(document.documentElement.dataset.ready)"));
          if (attempt > 0) return;
          await quiet(page);
          for (const { title, pixels } of await page.evaluate<Drawn>(CHARTS)) {
            assert(pixels > 100, `${title} has ${pixels} pixels of its line`);
          }
          const { charts } = await page.evaluate<any>(
            `JSON.parse(document.getElementById("data").textContent)`,
          );
          const [loss] = charts[0].lines;
          assertEquals(Math.max(...loss.hi), 777.3);
          assertEquals([loss.wrong, loss.wrongs], [[70_000], 1]);
          assertStringIncludes(
            await page.evaluate<string>(`document.querySelector(".legend").innerText`),
            "1 not finite",
          );
        });
      }
      assert(Math.min(...times) < 1000, `ready after ${times.join(", ")} ms`);
    }),
);

browserTest(
  "samples that a run keeps are shown with what the model makes of them, wherever the folder is now",
  () =>
    inTemp(async (cwd) => {
      const fields = ["--data-type=fields", "--model=cosmo-cnn", "--wandb-images=3"];
      await succeed([...TINY, ...fields, "--run-name=r", "--log-interval=1"], { cwd });
      await succeed(["report", "r", "--out", "r.html"], { cwd });
      await onPage(toFileUrl(join(cwd, "r.html")).href, DESK, async (page) => {
        await quiet(page);
        const text = await page.evaluate<string>(`document.getElementById("examples").innerText`);
        assertMatch(text, /16 of 16 validation samples[^]*amplitude[^]*predicted[^]*tilt[^]*predicted/);
        const drawn = `[...document.querySelectorAll("#examples .square .dot, #examples img")].map((one) =>
          one.naturalWidth ?? one.getAttribute("d").match(/M/g).length)`;
        assertEquals((await page.evaluate<number[]>(drawn)).map((one) => one >= 16), Array(5).fill(true));
        assertEquals(await page.evaluate("document.getElementById('samples')"), null);
      });
      // Runs of older versions have no examples of their own.
      Deno.removeSync(join(cwd, "logs/r/diagnostics.json"));
      Deno.renameSync(join(cwd, "logs"), join(cwd, "moved"));
      await succeed(["report", "moved/r", "--out", "r.html"], { cwd });
      await onPage(toFileUrl(join(cwd, "r.html")).href, DESK, async (page) => {
        await quiet(page);
        const [sizes, captions] = await page.evaluate<[number[], string[]]>(
          `[[...document.querySelectorAll("#samples img")].map((img) => img.naturalWidth),
          [...document.querySelectorAll("#samples figcaption")].map((caption) => caption.innerText)]`,
        );
        assertEquals(sizes.length, 3);
        for (const size of sizes) assert(size >= 16, String(size));
        for (const caption of captions) assertMatch(caption, /^-?\d.*, predicted -?\d/);
      });
    }),
);

/** Where each chart's curves are on the screen. */
const SPANS =
  `[...document.querySelectorAll(".chart:has(canvas)")].map((chart) => chart.querySelector(".u-over"))
  .map((over) => over.getBoundingClientRect()).map(({ left, top, width, height }) => ({ left, top, width, height }))`;

browserTest(
  "dragging over one chart zooms all of them, and what is set by hand is drawn without complaint",
  () =>
    opened([{ steps: 3000, epochs: 30 }], async (page) => {
      const pixels = async () => (await page.evaluate<Drawn>(CHARTS)).map(({ pixels }) => pixels);
      const picture = () =>
        page.evaluate<string[]>(`[...document.querySelectorAll("canvas")].map((c) => c.toDataURL())`);
      const whole = await picture();
      const [{ left, top, width, height }] = await page.evaluate<any[]>(SPANS);
      await page.drag([left + width * 0.5, top + height / 2], [left + width * 0.75, top + height / 2]);
      assertEquals(await page.evaluate(`document.getElementById("whole").disabled`), false);
      const zoomed = await picture();
      zoomed.forEach((one, i) => assert(one !== whole[i], `chart ${i} did not follow`));
      await page.evaluate(`document.getElementById("whole").click()`);
      (await picture()).forEach((one, i) => assert(one === whole[i], `chart ${i} is not as it was`));
      for (
        const set of [
          `document.getElementById("late").click()`,
          `document.getElementById("whole").click()`,
          `document.getElementById("log").click()`,
          `document.getElementById("theme").click()`,
          `Object.assign(document.getElementById("smoothing"), { value: "100" }).dispatchEvent(new Event("input"))`,
        ]
      ) {
        const before = await picture();
        await page.evaluate(set);
        await page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 50)))");
        assert((await picture())[0] !== before[0], `${set} changed nothing`);
        for (const count of await pixels()) assert(count > 100, `${set} left ${count} pixels`);
      }
      await quiet(page);
    }),
);

browserTest(
  "moving over a chart tells the step and the values there",
  () =>
    opened([{ steps: 500 }], async (page) => {
      const [{ left, top, width, height }] = await page.evaluate<any[]>(SPANS);
      await page.send("Input.dispatchMouseEvent", {
        type: "mouseMoved",
        x: left + width / 2,
        y: top + height / 2,
      });
      const said = await page.evaluate<string[]>(
        `[...document.querySelectorAll(".at")].map((at) => at.textContent)`,
      );
      assertMatch(said[0], /^step 2[45]\d$/);
    }),
);

browserTest(
  "charts beside each other have the same steps, and the crosshair stands where its values are",
  () =>
    opened([{ steps: 1000 }], async (page) => {
      const [, { left, top, width, height }] = await page.evaluate<any[]>(SPANS);
      await page.send("Input.dispatchMouseEvent", {
        ...{ type: "mouseMoved", x: left + 0.31 * width, y: top + height / 2 },
      });
      // Losses begin at step 5, and evaluations at step 100.
      const [said, at] = await page.evaluate<[string, number]>(`(() => {
      const chart = document.querySelectorAll(".chart")[1], line = chart.querySelector(".u-cursor-x");
      return [chart.querySelector(".at").textContent, new DOMMatrix(getComputedStyle(line).transform).e];
    })()`);
      assertEquals(said, "step 300");
      assert(Math.abs(at / width - 295 / 995) < 0.01, `${at} of ${width}`);
    }),
);

browserTest(
  "smoothing that no curve is long enough for says so, and can't be moved",
  () =>
    opened([{ steps: 40, epochs: 4 }], async (page) => {
      const told =
        `[document.getElementById("smoothed").innerText, document.getElementById("smoothing").disabled]`;
      assertEquals(await page.evaluate(told), [
        sentenceNamed("integration/report: points fewer logged"),
        true,
      ]);
    }),
);

browserTest("the scores of targets are whole on a phone", () =>
  inTemp(async (cwd) => {
    const logs = makeRun(cwd, { name: "made" });
    const names = ["r2", "rmse", "mae", "bias", "skill_persistence"];
    writeDiagnostics(
      logs,
      diagnosticsOf({
        names: ["sst+1", "sst+2"],
        outputs: [1, 2].map((lead) => ({ target: "sst", lead, units: "" })),
        metrics: Object.fromEntries(names.map((name, i) => [`${name}/sst+1`, -(i + 1) * 137.123456])),
      }),
    );
    const path = join(cwd, "report.html");
    Deno.writeTextFileSync(path, await reportPage([readRun(logs)], Date.now() / 1000));
    await onPage(toFileUrl(path).href, { width: 390, height: 844, mobile: true }, async (page) => {
      const [wide, seen] = await page.evaluate<[number, number]>(
        `(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])(document.querySelector("#targets .wide"))`,
      );
      assert(wide <= seen, `${wide} pixels of numbers, and ${seen} are seen`);
    });
  }));

const HOSTILE = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=2">"'&\u202e`;

browserTest("names, messages and settings of runs are text, whatever they are", () =>
  inTemp(async (cwd) => {
    makeRun(cwd, { name: "plain" });
    const hostile = makeRun(cwd, {
      name: "hostile",
      model: HOSTILE,
      host: HOSTILE,
      warnings: [HOSTILE, "\u0000\ud800"],
    });
    const file = join(hostile, "events.jsonl"), quoted = JSON.stringify(HOSTILE).slice(1, -1);
    Deno.writeTextFileSync(
      file,
      Deno.readTextFileSync(file).replace(`"run":"hostile"`, () => `"run":"${quoted}"`)
        .replaceAll(`"perplexity":`, () => `"${quoted}":`).replace(`"--preset"`, () => `"${quoted}"`)
        .replace(`"adamw"`, () => `{"${quoted}":"${quoted}"}`),
    );
    for (const names of [["hostile"], ["hostile", "plain"]]) {
      await succeed(["report", ...names, "--out", "x.html"], { cwd });
      await onPage(toFileUrl(join(cwd, "x.html")).href, DESK, async (page) => {
        await quiet(page);
        assertEquals(await page.evaluate("typeof window.hacked"), "undefined");
        assertEquals(await page.evaluate("document.querySelectorAll('img, iframe, object').length"), 0);
        assertStringIncludes(
          await page.evaluate<string>("document.title"),
          "<script>window.hacked=1</script>",
        );
        assertStringIncludes(await page.evaluate<string>("document.body.innerText"), HOSTILE.slice(0, -1));
      });
    }
  }));

browserTest(
  "several runs are compared: the table sorts, a run can be left out, differing settings are named",
  () =>
    opened([
      { name: "slow", steps: 2000, stepSeconds: 0.2, learningRate: 1e-3 },
      { name: "fast", steps: 900, stepSeconds: 0.01, learningRate: 3e-3, seed: 5 },
      { name: "middle", steps: 1500, stepSeconds: 0.05, learningRate: 1e-3, exit: 75 },
    ], async (page) => {
      await quiet(page);
      const order = () =>
        page.evaluate<string[]>(
          `[...document.querySelectorAll("#runs tbody th")].map((th) => th.innerText.split("\\n")[0].trim())`,
        );
      const press = (head: string) =>
        page.evaluate(
          `[...document.querySelectorAll("#runs th button")].find((b) => b.innerText === "${head}").click()`,
        );
      assertEquals(await order(), ["slow", "fast", "middle"]);
      await press("steps");
      assertEquals(await order(), ["fast", "middle", "slow"]);
      await press("steps");
      assertEquals(await order(), ["slow", "middle", "fast"]);
      await press("samples/s");
      assertEquals(await order(), ["slow", "middle", "fast"]);
      await press("run");
      assertEquals(await order(), ["fast", "middle", "slow"]);
      const text = await page.evaluate<string>(`document.getElementById("differences").innerText`);
      assertStringIncludes(text, "training.optimizer.learning_rate");
      assert(!text.includes("run_name"), text);
      const keys = () => page.evaluate<number>(`document.querySelector(".legend").children.length`);
      assertEquals(await keys(), 3);
      await page.evaluate(`document.querySelector("input[data-run='1']").click()`);
      assertEquals(await keys(), 2);
      assertEquals(page.errors, []);
    }),
);

for (const dark of [false, true]) {
  browserTest(
    `a phone shows the report without scrolling sideways, ${dark ? "dark" : "light"} as it likes`,
    () =>
      opened(
        [{
          steps: 400,
          ranks: 4,
          gpus: true,
          attempts: 2,
          warnings: ["A word ".repeat(40), "x".repeat(300)],
        }],
        async (page) => {
          await quiet(page);
          const [width, paper] = await page.evaluate<[number, string]>(
            `[document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]`,
          );
          assertEquals(width, 390);
          assertEquals(paper, dark ? "rgb(20, 22, 26)" : "rgb(255, 255, 255)");
          for (const { title, pixels } of await page.evaluate<Drawn>(CHARTS)) assert(pixels > 50, title);
        },
        { width: 390, height: 844, mobile: true, dark },
      ),
  );
}

browserTest("on paper the report is light, its curves are there, and it is dark again after", () =>
  opened(
    [{ steps: 400 }],
    async (page) => {
      await page.evaluate(`dispatchEvent(new Event("beforeprint"))`);
      assertEquals(
        await page.evaluate("getComputedStyle(document.body).backgroundColor"),
        "rgb(255, 255, 255)",
      );
      for (const { title, pixels } of await page.evaluate<Drawn>(CHARTS)) assert(pixels > 100, title);
      await page.evaluate(`dispatchEvent(new Event("afterprint"))`);
      assertEquals(await page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(20, 22, 26)");
      const { data } = await page.send("Page.printToPDF");
      assert(Uint8Array.fromBase64(data).length > 20_000);
      assertEquals(page.errors, []);
    },
    { ...DESK, dark: true },
  ));

browserTest(
  "a report is read without a mouse and without eyes: stops, names, headings, values by arrow keys",
  () =>
    opened([{ steps: 400, ranks: 4, gpus: true, attempts: 2, warnings: ["Slow"] }], async (page) => {
      assertEquals(await page.evaluate(NAMELESS), []);
      assertEquals(await stopsOf(page, 12), [
        "button Light / dark",
        "a 1 warning",
        "checkbox Logarithmic loss",
        "slider Smoothing",
        "button Last quarter",
        "slider Loss by step",
        "slider Accuracy by step",
        "slider Learning rate by step",
        "slider Gradient norm by step",
        "slider Loss scale by step",
        "slider Time of a step by step",
        "button rank",
      ]);
      // The chart says its values as a slider does.
      const value = () =>
        page.evaluate<string>(`document.querySelector(".plot").getAttribute("aria-valuetext")`);
      await page.evaluate(`document.querySelector(".plot").focus()`);
      assertMatch(await value(), /^the end: training, each step 0\.\d+, validation 0\.\d+$/);
      await press(page.send, "Home");
      assertMatch(await value(), /^step 1: training, each step \d+\.\d+, validation $/);
      for (let i = 0; i < 3; i++) await press(page.send, "ArrowRight");
      assertMatch(await value(), /^step 4: training/);
      const { nodes } = await page.send("Accessibility.getFullAXTree");
      const sliders = nodes.filter(({ role, ignored }: any) => role?.value === "slider" && !ignored);
      assert(
        sliders.length >= 6 && sliders.every(({ name }: any) => name.value !== ""),
        `${sliders.length} sliders`,
      );
    }),
);

browserTest(
  "all texts of a report are seen well, light and dark, folded parts among them",
  () =>
    inTemp(async (cwd) => {
      const confusion = Array.from(
        { length: 11 },
        (_, i) => Array.from({ length: 11 }, (_, j) => i === j ? i : 1),
      );
      const texts = [{ tokens: [72, 105], guesses: [72, 111], probabilities: [0.9, 0.001] }];
      const image = "iVBORw0KGgo=",
        wrong = { target: [0], prediction: [1], probability: 0.9, name: "sample 1", image };
      const kinds = [
        { task: "classification", confusion, examples: [wrong, { ...wrong, prediction: [0] }] },
        { task: "language", texts: [...texts, { ...texts[0], probabilities: [0.06, 0.25] }] },
        { outputs: [{ target: "ice", lead: 1, units: "m" }], examples: [wrong] },
      ] as const;
      for (const [i, more] of kinds.entries()) {
        const logs = makeRun(cwd, {
          name: `r${i}`,
          steps: 300,
          ranks: 2,
          attempts: 2,
          warnings: ["Slow"],
          exit: i,
        });
        writeDiagnostics(logs, diagnosticsOf(more));
      }
      const folders = kinds.map((_, i) => join(cwd, `logs/r${i}`)), path = join(cwd, "x.html");
      for (const some of [...folders.map((one) => [one]), folders]) {
        Deno.writeTextFileSync(path, await reportPage(some.map((one) => readRun(one)), Date.now() / 1000));
        await onPage(toFileUrl(path).href, DESK, async (page) => {
          assertEquals(await page.evaluate(NAMELESS), []);
          await page.evaluate(`document.querySelectorAll("details").forEach((part) => part.open = true)`);
          for (const theme of ["light", "dark"]) {
            await page.evaluate(`document.documentElement.dataset.theme = "${theme}"`);
            const { seen, found } = await page.evaluate<{ seen: number; found: string[] }>(FAINT_TEXTS);
            assertEquals(found, [], theme);
            assert(seen > 60, `${seen} texts`);
          }
        });
      }
    }),
);

browserTest(
  "a report prints on two pages",
  () =>
    opened(
      [{ steps: 2000, ranks: 8, gpus: true, attempts: 4, warnings: Array(9).fill("A word ".repeat(9)) }],
      async (page) => {
        const { data } = await page.send("Page.printToPDF", {
          preferCSSPageSize: true,
          printBackground: true,
        });
        const pages = new TextDecoder("latin1").decode(Uint8Array.fromBase64(data)).match(/\/Type \/Page\b/g);
        assert(pages !== null && pages.length <= 2, `${pages?.length} pages`);
        assertEquals(page.errors, []);
      },
    ),
);

Deno.test({
  name: `reports in a browser${needsChromium}`,
  ignore: !CHROMIUM,
  fn: (t) =>
    inBrowser(async (open) => {
      onPage = open;
      for (const { name, fn } of looks) await t.step(name, fn);
    }),
});

Deno.test("what can't be reported is a sentence, with what to do", () =>
  inTemp(async (cwd) => {
    const none = await run(["report"], { cwd });
    assertEquals(none.code, 2);
    assertSentence("integration/report: hpctrain run below", none.stderr);
    makeRun(cwd, { name: "made", steps: 20 });
    const other = await run(["report", "mad"], { cwd });
    assertEquals(other.code, 2);
    assertSentence("integration/report: hpctrain mad run", other.stderr);
    const nowhere = await run(["report", "made", "--out", "logs"], { cwd });
    assertEquals(nowhere.code, 2);
    assertSentence("integration/report: hpctrain logs written", nowhere.stderr);
    Deno.mkdirSync(join(cwd, "logs/empty"));
    Deno.writeTextFileSync(join(cwd, "logs/empty/events.jsonl"), "no event\n");
    const empty = await run(["report", "empty"], { cwd });
    assertEquals(empty.code, 3);
    assertSentence("integration/report: hpctrain logs empty", empty.stderr);
  }));
