import type { Format } from "../../core/data/format.ts";
import { holds } from "../../core/data/arrays/paths.ts";

export const ENDINGS = [".tar"];

export const webdataset: Format = {
  endings: ENDINGS,
  folder: { has: ".tar files of WebDataset", detect: (path) => holds(path, ENDINGS) },
  path: "the shard, folder or shards to read",
  many: true,
  isTable: true,
  load: () => import("./webdataset.ts").then(({ reader }) => reader),
};
