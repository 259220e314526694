import { isProse } from "../../text/prose.ts";
import type { Format } from "../../format.ts";
import { openCsv, withTable } from "./csv.ts";

export const csv: Format = {
  endings: [".csv", ".tsv", ".txt"],
  rather: (path) => isProse(path) ? "tokens" : null,
  path: "the file or folder to read",
  open: openCsv,
  table: withTable,
};

export const formats = { csv };
