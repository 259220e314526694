// Pictures that were made for W&B, for runs that keep no maps of their own.
import { type Html, markup } from "./html.ts";
import { basename, dirname, join } from "../../../deps/path.ts";
import { recordsIn } from "../wandb/resume.ts";
import type { HistoryItem } from "../wandb/records.ts";

/** These bounds keep the page small enough for a mail. */
const MOST = 24;
const MOST_BYTES = 600_000;

interface Sample {
  readonly caption: string;
  readonly png: Uint8Array;
}

export function samplesSection(folder: string): Html | null {
  const set = lastSet(folder);
  if (set === null || set.samples.length === 0) return null;
  return markup`<section id="samples"><h2>Samples</h2>
<p class="faint">Of the validation set, at step ${set.step}.</p>
<div class="samples">${
    set.samples.map(({ caption, png }) =>
      markup`<figure><img alt="${caption}" src="data:image/png;base64,${png.toBase64()}"><figcaption>${caption}</figcaption></figure>`
    )
  }</div></section>`;
}

function lastSet(folder: string): { step: number; samples: Sample[] } | null {
  try {
    const file = fileOf(folder), media = join(dirname(file), "files");
    // The file may be long, so it is read only where there are pictures.
    Deno.statSync(join(media, "media", "images"));
    let found: { step: number; filenames: string[]; captions: string[] } | null = null;
    for (const record of recordsIn(file)) {
      if (record.kind !== "history") continue;
      for (const { json } of record.items) {
        if (json.includes('"images/separated"')) found = { ...JSON.parse(json), step: stepOf(record) };
      }
    }
    return found && { step: found.step, samples: read(found, media) };
  } catch {
    return null; // never recorded, uploaded and removed, or incomplete
  }
}

const stepOf = ({ items, step }: { items: readonly HistoryItem[]; step?: number }): number =>
  Number(items.find(({ key }) => key.join(".") === "_step")?.json ?? step ?? 0);

/** In a moved run the folder lies beside it. */
function fileOf(folder: string): string {
  const { path } = JSON.parse(Deno.readTextFileSync(join(folder, "wandb.json"))) as { path: string };
  const beside = join(dirname(folder), "wandb", basename(dirname(path)), basename(path));
  try {
    Deno.statSync(path);
    return path;
  } catch {
    return beside;
  }
}

function read({ filenames, captions }: { filenames: string[]; captions: string[] }, media: string): Sample[] {
  let bytes = 0;
  return filenames.slice(0, MOST).flatMap((name, i): Sample[] => {
    // Names outside the run's own folder are refused.
    if (!/^media\/images\/[^/]+\.png$/.test(name)) return [];
    const png = Deno.readFileSync(join(media, name));
    bytes += png.length;
    return bytes > MOST_BYTES ? [] : [{ caption: String(captions?.[i] ?? ""), png }];
  });
}
