// `hpctrain report` of data, and of runs on maps, opened in a real browser.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join, toFileUrl } from "paths";
import { python } from "../core/checkpoint/python.ts";
import { CHROMIUM, needsChromium, onPage, type Page, type Size } from "./browser.ts";
import { inTemp, run, succeed } from "./program.ts";

const DESK: Size = { width: 1280, height: 900 };
const HOSTILE = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=2">"'&`;

const MADE = `
import sys, os, numpy as np, xarray as xr
from PIL import Image
folder, hostile = sys.argv[1:]
days = np.r_[0:40, 50:90]
lat, lon = np.linspace(-60, 60, 13), np.arange(0, 360, 15.0)
ice = np.broadcast_to(np.arange(13.0)[None, :, None], (80, 13, 24)).copy()
ice[:, 2:5, 6:9] = np.nan
ice[20:40, 10] = np.nan
wind = np.broadcast_to(np.linspace(-8, 8, 24)[None, None], (80, 13, 24))
dims = ("time", "lat", "lon")
ds = xr.Dataset({"ice": (dims, ice, {"units": "m"}), "wind": (dims, wind, {"units": hostile}),
    "kind": (("time",), days % 3)}, coords={
    "time": np.datetime64("2001-01-01", "ns") + days * np.timedelta64(1, "D"),
    "lat": ("lat", lat, {"units": "degrees_north"}), "lon": ("lon", lon, {"units": "degrees_east"})})
ds.to_netcdf(folder + "/maps.nc")
rng = np.random.default_rng(1)
noise = {f"n{i}": np.where(rng.random((2, 180, 360)) < 0.5, np.nan, rng.random((2, 180, 360))) for i in range(8)}
np.savez(folder + "/noise.npz", **noise, **{hostile.replace("/", ""): rng.normal(size=3)})
for name in ["cats", hostile.replace("/", "")]:
    os.makedirs(f"{folder}/im/{name}")
    for i in range(3): Image.fromarray(rng.integers(0, 255, (20, 24, 3)).astype("u1")).save(f"{folder}/im/{name}/{i}.png")`;

async function quiet(page: Page): Promise<void> {
  assertEquals([page.errors, page.requests], [[], []]);
  assertEquals(await page.evaluate("typeof window.hacked"), "undefined");
  assertEquals(await page.evaluate("document.querySelectorAll('iframe, object, img[src=x]').length"), 0);
}

/** For each map: its title and the colours of its corners, from the upper left on. */
const CORNERS = `Promise.all([...document.querySelectorAll(".map:has(.field)")].map(async (figure) => {
  const image = new Image(), canvas = document.createElement("canvas");
  image.src = figure.querySelector("image").getAttribute("href");
  await image.decode();
  const { width, height } = Object.assign(canvas, { width: image.width, height: image.height });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const at = (x, y) => [...context.getImageData(x, y, 1, 1).data].slice(0, 3).join();
  return [figure.querySelector("figcaption").innerText, at(0, 0), at(width - 1, 0), at(0, height - 1)];
}))`;

/** Texts of one axis that lie over each other. */
const OVERLAPS = `[...document.querySelectorAll("svg.ticks")].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()])
    .filter(([, { width }]) => width > 0);
  return boxes.flatMap(([a, one], i) => boxes.slice(i + 1).filter(([, other]) =>
    one.left < other.right && other.left < one.right && one.top < other.bottom - 2 && other.top < one.bottom - 2
  ).map(([b]) => a + " over " + b));
})`;

Deno.test({
  name: `the report of data has maps with north up, coasts, gaps and hostile names as text${needsChromium}`,
  ignore: !CHROMIUM,
  fn: () =>
    inTemp(async (cwd) => {
      python(MADE, cwd, HOSTILE);
      for (const name of ["maps.nc", "noise.npz", "im"]) {
        const { stdout } = await succeed(["report", name], { cwd });
        assertMatch(stdout, /^(maps|noise|im)\.html \([\d.]+ .iB\)\n$/);
      }
      assert(Deno.statSync(join(cwd, "noise.html")).size < 2e6, "noise takes most");
      const at = (name: string) => toFileUrl(join(cwd, `${name}.html`)).href;
      await onPage(at("maps"), DESK, async (page) => {
        await quiet(page);
        const [yellow, purple, blue, red, none] = [
          "253,231,37",
          "68,1,84",
          "33,102,172",
          "178,24,43",
          "0,34,78",
        ];
        assertEquals(await page.evaluate(CORNERS), [
          ["Mean", yellow, yellow, purple],
          ["Missing", none, none, none],
          ["Mean", blue, red, blue],
        ]);
        const text = await page.evaluate<string>("document.body.innerText");
        for (
          const said of [
            "steps of 1 day; 10 missing: 2001-02-10 to 2001-02-19 (after index 39)",
            ...["60°N", "60°S", "180°", "m\n", HOSTILE, "0 to 12 m", "89.4 to 97.1%"],
          ]
        ) assertStringIncludes(text, said);
        // The wind has the ice's coast.
        const coasts = await page.evaluate<string[]>(
          `[...document.querySelectorAll("use.coast")].map((use) => document.querySelector(use.getAttribute("href")).getAttribute("d"))`,
        );
        assertEquals(coasts, new Array(3).fill("M6 8h3M6 11h3M6 8v3M9 8v3"));
        assertEquals(await page.evaluate(OVERLAPS), []);
        const bars = await page.evaluate<string[]>(
          `[...document.querySelectorAll(".shares tr")].map((row) => row.innerText.replace(/\\s+/g, " ").trim())`,
        );
        assertEquals(bars.slice(-3), ["0 27 33.8%", "1 26 32.5%", "2 27 33.8%"]);
      });
      await onPage(at("maps"), { width: 390, height: 844, mobile: true, dark: true }, async (page) => {
        await quiet(page);
        assertEquals(await page.evaluate("document.documentElement.scrollWidth"), 390);
        assertEquals(await page.evaluate(OVERLAPS), []);
        const paper = "getComputedStyle(document.body).backgroundColor";
        assertEquals(await page.evaluate(paper), "rgb(20, 22, 26)");
        await page.evaluate(`document.getElementById("theme").click()`);
        assertEquals(await page.evaluate(paper), "rgb(255, 255, 255)");
      });
      await onPage(at("im"), DESK, async (page) => {
        await quiet(page);
        const sizes = await page.evaluate(
          `[...document.querySelectorAll("#samples img")].map((img) => img.naturalWidth)`,
        );
        assertEquals(sizes, new Array(6).fill(96));
        assertStringIncludes(
          await page.evaluate<string>("document.getElementById('classes').innerText"),
          HOSTILE.replaceAll("/", ""),
        );
      });
    }),
});

Deno.test("data that is not there, or of a kind that can't be looked into, is refused in a sentence", () =>
  inTemp(async (cwd) => {
    const refusals = [
      [["nowhere.nc"], /nowhere\.nc.*there is no such file/],
      [["nowhere"], /^hpctrain: nowhere is no run/],
      [["a.csv", "--data-type", "nectdf"], /Did you mean "netcdf"\?/],
      [["a.csv", "b.csv", "--data-type", "csv"], /one data set, but got 2/],
    ] as const;
    for (const [argv, said] of refusals) {
      const { code, stderr } = await run(["report", ...argv], { cwd });
      assert(code === 2 || code === 3, stderr);
      assertMatch(stderr, said);
    }
  }));

const SEA = `
import sys
sys.path.append(sys.argv[2])
from sea_ice import make
make(sys.argv[1] + "/ice", 5, 18)`;

/** The errors of the best checkpoint's predictions, as numpy adds them up. */
const ERRORS = `
import sys, json, numpy as np, xarray as xr
p = xr.open_dataset(sys.argv[1], decode_times=False)
e = (p.ice - p.ice_target).values
lat = p.latitude.values.astype('f8')
low, high = lat.min(), lat.max()
n = min(24, lat.shape[0])
band = np.minimum(n - 1, ((lat - low) / ((high - low) / n)).astype(int))
mean = lambda x: None if np.isnan(x).all() else float(np.nanmean(x))
print(json.dumps([[[mean(e[:, k][:, band == b] ** 2), mean(e[:, k][:, band == b])] for b in range(n)] for k in range(e.shape[1])]))`;

const DATA = [
  "--data-path=ice",
  "--features=ice",
  "--targets=ice",
  "--history=2",
  "--lead=1..2",
  "--validate-on=1983",
];

Deno.test({
  name:
    `a run's report has its errors by latitude and lead as numpy has them, and maps of its samples${needsChromium}`,
  ignore: !CHROMIUM,
  fn: () =>
    inTemp(async (cwd) => {
      python(SEA, cwd, fromFileUrl(new URL("../../examples/python", import.meta.url)));
      const unet = ["--model=unet", "--device=cpu", "--threads=1", "--no-wandb", "--run-name=r"];
      await succeed([
        "train",
        ...unet,
        "--depth=1",
        "--width=4",
        "--batch-size=15",
        ...DATA,
        "--epochs=3",
        "--lr=1e-3",
      ], {
        cwd,
      });
      const found = JSON.parse(Deno.readTextFileSync(join(cwd, "logs/r/diagnostics.json")));
      await succeed(["predict", "checkpoints/r_best.pt", "--out=p.nc"], { cwd });
      const wanted: [number | null, number | null][][] = JSON.parse(python(ERRORS, join(cwd, "p.nc")));
      wanted.forEach((bands, k) =>
        bands.forEach(([square, bias], b) => {
          const own = found.errors.outputs[k];
          if (square === null || bias === null) return assertEquals([own.rmse[b], own.bias[b]], [null, null]);
          assertAlmostEquals(own.rmse[b], Math.sqrt(square), 1e-5);
          assertAlmostEquals(own.bias[b], bias, 1e-5);
        })
      );
      // The run's own name for its target is text, too.
      const hostile = JSON.stringify(HOSTILE).slice(1, -1);
      const text = JSON.stringify(found).replaceAll('"target":"ice"', () => `"target":"${hostile}"`);
      Deno.writeTextFileSync(join(cwd, "logs/r/diagnostics.json"), text);
      await succeed(["report", "r"], { cwd });
      for (const size of [DESK, { width: 390, height: 844, mobile: true, dark: true }]) {
        await onPage(toFileUrl(join(cwd, "r.html")).href, size, async (page) => {
          await quiet(page);
          assertEquals(await page.evaluate("document.documentElement.scrollWidth"), size.width);
          assertEquals(await page.evaluate(OVERLAPS), []);
          const titles = await page.evaluate<string[]>(
            `[...document.querySelectorAll(".map figcaption")].map((caption) => caption.innerText.replace(/\\s+/g, " "))`,
          );
          const shown = ["Input", `Target ${HOSTILE} +1 step`, "Prediction", "Prediction \u2212 target"];
          const later = [`Target ${HOSTILE} +2 steps`, "Prediction", "Prediction \u2212 target"];
          assertEquals(titles, [
            ...[...shown, ...later, ...shown, ...later],
            ...[`RMSE by lead, ${HOSTILE}`, "RMSE by latitude", "Bias by latitude"],
            ...[`RMSE, ${HOSTILE} +1 step`, `RMSE, ${HOSTILE} +2 steps`],
          ]);
          assert(await page.evaluate<number>(`document.querySelectorAll("use.coast").length`) === 16);
          assertEquals(
            await page.evaluate("document.querySelectorAll('img:not([alt]), img[alt=\"\"]').length"),
            0,
          );
          const table = await page.evaluate<string>(`document.getElementById("targets").innerText`);
          for (const head of ["R2", "RMSE", "bias", "skill over persistence"]) {
            assertStringIncludes(table, head);
          }
        });
      }
      // A damaged file leaves the rest of the report.
      Deno.writeTextFileSync(
        join(cwd, "logs/r/diagnostics.json"),
        text.replace('"rows"', '"x"').replace('"data":"', '"data":"!'),
      );
      await succeed(["report", "r"], { cwd });
      assert(!Deno.readTextFileSync(join(cwd, "r.html")).includes('id="maps"'));
    }),
});
