// The kinds of data. A new one is a folder with its Format, a line here, and a line about it in core/settings/formats.ts;
// or an extension, whose Format says by itself what it is and loads the rest when it reads.
// `auto` looks at folders in this order.
import { EXTENSIONS, type Extensions } from "../extensions.ts";
import type { DataKind, OwnKind } from "../settings/formats.ts";
import type { Format } from "./format.ts";
import { arrow } from "./formats/arrow/format.ts";
import { csv } from "./formats/csv/format.ts";
import { fits } from "./formats/fits/format.ts";
import { hdf5 } from "./formats/hdf5/format.ts";
import { imagepairs } from "./formats/imagepairs/format.ts";
import { imagefolder } from "./formats/images/format.ts";
import { mnist } from "./formats/mnist/format.ts";
import { netcdf } from "./formats/netcdf/format.ts";
import { npz } from "./formats/npz/format.ts";
import { packed } from "./formats/packed/format.ts";
import { tokens } from "./formats/tokens/format.ts";
import { parquet } from "./formats/parquet/format.ts";
import { tiff } from "./formats/tiff/format.ts";
import { webdataset } from "./formats/webdataset/format.ts";
import { zarr } from "./formats/zarr/format.ts";
import { fields, synthetic } from "./synthetic/format.ts";

const LOADED: Extensions<{ readonly formats: Readonly<Record<string, Format>> }> = EXTENSIONS.formats;
const others: Readonly<Record<Exclude<DataKind, OwnKind>, Format>> = Object.assign(
  {},
  ...await Promise.all(Object.values(LOADED).map(async ({ load }) => (await load()).formats)),
);

export const FORMATS: Readonly<Record<DataKind, Format>> = {
  ...others,
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
};
