import { createHash } from "node:crypto";
import { Buffer } from "node:buffer";
import { dirname, join, resolve } from "../../../deps/path.ts";
import { jsonOf, type WandbSetup } from "./records.ts";
import type { ConfusionNote, PicturesNote } from "../../run/events.ts";

export function writePictures(
  folder: string,
  { name, step, pictures }: PicturesNote,
): { files: string[]; json: string } {
  const files = pictures.map(({ png }) => {
    const bytes = Buffer.from(png, "base64");
    const sum = createHash("sha256").update(bytes).digest("hex").slice(0, 20);
    const file = `media/images/${name}_${step}_${sum}.png`;
    write(join(folder, file), bytes);
    return file;
  });
  const { width, height } = pictures[0];
  const json = jsonOf({
    _type: "images/separated",
    width,
    height,
    format: "png",
    count: files.length,
    filenames: files,
    captions: pictures.map(({ caption }) => caption),
  });
  return { files, json };
}

/** A link takes no space; a replaced file needs a new one. Returns null where there is no such file. */
export function link(folder: string, { name, source }: WandbSetup["files"][number]): string | null {
  const path = join(folder, name);
  try {
    if (!Deno.statSync(source).isFile) return null;
    Deno.mkdirSync(dirname(path), { recursive: true });
    remove(path);
    try {
      Deno.linkSync(source, path);
    } catch {
      Deno.symlinkSync(resolve(source), path); // another disk
    }
    return name;
  } catch {
    return null;
  }
}

export const METADATA = "wandb-metadata.json";

/** A file replaces the record for these facts, at which programs of 2024 stop. */
export function writeMetadata(folder: string, environment: WandbSetup["environment"]): void {
  write(join(folder, METADATA), new TextEncoder().encode(JSON.stringify(environment, null, 2)));
}

export function write(path: string, bytes: Uint8Array): void {
  Deno.mkdirSync(dirname(path), { recursive: true });
  Deno.writeFileSync(path, bytes);
}

function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch { /* it was not there */ }
}

// W&B's chart of which classes are taken for which: a table of the run, and what draws it in the run's configuration, as
// wandb.plot.confusion_matrix has them.

const NAME = "confusion_matrix", TABLE = `${NAME}_table`;
const COLUMNS = ["Actual", "Predicted", "nPredictions"];

/** Stands under "_wandb" in the run's configuration: the chart reads the table in the run's summary. */
export const CONFUSION = {
  visualize: {
    [NAME]: {
      panel_type: "Vega2",
      panel_config: {
        panelDefId: "wandb/confusion_matrix/v1",
        fieldSettings: Object.fromEntries(COLUMNS.map((name) => [name, name])),
        stringSettings: { title: "Validation: which classes are taken for which" },
        transform: { name: "tableWithLeafColNames" },
        userQuery: {
          queryFields: [{
            name: "runSets",
            args: [{ name: "runSets", value: "${runSets}" }],
            fields: [
              { name: "id", fields: [] },
              { name: "name", fields: [] },
              { name: "_defaultColorIndex", fields: [] },
              { name: "summaryTable", args: [{ name: "tableKey", value: TABLE }], fields: [] },
            ],
          }],
        },
      },
    },
  },
};

/** The file below `folder`, and the value of the row that names it. */
export function writeConfusion(
  folder: string,
  { step, classes, counts }: ConfusionNote,
): { file: string; name: string; json: string } {
  const data = classes.flatMap((actual, i) =>
    classes.map((predicted, k) => [actual, predicted, counts[i][k]])
  );
  const bytes = new TextEncoder().encode(jsonOf({ columns: COLUMNS, data }));
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const file = `media/table/${TABLE}_${step}_${sha256.slice(0, 20)}.table.json`;
  write(join(folder, file), bytes);
  const size = bytes.length, nrows = data.length, ncols = COLUMNS.length;
  return { file, name: TABLE, json: jsonOf({ _type: "table-file", sha256, size, path: file, ncols, nrows }) };
}
