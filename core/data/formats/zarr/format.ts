import { isFile, isFolder } from "../../../base/files.ts";
import type { Format } from "../../format.ts";
import { holds } from "../../arrays/paths.ts";

export const ZARR_ENDINGS = [".zarr", ".zarr.zip"];
/** A store has one of them at its root. */
export const ROOTS = ["zarr.json", ".zgroup", ".zarray", ".zmetadata"];

export const isStoreFolder = (path: string): boolean => ROOTS.some((name) => isFile(`${path}/${name}`));

export const zarr: Format = {
  endings: ZARR_ENDINGS,
  onServer: "Zarr",
  folder: {
    has: "Zarr's metadata (zarr.json, .zgroup)",
    detect: (path) => isFolder(path) && (isStoreFolder(path) || holds(path, ZARR_ENDINGS)),
  },
  path: "the store or stores to read",
  many: true,
  selects: true,
  isTable: true,
  load: () => import("./zarr.ts").then(({ reader }) => reader),
};
