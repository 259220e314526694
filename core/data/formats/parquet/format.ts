import type { Format } from "../../format.ts";
import { holds } from "../../arrays/paths.ts";

export const ENDINGS = [".parquet", ".pq"];

export const parquet: Format = {
  endings: ENDINGS,
  folder: { has: ".parquet files", detect: (path) => holds(path, ENDINGS) },
  path: "the file, folder or files to read",
  many: true,
  isTable: true,
  load: () => import("./parquet.ts").then(({ parquet }) => parquet),
};
