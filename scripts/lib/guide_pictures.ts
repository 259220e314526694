// Makes the pictures of docs/guides again, all or those named, from what the guides' own commands make: `deno run -A
// scripts/lib/guide_pictures.ts [NAME]`, with HPCTRAIN_CHROMIUM, HPCTRAIN_EXE and HPCTRAIN_PYTHON set as for the tests.
import { join, toFileUrl } from "paths";
import { onPage } from "../../tests/integration/browser.ts";
import { blocksOf } from "../../tests/integration/docs_blocks.ts";
import { inTemp, ROOT, succeed } from "../../tests/integration/program.ts";
import { peer } from "../../tests/peer.ts";

interface Picture {
  readonly guide: string;
  /** The run or the data whose report is shown. */
  readonly report: string;
  /** The part of it that the picture begins with, by its id. */
  readonly part: string;
  readonly height: number;
}

const QUALITY = 85;

const PICTURES: Readonly<Record<string, Picture>> = {
  "guide-images": { guide: "your-images", report: "pets", part: "confusion", height: 200 },
  "guide-maps": { guide: "your-maps", report: "arctic", part: "maps", height: 610 },
  "guide-sea-ice": { guide: "sea-ice", report: "ice", part: "errors", height: 620 },
};

/** The blocks that are marked as run, one after the other. */
async function follow(guide: string, cwd: string, exe: string): Promise<void> {
  const env = { PATH: `${cwd}:${Deno.env.get("PATH")}` };
  Deno.symlinkSync(exe, join(cwd, "hpctrain"));
  Deno.symlinkSync(join(ROOT, "examples"), join(cwd, "examples"));
  for (
    const { mark, language, text } of blocksOf(Deno.readTextFileSync(join(ROOT, `docs/guides/${guide}.md`)))
  ) {
    if (mark !== "runs") continue;
    const command = language === "python"
      ? peer(["-c", text], { cwd, stdin: "null" })
      : new Deno.Command("bash", { args: ["-euc", text], cwd, env, stdin: "null" });
    const { success, stderr } = await command.output();
    if (!success) throw new Error(`${guide}: ${text}\n${new TextDecoder().decode(stderr)}`);
  }
}

for (const [name, { guide, report, part, height }] of Object.entries(PICTURES)) {
  if (Deno.args.length > 0 && !Deno.args.includes(name)) continue;
  await inTemp(async (cwd) => {
    await follow(guide, cwd, Deno.realPathSync(Deno.env.get("HPCTRAIN_EXE")!));
    await succeed(["report", report, "--out", "picture.html"], { cwd });
    await onPage(toFileUrl(join(cwd, "picture.html")).href, { width: 1000, height }, async (page) => {
      await page.evaluate(`document.getElementById("${part}").scrollIntoView()`);
      await page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))"); // what scrolling has changed is drawn
      const { data } = await page.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
      Deno.writeFileSync(join(ROOT, `docs/screenshots/${name}.webp`), Uint8Array.fromBase64(data));
    });
  });
}
