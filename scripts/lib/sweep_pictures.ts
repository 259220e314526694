// Makes docs/screenshots/sweep-*.webp again, of a search that it trains (a minute): `deno run -A
// scripts/lib/sweep_pictures.ts`, with HPCTRAIN_CHROMIUM, HPCTRAIN_EXE and HPCTRAIN_LIBTORCH set as for the tests.
import { join, toFileUrl } from "paths";
import { inBrowser } from "../../tests/integration/browser.ts";
import { inTemp, ROOT, succeed } from "../../tests/integration/program.ts";

const SPACE = `space:
  lr: { log: [1e-5, 1] }
  model.hidden_size: { int: [8, 128], log: true }
  model.dropout: { uniform: [0, 0.5] }
  batch-size: { choice: [16, 32, 64] }
  optimizer: { choice: [adamw, sgd, lamb] }
`;
const FLAGS =
  "--model mlp --train-samples 1024 --val-samples 256 --epochs 9 --device cpu --threads 1 --no-wandb";
const SEARCH = "--search tpe --first-rung 1ep --max-runs 36 --parallel 2 --local --name widths";
const PICTURES = {
  "sweep-light": { width: 1400, height: 1010 },
  "sweep-phone-dark": { width: 390, height: 1400, mobile: true, dark: true },
};

await inTemp(async (cwd) => {
  Deno.writeTextFileSync(join(cwd, "search.yaml"), SPACE);
  await succeed(["sweep", "search.yaml", ...FLAGS.split(" "), ...SEARCH.split(" ")], { cwd });
  await succeed(["sweep", "report"], { cwd });
  await inBrowser(async (open) => {
    for (const [name, size] of Object.entries(PICTURES)) {
      await open(toFileUrl(join(cwd, "widths.html")).href, size, async (page) => {
        const { data } = await page.send("Page.captureScreenshot", { format: "webp", quality: 70 });
        Deno.writeFileSync(join(ROOT, `docs/screenshots/${name}.webp`), Uint8Array.fromBase64(data));
      });
    }
  });
});
