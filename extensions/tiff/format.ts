import type { Format } from "../../core/data/format.ts";
import { holds } from "../../core/data/arrays/paths.ts";

export const ENDINGS = [".tif", ".tiff", ".gtiff", ".geotiff"];

export const tiff: Format = {
  endings: ENDINGS,
  folder: { has: ".tif files", detect: (path) => holds(path, ENDINGS) },
  path: "the file, folder or files to read",
  many: true,
  selects: true,
  isTable: true,
  load: () => import("./tiff.ts").then(({ reader }) => reader),
};
