// Makes docs/screenshots/ anew, of made-up runs: `deno run -A scripts/lib/screenshots.ts`, with HPCTRAIN_CHROMIUM
// naming a browser.
import { join, toFileUrl } from "@std/path";
import { makeRun } from "../../tests/core/run/made_run.ts";
import { onPage, type Size } from "../../tests/integration/browser.ts";
import { inTemp, ROOT, succeed } from "../../tests/integration/program.ts";

const OUT = join(ROOT, "docs/screenshots");
const DESK: Size = { width: 1200, height: 1000 };

await inTemp(async (cwd) => {
  const steps = 60_000, warnings = ["Rank 6 of 8 (node002) is the slowest by 31%"];
  makeRun(cwd, {
    name: "gpt-owt",
    steps,
    epochs: 12,
    ranks: 8,
    gpus: true,
    attempts: 4,
    stepSeconds: 0.21,
    warnings,
  });
  makeRun(cwd, { name: "lr-1e-3", steps: 20_000, seed: 3, learningRate: 1e-3 });
  makeRun(cwd, { name: "lr-3e-3", steps: 14_000, seed: 4, learningRate: 3e-3, nan: [5000] });
  await succeed(["report", "gpt-owt", "--out", "one.html"], { cwd });
  await succeed(["report", "lr-1e-3", "lr-3e-3", "--out", "two.html"], { cwd });
  const shoot = (page: string, name: string, size: Size, before = "0") =>
    onPage(toFileUrl(join(cwd, page)).href, size, async ({ evaluate, screenshot }) => {
      await evaluate(before);
      await evaluate("new Promise((resolve) => setTimeout(resolve, 300))"); // what scrolling has changed is drawn
      Deno.writeFileSync(join(OUT, name), await screenshot());
    });
  await shoot("one.html", "report.png", DESK);
  await shoot("one.html", "report-dark.png", { ...DESK, dark: true });
  await shoot("one.html", "report-time.png", DESK, `document.getElementById("time").scrollIntoView()`);
  await shoot("one.html", "report-phone.png", { width: 390, height: 844, mobile: true }, "scrollTo(0, 600)");
  await shoot("two.html", "comparison.png", { ...DESK, height: 720 });
});
