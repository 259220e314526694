// What the loader benchmark reads: the same files on both sides. May import nothing.

export interface DataSet {
  readonly title: string;
  /** What it is to PyTorch's side, and its file or folder there. */
  readonly kind: "mnist" | "imagefolder" | "hdf5" | "netcdf" | "npz";
  readonly file: string;
  /** What of it is read on our side, where that is not the same file: made from it by `hpctrain pack`. */
  readonly packed?: string;
  readonly flags: readonly string[];
  /** Variables of our side's environment. */
  readonly variables?: readonly string[];
  /** How many times PyTorch's speed is asked for. */
  readonly floor: number;
}

const MAPS = ["--features", "maps", "--targets", "parameters", "--normalise", "none", "--in-memory", "no"];
const chunked = (kind: "hdf5" | "netcdf", file: string, chunk: string): DataSet => ({
  title: `${
    kind === "hdf5" ? "HDF5" : "NetCDF-4"
  }, deflated, streamed: 3,000 maps of 4 x 64 x 64, ${chunk} a chunk`,
  kind,
  file,
  flags: ["--data-type", kind, ...MAPS],
  floor: 2,
});
const packed = (what: string, name: string): DataSet => ({
  title: `Packed from npz: ${what}`,
  kind: "npz",
  file: `${name}.npz`,
  packed: `${name}.packed`,
  flags: ["--data-type", "packed", "--normalise", "none"],
  floor: 5,
});

export const IMAGES = "imagefolder";
const jpegs = {
  title: "Folders of JPEGs: 5,000 images of 224 x 224",
  kind: "imagefolder",
  file: "images",
  flags: ["--data-type", "imagefolder", "--normalise", "imagenet"],
} as const;

// bench/peers/loader_data.py writes the files.
export const dataSets: Readonly<Record<string, DataSet>> = {
  mnist: {
    title: "MNIST in memory: 60,000 images of 28 x 28",
    kind: "mnist",
    file: "mnist",
    flags: ["--data-type", "mnist"],
    floor: 5,
  },
  [IMAGES]: { ...jpegs, title: `${jpegs.title}, with libturbojpeg`, floor: 2 },
  images_own: {
    ...jpegs,
    title: `${jpegs.title}, without it`,
    variables: ["HPCTRAIN_TURBOJPEG=none"],
    floor: 1.5,
  },
  hdf5: chunked("hdf5", "each.h5", "one"),
  hdf5_16: chunked("hdf5", "sixteen.h5", "sixteen"),
  netcdf: chunked("netcdf", "each.nc", "one"),
  netcdf_16: chunked("netcdf", "sixteen.nc", "sixteen"),
  packed_vectors: packed("200,000 samples of 32 features", "vectors"),
  packed_maps: packed("20,000 maps of 64 x 64", "maps"),
};

/** Settings that make our side read what PyTorch's reads: every sample, in batches of 64. */
export const COMMON = [
  ["--device", "cpu", "--batch-size", "64", "--validation-split", "0"],
  ["--train-samples", "1000000", "--val-samples", "0"],
].flat();
