import type { Format } from "../../format.ts";
import { holds } from "../../arrays/paths.ts";

export type Kind = "netcdf" | "hdf5";

export const NETCDF_ENDINGS: Readonly<Record<Kind, readonly string[]>> = {
  netcdf: [".nc", ".nc4", ".cdf"],
  hdf5: [".h5", ".hdf5"],
};

const formatOf = (kind: Kind): Format => ({
  endings: NETCDF_ENDINGS[kind],
  folder: { has: `${NETCDF_ENDINGS[kind][0]} files`, detect: (path) => holds(path, NETCDF_ENDINGS[kind]) },
  path: "the file, folder or files to read",
  many: true,
  selects: true,
  isTable: true,
  load: async () => (await import("./netcdf.ts")).netcdfReaders[kind],
});

export const netcdf = formatOf("netcdf"), hdf5 = formatOf("hdf5");
