import type { Format } from "../../format.ts";
import { loadReader } from "../../source/reader.ts";
import { previewPairs } from "./preview.ts";
import { looksLikePairs, openPairs, PAIRS_READER } from "./pairs.ts";

export const imagepairs: Format = {
  endings: [],
  folder: { has: "folders images and labels", detect: looksLikePairs },
  path: "the folder with images and labels",
  reader: async () => {
    await import("./reader.ts"); // named here, so that it is in the executable
    await loadReader({ module: PAIRS_READER });
  },
  open: openPairs,
  preview: previewPairs,
};
