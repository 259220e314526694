// Lists the kinds of data by the names that users write. core/data/open/formats.ts opens each: the type checker
// refuses a name that only one of the two has.

export const DATA_KINDS = {
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
  "2lpt": "simulated boxes of the universe, generated or read from where they were generated",
  des: "simulated maps of a galaxy survey, generated or read from where they were generated",
} as const;

export type DataKind = keyof typeof DATA_KINDS;

export const DATA_KIND_NAMES = Object.keys(DATA_KINDS) as DataKind[];
