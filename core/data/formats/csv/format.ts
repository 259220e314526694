import type { Format } from "../../format.ts";

export const csv: Format = {
  endings: [".csv", ".tsv", ".txt"],
  path: "the file or folder to read",
  isTable: true,
  load: () => import("./csv.ts").then(({ reader }) => reader),
};
