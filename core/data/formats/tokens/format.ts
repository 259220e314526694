import { isFolder } from "../../../base/files.ts";
import { join } from "../../../../deps/path.ts";
import type { Format } from "../../format.ts";
import { namesIn } from "../../arrays/files.ts";
import { isProse } from "../../text/prose.ts";

const NAMES = { train: /(^|_)train\w*\.bin$/, val: /(^|_)val\w*\.bin$/ };

export function tokenFilesIn(folder: string): { train: string[]; val: string[] } {
  const names = namesIn(folder);
  const matching = (name: RegExp) =>
    names.filter((found) => name.test(found)).map((found) => join(folder, found));
  return { train: matching(NAMES.train), val: matching(NAMES.val) };
}

export const tokens: Format = {
  endings: [".bin"],
  claims: isProse,
  folder: { has: "train.bin", detect: (path) => isFolder(path) && tokenFilesIn(path).train.length > 0 },
  path: "the file or folder to read",
  load: () => import("./tokens.ts").then(({ reader }) => reader),
};
