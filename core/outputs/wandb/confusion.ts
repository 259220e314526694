// W&B's chart of which classes are taken for which: a table of the run, and what draws it in the run's configuration, as
// wandb.plot.confusion_matrix has them.
import { createHash } from "node:crypto";
import { join } from "../../../deps/path.ts";
import type { ConfusionNote } from "../../run/events.ts";
import { write } from "./media.ts";
import { jsonOf } from "./records.ts";

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
