// The kinds of data. A new one is a folder with its Format, a line here, and a line about it in core/settings/formats.ts.
// `auto` looks at folders in this order.
import type { DataKind } from "../../settings/formats.ts";
import type { Format } from "../format.ts";
import { des, lpt } from "../cosmology/format.ts";
import { arrow } from "../formats/arrow/format.ts";
import { csv } from "../formats/csv/format.ts";
import { fits } from "../formats/fits/format.ts";
import { hdf5 } from "../formats/hdf5/format.ts";
import { imagepairs } from "../formats/imagepairs/format.ts";
import { imagefolder } from "../formats/images/format.ts";
import { mnist } from "../formats/mnist/format.ts";
import { netcdf } from "../formats/netcdf/format.ts";
import { npz } from "../formats/npz/format.ts";
import { packed } from "../formats/packed/format.ts";
import { tokens } from "../formats/tokens/format.ts";
import { parquet } from "../formats/parquet/format.ts";
import { tiff } from "../formats/tiff/format.ts";
import { webdataset } from "../formats/webdataset/format.ts";
import { zarr } from "../formats/zarr/format.ts";
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
