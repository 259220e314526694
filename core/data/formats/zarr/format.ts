import type { Format } from "../../format.ts";
import { type Again, samplesOf } from "../netcdf/netcdf.ts";
import { ENDINGS, isStoreOrMany, loadZarr, withZarr } from "./zarr.ts";

export const zarr: Format = {
  endings: ENDINGS,
  folder: { has: "Zarr's metadata (zarr.json, .zgroup)", detect: isStoreOrMany },
  path: "the store or stores to read",
  many: true,
  selects: true,
  reader: loadZarr,
  open(request) {
    const { data_path, sample_dim } = request.data;
    const again: Again = (use) => withZarr(data_path, use, sample_dim);
    return again((content) => samplesOf(content, request, again));
  },
  table: (path, use) => withZarr(path, use),
};
