import type { Format } from "../../format.ts";
import { holds } from "../../arrays/paths.ts";

export const PARQUET_ENDINGS = [".parquet", ".pq"];

export const parquet: Format = {
  endings: PARQUET_ENDINGS,
  folder: { has: ".parquet files", detect: (path) => holds(path, PARQUET_ENDINGS) },
  path: "the file, folder or files to read",
  many: true,
  isTable: true,
  load: () => import("./parquet.ts").then(({ reader }) => reader),
};
