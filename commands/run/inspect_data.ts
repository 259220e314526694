// `hpctrain inspect` of a data set.
import { printColoured } from "../../core/base/terminal.ts";
import { checkPngName, inkOf, terminalLines, writeSheet } from "../../core/data/preview/show.ts";
import { summarise, summaryLines } from "../../core/data/preview/summary.ts";
import { withPreview } from "../../core/data/open/preview.ts";
import type { Pictures, Preview } from "../../core/data/preview/preview.ts";
import { looksPacked, verifyShards } from "../../core/data/formats/packed/index.ts";
import { UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";

interface DataOptions {
  readonly type: string;
  readonly json: boolean;
  readonly verify: boolean;
  readonly sample: string | undefined;
  readonly png: string | undefined;
}

export async function inspectData(
  path: string,
  { type, json, verify, sample, png }: DataOptions,
): Promise<void> {
  if (png !== undefined) checkPngName(png);
  const packed = looksPacked(path);
  if (verify && !packed) {
    throw new UserError(
      "usage",
      `--verify compares the checksums of checkpoints and of packed shards, and ${path} is neither: leave it out.`,
    );
  }
  const verdict = verify ? verifyShards(path, json) : null;
  await withPreview(path, type, (preview) => {
    const chosen = sample === undefined ? null : sampleNumber(sample, preview);
    const { pictures } = preview;
    if (png !== undefined && !pictures) {
      throw new UserError("usage", `${path} has no images or maps to draw: leave --png out.`);
    }
    const summary = summarise(preview, chosen);
    if (json) console.log(JSON.stringify(packed ? { ...summary, verified: verify } : summary, null, 2));
    else {
      for (const line of summaryLines(summary)) console.log(line);
      if (pictures) show(pictures, chosen);
      if (verdict) console.log(verdict);
    }
    if (png === undefined) return;
    const count = writeSheet(png, pictures!, chosen);
    if (!json) console.log(`Wrote ${formatPlural(count, "sample")} to ${png}`);
  });
}

function show(pictures: Pictures, chosen: number | null): void {
  const isTerminal = Deno.stdout.isTerminal();
  const ink = inkOf(isTerminal, (name) => Deno.env.get(name));
  const columns = isTerminal ? Deno.consoleSize().columns || 80 : 80;
  for (const line of terminalLines(pictures, chosen, columns, ink)) printColoured(line);
}

function sampleNumber(text: string, { path, samples, pictures, fields }: Preview): number {
  const count = samples ?? pictures?.count ?? Math.max(0, ...fields.map(({ shape }) => shape[0] ?? 1));
  const number = /^\d+$/.test(text) ? Number(text) : NaN;
  if (number < count) return number;
  throw new UserError(
    "usage",
    `--sample is ${text}, and ${path} has ${formatPlural(count, "sample")}, counted from 0: ` +
      `name one from 0 to ${count - 1}.`,
  );
}
