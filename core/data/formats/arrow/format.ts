import { arraysReader } from "../../tables/reader.ts";
import type { Format } from "../../format.ts";
import { isFolder } from "../../arrays/files.ts";
import { holds } from "../../arrays/paths.ts";
import { loadReader } from "../../source/reader.ts";
import { ENDINGS, openArrow, withArrow } from "./arrow.ts";

export const arrow: Format = {
  endings: ENDINGS,
  folder: { has: ".arrow or .feather files", detect: (path) => isFolder(path) && holds(path, ENDINGS) },
  path: "the file, folder or files to read",
  many: true,
  reader: () => loadReader({ module: arraysReader }),
  open: openArrow,
  table: withArrow,
};
