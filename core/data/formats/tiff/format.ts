import { arraysReader } from "../../tables/reader.ts";
import type { Format } from "../../format.ts";
import { isFolder } from "../../arrays/files.ts";
import { holds } from "../../arrays/paths.ts";
import { loadReader } from "../../source/reader.ts";
import { type Again, samplesOf } from "../netcdf/netcdf.ts";
import { ENDINGS, withTiff } from "./tiff.ts";

export const tiff: Format = {
  endings: ENDINGS,
  folder: { has: ".tif files", detect: (path) => isFolder(path) && holds(path, ENDINGS) },
  path: "the file, folder or files to read",
  many: true,
  selects: true,
  reader: () => loadReader({ module: arraysReader }),
  open(request) {
    const { data_path, sample_dim } = request.data;
    const again: Again = (use) => withTiff(data_path, use, sample_dim);
    return again((content) => samplesOf(content, request, again));
  },
  table: (path, use) => withTiff(path, use),
};
