import type { Format } from "../../core/data/format.ts";
import { holds } from "../../core/data/arrays/paths.ts";

export const ENDINGS = [".arrow", ".feather", ".ipc", ".arrows"];

export const arrow: Format = {
  endings: ENDINGS,
  folder: { has: ".arrow or .feather files", detect: (path) => holds(path, ENDINGS) },
  path: "the file, folder or files to read",
  many: true,
  isTable: true,
  load: () => import("./arrow.ts").then(({ reader }) => reader),
};
