import { isFolder } from "../../../base/files.ts";
import type { Format } from "../../format.ts";
import { namesIn } from "../../arrays/files.ts";

export const ENDING = ".npy";
export const isArray = (name: string) => name.endsWith(ENDING);

export const hasArrays = (folder: string): boolean => namesIn(folder).some(isArray);

const looksLikeArrays = (path: string): boolean =>
  isFolder(path) && (hasArrays(path) || namesIn(path).some((name) => name.endsWith(".npz")));

export const npz: Format = {
  endings: [".npz", ".npy"],
  folder: { has: ".npy or .npz files", detect: looksLikeArrays },
  path: "the file, folder or files to read",
  many: true,
  isTable: true,
  load: () => import("./npz.ts").then(({ reader }) => reader),
};
