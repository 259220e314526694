// The kinds of data. A new one is a folder with its Format, a line here, and a line about it in core/settings/formats.ts.
// `auto` looks at folders in this order.
import type { DataKind } from "../../settings/formats.ts";
import type { Format } from "../format.ts";
import { des, lpt } from "../cosmology/format.ts";
import { arrow } from "../formats/arrow/arrow.ts";
import { csv } from "../formats/csv/csv.ts";
import { fits } from "../formats/fits/fits.ts";
import { hdf5, netcdf } from "../formats/netcdf/netcdf.ts";
import { imagepairs } from "../formats/imagepairs/imagepairs.ts";
import { imagefolder } from "../formats/images/imagefolder.ts";
import { mnist } from "../formats/mnist/mnist.ts";
import { npz } from "../formats/npz/npz.ts";
import { packed } from "../formats/packed/packed.ts";
import { tokens } from "../formats/tokens/tokens.ts";
import { parquet } from "../formats/parquet/parquet.ts";
import { tiff } from "../formats/tiff/tiff.ts";
import { webdataset } from "../formats/webdataset/webdataset.ts";
import { zarr } from "../formats/zarr/zarr.ts";
import { fields, synthetic } from "../synthetic/format.ts";

export const FORMATS: Readonly<Record<DataKind, Format>> = {
  packed,
  mnist,
  tokens,
  zarr,
  npz,
  csv,
  parquet,
  netcdf,
  hdf5,
  fits,
  imagepairs,
  imagefolder,
  tiff,
  arrow,
  webdataset,
  synthetic,
  fields,
  "2lpt": lpt,
  des,
};
