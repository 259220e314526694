// Makes the pictures of the page of all runs in docs/screenshots anew, of made-up runs: `deno run -A
// scripts/lib/screenshots_of_runs.ts`, with HPCTRAIN_CHROMIUM naming a browser.
import { join, toFileUrl } from "paths";
import { type MadeRun, makeRun } from "../../tests/core/run/made_run.ts";
import { onPage, type Size } from "../../tests/integration/browser.ts";
import { inTemp, ROOT, succeed } from "../../tests/integration/program.ts";

const OUT = join(ROOT, "docs/screenshots");
const DESK: Size = { width: 1400, height: 860 }, PHONE: Size = { width: 390, height: 844, mobile: true };

const HOUR = 3600, now = Date.now() / 1000;

/** By the factor that the losses of a made-up run are multiplied with. */
const RUNS: readonly (readonly [number, MadeRun])[] = [
  [0.92, {
    name: "unet-wide",
    model: "unet",
    learningRate: 3e-4,
    exit: null,
    begun: now - 600 + 15,
    stepSeconds: 0.145,
  }],
  [0.71, { name: "unet-cosine", model: "unet", learningRate: 1e-3, begun: now - 5 * HOUR, stepSeconds: 3 }],
  [0.83, {
    name: "unet-step",
    model: "unet",
    learningRate: 1e-3,
    begun: now - 9 * HOUR,
    stepSeconds: 3,
    attempts: 3,
  }],
  [1.35, {
    name: "unet-hot",
    model: "unet",
    learningRate: 3e-2,
    exit: 6,
    steps: 800,
    begun: now - 10 * HOUR,
  }],
  [0.95, { name: "fno-16", model: "fno", learningRate: 1e-3, begun: now - 30 * HOUR, stepSeconds: 9 }],
  [0.88, { name: "fno-32", model: "fno", learningRate: 1e-3, begun: now - 40 * HOUR, exit: 75, steps: 2400 }],
  [1.02, { name: "mlp", model: "mlp", learningRate: 1e-2, begun: now - 70 * HOUR, stepSeconds: 0.2 }],
  [1.2, {
    name: "mlp-lost",
    model: "mlp",
    exit: null,
    begun: now - 80 * HOUR,
    host: Deno.hostname(),
    pid: 2 ** 22 + 7,
  }],
];

const change = (path: string, by: (text: string) => string) =>
  Deno.writeTextFileSync(path, by(Deno.readTextFileSync(path)));

await inTemp(async (cwd) => {
  for (const [factor, made] of RUNS) {
    const path = join(makeRun(cwd, { steps: 4000, ...made }), "events.jsonl");
    const unfinished = made.exit !== undefined && made.exit !== 0;
    change(
      path,
      (text) =>
        text.replace(/"val_loss":([\d.]+)/g, (_, loss) => `"val_loss":${Number(loss) * factor}`)
          .replace(/"accuracy":([\d.]+)/g, (_, share) => `"accuracy":${1 - (1 - Number(share)) * factor}`)
          .replace(/"perplexity":[\d.]+,/g, "")
          .replace('"epochs":10', unfinished ? '"epochs":25' : "$&")
          .replace('"code":75', '"code":75,"requeues":true')
          .replace(
            '"message":"Stopped on request"',
            made.exit === 6 ? '"message":"The loss is nan at step 800"' : "$&",
          ),
    );
  }
  Deno.mkdirSync(join(cwd, "logs/half"));
  for (const name of ["unet-cosine", "unet-step", "fno-16"]) await succeed(["report", name], { cwd });
  await succeed(["runs", "--html", "runs.html"], { cwd });
  const shoot = (name: string, size: Size) =>
    onPage(toFileUrl(join(cwd, "runs.html")).href, size, async ({ screenshot }) => {
      Deno.writeFileSync(join(OUT, name), await screenshot());
    });
  await shoot("runs.png", DESK);
  await shoot("runs-dark.png", { ...DESK, dark: true });
  await shoot("runs-phone.png", PHONE);
  await shoot("runs-phone-dark.png", { ...PHONE, dark: true });
});
