// Parallel coordinates on the page of a sweep, in a real browser.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { pageOf, ROWS, SWEEP } from "../../../tests/core/cluster/sweep/made_sweep.ts";
import { CHROMIUM, inBrowser, needsChromium } from "../../../tests/integration/browser.ts";

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
