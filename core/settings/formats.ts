// Lists the kinds of data by the names that users write. core/data/formats.ts opens each: the type checker
// refuses a name that only one of the two has.

import { EXTENSIONS } from "../extensions.ts";

const OWN = {
  synthetic: "made up for the model, so that anything trains without a file",
  mnist: "MNIST and its relatives: the folder of their idx files, gzipped or not",
  fields: "Gaussian random fields made from two parameters, which the model infers",
  npz: "numpy's arrays: an .npz archive, an .npy file, or a folder of .npy files",
  csv: "a table of text: csv, tsv, or columns between spaces",
  parquet: "tables of Parquet: a file, or a folder of them",
  arrow: "tables of Arrow: Feather and IPC files or streams, or a folder of them",
  netcdf: "variables of a NetCDF file, classic or NetCDF-4",
  hdf5: "datasets of an HDF5 file",
  fits: "images and binary tables of a FITS file",
  tiff: "TIFF and GeoTIFF: pages as samples, or a folder with an image a file",
  zarr: "arrays of a Zarr store of version 2 or 3: a folder, a zip file, or on a server",
  tokens: "tokens to train a language model with: files of numbers, or a text",
  packed: "the shards that `hpctrain pack` and `hpctrain generate-data` write",
  imagepairs: "images with a class for each pixel: a folder of images, and one of label images",
  imagefolder: "JPEG, PNG and WebP images, one folder a class",
  webdataset: "WebDataset: samples in tar files, images or arrays with classes or numbers",
} as const;

type Kinds<E> = E extends { readonly kinds: infer K } ? keyof K : never;
type Seam = typeof EXTENSIONS.formats;
export type OwnKind = keyof typeof OWN;
export type DataKind = OwnKind | Kinds<Seam[keyof Seam]>;

export const DATA_KINDS = Object.assign(
  {},
  OWN,
  ...Object.values(EXTENSIONS.formats).map(({ kinds }) => kinds),
) as Readonly<Record<DataKind, string>>;

export const DATA_KIND_NAMES = Object.keys(DATA_KINDS) as DataKind[];
