import type { Format } from "../../core/data/format.ts";

export const fits: Format = {
  endings: [".fits", ".fit", ".fts"],
  path: "the file to read",
  isTable: true,
  load: () => import("./fits.ts").then(({ reader }) => reader),
};
