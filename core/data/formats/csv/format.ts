import type { Format } from "../../format.ts";
import { openCsv, withTable } from "./csv.ts";

export const csv: Format = {
  endings: [".csv", ".tsv", ".txt"],
  path: "the file or folder to read",
  open: openCsv,
  table: withTable,
};
