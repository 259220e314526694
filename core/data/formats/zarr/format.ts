import type { Format } from "../../format.ts";
import { samplesOf } from "../netcdf/netcdf.ts";
import { isStore } from "./store.ts";
import { loadZarr, withZarr } from "./zarr.ts";

export const zarr: Format = {
  endings: [".zarr"],
  folder: { has: "Zarr's metadata (zarr.json, .zgroup)", detect: isStore },
  path: "the store to read",
  selects: true,
  reader: loadZarr,
  open(request) {
    const { data_path } = request.data;
    return withZarr(data_path, (content) => samplesOf(content, request, (use) => withZarr(data_path, use)));
  },
  table: withZarr,
};
