import type { Format } from "../../format.ts";
import { ENDINGS, hasTables, openParquet, withParquet } from "./parquet.ts";

export const parquet: Format = {
  endings: ENDINGS,
  folder: { has: ".parquet files", detect: hasTables },
  path: "the file, folder or files to read",
  many: true,
  open: openParquet,
  table: withParquet,
};
