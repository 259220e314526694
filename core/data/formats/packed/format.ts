import { looksPacked } from "../../shards/index.ts";
import type { Format } from "../../format.ts";

export const packed: Format = {
  endings: [],
  folder: { has: "index.json", detect: looksPacked },
  path: "the file or folder to read",
  namesTargets: true,
  load: () => import("./packed.ts").then(({ reader }) => reader),
};
