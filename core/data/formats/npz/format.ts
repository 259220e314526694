import type { Format } from "../../format.ts";
import { arraysReader } from "../../columns/reader.ts";
import { loadReader } from "../../reading/reader.ts";
import { looksLikeArrays, openArrays, withArrays } from "./npz.ts";

export const npz: Format = {
  endings: [".npz", ".npy"],
  folder: { has: ".npy files", detect: looksLikeArrays },
  path: "the file or folder to read",
  reader: () => loadReader({ module: arraysReader }),
  open: openArrays,
  table: withArrays,
};
