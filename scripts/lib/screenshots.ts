// Makes docs/screenshots/report-*.webp again, of runs that it trains (two minutes): `deno run -A
// scripts/lib/screenshots.ts [FOLDER [KIND ...]]`, with HPCTRAIN_CHROMIUM, HPCTRAIN_PYTHON and HPCTRAIN_LIBTORCH set as for the
// tests. FOLDER gets every kind at both widths, light and dark, to look at before a change of the page lands.
import { join, toFileUrl } from "paths";
import { python } from "../../tests/core/checkpoint/python.ts";
import { inBrowser, type Size } from "../../tests/integration/browser.ts";
import { inTemp, ROOT, run, succeed } from "../../tests/integration/program.ts";
import { MAKE_DATA } from "./screenshot_data.ts";

const CPU = ["--device", "cpu", "--threads", "1", "--log-interval", "1"];
const RUNS: Readonly<Record<string, string>> = {
  fields: "--preset quickstart --train-samples 640 --val-samples 120 --batch-size 32 --epochs 6",
  shapes:
    "--data-path shapes --model simple-convnet --resize 32 --centre-crop 32 --batch-size 16 --epochs 12 --lr 3e-3",
  guides:
    "--model gpt --data-path story.bin --token-type uint8 --layers 2 --embed 64 --heads 4 --context 64 --batch-size 16 " +
    "--lr 3e-3 --epochs 8",
  arctic:
    "--data-path arctic.nc --features thickness,wind --targets thickness --history 2 --lead 1..3 --model unet " +
    "--depth 2 --width 8 --padding longitude --normalise measured --mask-channel --split time --batch-size 8 --lr 3e-3 " +
    "--epochs 25",
  short: "--preset debug --max-steps 5",
  broken: "--preset debug --optimizer sgd --lr 300 --scheduler constant",
  "lr-1e-3": "--preset debug --lr 1e-3 --epochs 6",
  "lr-1e-2": "--preset debug --lr 1e-2 --epochs 3",
};

/** The reports, and how high their pictures are on a desk. */
const REPORTS: Readonly<Record<string, readonly [runs: readonly string[], height: number]>> = {
  run: [["fields"], 1180],
  images: [["shapes"], 1560],
  text: [["guides"], 1060],
  maps: [["arctic"], 1240],
  short: [["short"], 780],
  failed: [["broken"], 860],
  compared: [["lr-1e-3", "lr-1e-2"], 1140],
};
const SIZES = {
  light: { width: 1400, height: 0 },
  dark: { width: 1400, height: 0, dark: true },
  phone: { width: 390, height: 844, mobile: true },
  "phone-dark": { width: 390, height: 844, mobile: true, dark: true },
} satisfies Record<string, Size>;
/** These are kept. */
const KEPT = Object.keys(REPORTS).flatMap((name) => [`${name}-light`, `${name}-phone-dark`])
  .concat("maps-dark", "maps-phone", "compared-dark", "failed-dark");
const QUALITY = 70;

await inTemp(async (cwd) => {
  const [all, ...kinds] = Deno.args;
  const wanted = Object.entries(REPORTS).filter(([kind]) => kinds.length === 0 || kinds.includes(kind));
  const needed = wanted.flatMap(([, [runs]]) => runs);
  if (all) Deno.mkdirSync(all, { recursive: true });
  python(MAKE_DATA, cwd, ROOT);
  for (const name of needed) {
    const flags = RUNS[name];
    const { code, stderr } = await run([...flags.split(" "), ...CPU, "--run-name", name], { cwd });
    if (code !== 0 && name !== "broken") throw new Error(stderr);
  }
  await inBrowser(async (open) => {
    for (const [report, [runs, high]] of wanted) {
      await succeed(["report", ...runs, "--out", "report.html"], { cwd });
      for (const [look, size] of Object.entries(SIZES)) {
        const name = `${report}-${look}`, kept = KEPT.includes(name);
        if (!kept && !all) continue;
        const address = toFileUrl(join(cwd, "report.html")).href;
        await open(address, { ...size, height: size.height || high }, async ({ evaluate, send }) => {
          await evaluate("new Promise((resolve) => setTimeout(resolve, 300))"); // canvases are drawn
          const { data } = await send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
          const picture = Uint8Array.fromBase64(data);
          if (kept) Deno.writeFileSync(join(ROOT, `docs/screenshots/report-${name}.webp`), picture);
          if (all) Deno.writeFileSync(join(all, `${name}.webp`), picture);
        });
      }
    }
  });
});
