import type { Format } from "../../format.ts";
import { hasTables, openParquet, withParquet } from "./parquet.ts";

export const parquet: Format = {
  endings: [".parquet", ".pq"],
  folder: { has: ".parquet files", detect: hasTables },
  path: "the file or folder to read",
  open: openParquet,
  table: withParquet,
};
