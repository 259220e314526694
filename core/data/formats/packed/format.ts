import type { Format } from "../../format.ts";
import { looksPacked } from "./index.ts";
import { loadPackedReader, openPacked } from "./packed.ts";
import { previewPacked } from "./preview.ts";

export const packed: Format = {
  endings: [],
  folder: { has: "index.json", detect: looksPacked },
  path: "the file or folder to read",
  namesTargets: true,
  reader: ({ data_path }) => loadPackedReader(data_path),
  open: openPacked,
  preview: previewPacked,
};
