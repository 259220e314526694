import type { Format } from "../../format.ts";
import { arraysReader } from "../../tables/reader.ts";
import { loadReader } from "../../source/reader.ts";
import { looksLikeArrays, openArrays, withArrays } from "./npz.ts";

export const npz: Format = {
  endings: [".npz", ".npy"],
  folder: { has: ".npy or .npz files", detect: looksLikeArrays },
  path: "the file, folder or files to read",
  many: true,
  reader: () => loadReader({ module: arraysReader }),
  open: openArrays,
  table: withArrays,
};
