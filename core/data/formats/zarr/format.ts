import type { Format } from "../../format.ts";
import { samplesOf } from "../netcdf/netcdf.ts";
import { ENDINGS, isStoreOrMany, loadZarr, withZarr } from "./zarr.ts";

export const zarr: Format = {
  endings: ENDINGS,
  folder: { has: "Zarr's metadata (zarr.json, .zgroup)", detect: isStoreOrMany },
  path: "the store or stores to read",
  many: true,
  selects: true,
  reader: loadZarr,
  open(request) {
    const { data_path } = request.data;
    return withZarr(data_path, (content) => samplesOf(content, request, (use) => withZarr(data_path, use)));
  },
  table: withZarr,
};
