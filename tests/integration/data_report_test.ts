// `hpctrain report` of data, its pages opened in a real browser.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join, toFileUrl } from "@std/path";
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
