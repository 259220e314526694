import { arraysReader } from "../../tables/reader.ts";
import type { Format } from "../../format.ts";
import { loadReader } from "../../source/reader.ts";
import { openFits, withFits } from "./fits.ts";

export const fits: Format = {
  endings: [".fits", ".fit", ".fts"],
  path: "the file to read",
  reader: () => loadReader({ module: arraysReader }),
  open: openFits,
  table: withFits,
};
