import { isFile, isFolder } from "../../../base/files.ts";
import type { Format } from "../../format.ts";
import { holds } from "../../arrays/paths.ts";

export const ENDINGS = [".zarr", ".zarr.zip"];
/** A store has one of them at its root. */
export const ROOTS = ["zarr.json", ".zgroup", ".zarray", ".zmetadata"];

export const isStoreFolder = (path: string): boolean => ROOTS.some((name) => isFile(`${path}/${name}`));

export const zarr: Format = {
  endings: ENDINGS,
  onServer: "Zarr",
  folder: {
    has: "Zarr's metadata (zarr.json, .zgroup)",
    detect: (path) => isFolder(path) && (isStoreFolder(path) || holds(path, ENDINGS)),
  },
  path: "the store or stores to read",
  many: true,
  selects: true,
  isTable: true,
  load: () => import("./zarr.ts").then(({ zarr }) => zarr),
};
