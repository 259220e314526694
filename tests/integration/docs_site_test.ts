// The site that scripts/docs makes, opened in a real browser: no broken link, no request to anywhere, no page wider
// than its screen.
import { ALL_SETTINGS } from "../../core/settings/settings.ts";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { dirname, join, toFileUrl } from "paths";
import { makeSite } from "../../scripts/site/main.ts";
import { CHROMIUM, needsChromium, onPage, type Page } from "./browser.ts";
import { filesIn, inTemp } from "./program.ts";

const pagesOf = async (out: string): Promise<string[]> =>
  (await filesIn(out)).filter((path) => path.endsWith(".html")).map((path) => join(out, path));

Deno.test("every link of the site leads to a file of it, and to a heading that is there", () =>
  inTemp(async (out) => {
    const made = await makeSite(out);
    const pages = await pagesOf(out);
    assertEquals(pages.length, made);
    const texts = new Map(pages.map((path) => [path, Deno.readTextFileSync(path)]));
    const broken: string[] = [];
    for (const [page, html] of texts) {
      for (const [, link] of html.matchAll(/ (?:href|src|srcset)="([^"]*)"/g)) {
        if (/^(https?|data|mailto):/.test(link)) continue;
        const [file, anchor] = link.split("#");
        const path = file === "" ? page : join(dirname(page), file);
        const there = texts.get(path) ?? (await Deno.stat(path).then(() => "", () => null));
        if (there === null || (anchor && !there.includes(`id="${anchor}"`))) broken.push(`${page}: ${link}`);
      }
    }
    assertEquals(broken, []);
  }));

/** The colour of the paper. */
const SCHEME = `getComputedStyle(document.body).backgroundColor`;
const LIGHT = "rgb(255, 255, 255)", DARK = "rgb(20, 23, 26)";

/** What is wider than the screen, by its tag and its text. */
const WIDE = `[...document.querySelectorAll("main *, header *")]
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".table, pre, .results, .skip"))
  .map((e) => e.tagName + " " + e.textContent.slice(0, 60))`;

/** On a desk, where there is room, these stand for all. */
const WIDEST = /(index|manual|settings|benchmarks|tracking|first-run|data)\.html$/;

interface Seen {
  width: number;
  wide: string[];
}

async function go(page: Page, address: string): Promise<void> {
  await page.send("Page.navigate", { url: address });
  const ready = `document.documentElement?.dataset.ready !== undefined && location.href === ${
    JSON.stringify(address)
  }`;
  for (const end = performance.now() + 30_000; performance.now() < end;) {
    if (await page.evaluate<boolean>(ready).catch(() => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`${address} is not ready after 30 s: ${page.errors.join("; ")}`);
}

Deno.test("each setting has an anchor, and code is coloured without changing it", () =>
  inTemp(async (out) => {
    await makeSite(out);
    const settings = Deno.readTextFileSync(join(out, "settings.html"));
    for (const { path } of ALL_SETTINGS) assert(settings.includes(`id="${path}"`), path);
    const guide = Deno.readTextFileSync(join(out, "guides/first-run.html"));
    assertMatch(guide, /hpctrain <span class="flag">--preset<\/span> quickstart/);
  }));

Deno.test({
  name:
    `the site fits a desk and a phone, light and dark, asks for nothing elsewhere, and is searched ${needsChromium}`,
  ignore: !CHROMIUM,
  fn: () =>
    inTemp(async (out) => {
      await makeSite(out);
      const pages = await pagesOf(out);
      const first = toFileUrl(join(out, "index.html")).href;
      for (
        const size of [{ width: 1400, height: 900 }, { width: 390, height: 844, mobile: true, dark: true }]
      ) {
        await onPage(first, size, async (page) => {
          for (const path of size.mobile ? pages : pages.filter((path) => WIDEST.test(path))) {
            await go(page, toFileUrl(path).href);
            const { width, wide } = await page.evaluate<Seen>(
              `({ width: document.documentElement.scrollWidth, wide: ${WIDE} })`,
            );
            assert(
              width <= size.width,
              `${path} is ${width} wide on ${size.width}: ${wide.slice(0, 5).join("; ")}`,
            );
          }
          await go(page, first);
          assertEquals(
            await page.evaluate(SCHEME),
            size.dark ? DARK : LIGHT,
          );
          for (
            const [asked, wanted] of [
              ["ulimit address", "reference/libtorch.html#the-address-space"],
              [
                "custom loss",
                "guides/your-typescript-model.html#a-loss-metrics-data-and-an-optimizer-of-your-own",
              ],
              ["early stopping", "guides/fine-tune.html#settings-that-help-with-little-data"],
              ["multi-label", "guides/your-table.html#predict-a-class"],
              ["learning rate finder", "reference/speed.html#batch-sizes-and-learning-rates"],
              ["curvilinear", "guides/your-maps.html#train"],
            ]
          ) {
            const found = await page.evaluate<string[]>(`(async () => {
              const box = document.querySelector("input[type=search]"), results = document.querySelector(".results");
              results.replaceChildren();
              box.value = ${JSON.stringify(asked)};
              box.dispatchEvent(new Event("input"));
              while (results.children.length === 0) await new Promise((done) => setTimeout(done, 5));
              return [...results.querySelectorAll("a")].map(({ href }) => href);
            })()`);
            assert(
              found.slice(0, 5).some((address) => address.endsWith(wanted)),
              `${asked}: ${found.join("\n")}`,
            );
          }
          assertEquals(
            await page.evaluate(
              `document.querySelectorAll("pre").length === document.querySelectorAll(".copy").length`,
            ),
            true,
          );
          await page.evaluate(`document.querySelector(".theme").click()`);
          assertEquals(
            await page.evaluate(SCHEME),
            size.dark ? LIGHT : DARK,
          );
          assertEquals(page.errors, []);
          const elsewhere = page.requests.filter((address) => !address.startsWith(toFileUrl(out).href));
          assertEquals(elsewhere, []);
        });
      }
    }),
});
