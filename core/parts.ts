// The parts that a seam has, by name: those of core, and the extensions, which the rest of the program can do without. Each
// is a file or a folder and one line here, under its seam. It is loaded when somebody asks for it by its name, or where the
// seam needs to know all of them. Nothing else names it: without its files and its line (`./scripts/deletable NAME`) all
// others go on. An extension is a folder of extensions/ with its code, its page and its tests.

export interface Part<Module> {
  /** Help and lists of choices have it beside the name. */
  readonly about?: string;
  /** The seam says what it asks of the module. */
  load(): Promise<Module>;
}

export type Parts<Module> = Readonly<Record<string, Part<Module>>>;

// deno-fmt-ignore: one line each
export const PARTS = {
  /** `--track NAME`: core/outputs/tracked.ts. */
  outputs: {
    tensorboard: { about: "scalars, hyperparameters, histograms and pictures", load: () => import("./outputs/tensorboard/output.ts") },
    csv: { about: "a row for each logged step", load: () => import("./outputs/csv/output.ts") },
    mlflow: { about: "a store of runs as MLflow keeps it in files", load: () => import("../extensions/mlflow/output.ts") },
    prometheus: { about: "the newest numbers, for a node exporter", load: () => import("../extensions/prometheus/output.ts") },
  },
  /** `--model NAME`: core/models/registry.ts. */
  models: {
    mlp: { names: ["mlp"], load: () => import("./models/zoo/mlp.ts") },
    convnets: { names: ["simple-convnet", "cosmo-cnn"], load: () => import("./models/zoo/convnets.ts") },
    resnet: { names: ["resnet18", "resnet34", "resnet50", "resnet101"], load: () => import("./models/zoo/resnet.ts") },
    convnext: { names: ["convnext_tiny", "convnext_small", "convnext_base"], load: () => import("./models/zoo/convnext.ts") },
    unet: { names: ["unet"], load: () => import("./models/zoo/unet.ts") },
    convlstm: { names: ["convlstm"], load: () => import("./models/zoo/convlstm.ts") },
    fno: { names: ["fno"], load: () => import("./models/zoo/fno.ts") },
    gpt: { names: ["gpt"], load: () => import("./models/zoo/gpt.ts") },
    vit: { names: ["vit"], load: () => import("./models/zoo/vit.ts") },
  },
  /** `--compile`: core/train/compiler.ts. */
  compilers: {
    compile: { load: () => import("./train/compiled_part.ts") },
  },
  /** How ranks on GPUs communicate: core/ranks/engines.ts. */
  gpuEngines: {
    nccl: { load: () => import("./ranks/nccl/part.ts") },
  },
  /** How ranks on CPUs communicate where it has started them: core/ranks/engines.ts. */
  cpuEngines: {
    mpi: { load: () => import("./ranks/mpi/part.ts") },
  },
  /** Kinds of data (`--data-type`), in the order in which `auto` looks at folders: core/data/open/formats.ts. */
  formats: {
    packed: { kinds: { packed: "the shards that `hpctrain pack` and `hpctrain generate-data` write" }, load: () => import("./data/formats/packed/format.ts").then(({ packed }) => ({ packed })) },
    mnist: { kinds: { mnist: "MNIST and its relatives: the folder of their idx files, gzipped or not" }, load: () => import("./data/formats/mnist/format.ts").then(({ mnist }) => ({ mnist })) },
    tokens: { kinds: { tokens: "tokens to train a language model with: files of numbers, or a text" }, load: () => import("./data/formats/tokens/format.ts").then(({ tokens }) => ({ tokens })) },
    zarr: { kinds: { zarr: "arrays of a Zarr store of version 2 or 3: a folder, a zip file, or on a server" }, load: () => import("./data/formats/zarr/format.ts").then(({ zarr }) => ({ zarr })) },
    npz: { kinds: { npz: "numpy's arrays: an .npz archive, an .npy file, or a folder of .npy files" }, load: () => import("./data/formats/npz/format.ts").then(({ npz }) => ({ npz })) },
    csv: { kinds: { csv: "a table of text: csv, tsv, or columns between spaces" }, load: () => import("./data/formats/csv/format.ts").then(({ csv }) => ({ csv })) },
    parquet: { kinds: { parquet: "tables of Parquet: a file, or a folder of them" }, load: () => import("./data/formats/parquet/format.ts").then(({ parquet }) => ({ parquet })) },
    netcdf: { kinds: { netcdf: "variables of a NetCDF file, classic or NetCDF-4", hdf5: "datasets of an HDF5 file" }, load: () => import("./data/formats/netcdf/format.ts").then(({ netcdf, hdf5 }) => ({ netcdf, hdf5 })) },
    fits: { kinds: { fits: "images and binary tables of a FITS file" }, load: () => import("../extensions/fits/format.ts").then(({ fits }) => ({ fits })) },
    imagepairs: { kinds: { imagepairs: "images with a class for each pixel: a folder of images, and one of label images" }, load: () => import("../extensions/imagepairs/format.ts").then(({ imagepairs }) => ({ imagepairs })) },
    imagefolder: { kinds: { imagefolder: "JPEG, PNG and WebP images, one folder a class" }, load: () => import("./data/formats/imagefolder/format.ts").then(({ imagefolder }) => ({ imagefolder })) },
    tiff: { kinds: { tiff: "TIFF and GeoTIFF: pages as samples, or a folder with an image a file" }, load: () => import("../extensions/tiff/format.ts").then(({ tiff }) => ({ tiff })) },
    arrow: { kinds: { arrow: "tables of Arrow: Feather and IPC files or streams, or a folder of them" }, load: () => import("../extensions/arrow/format.ts").then(({ arrow }) => ({ arrow })) },
    webdataset: { kinds: { webdataset: "WebDataset: samples in tar files, images or arrays with classes or numbers" }, load: () => import("../extensions/webdataset/format.ts").then(({ webdataset }) => ({ webdataset })) },
    synthetic: { kinds: { synthetic: "made up for the model, so that anything trains without a file" }, load: () => import("./data/synthetic/format.ts").then(({ synthetic }) => ({ synthetic })) },
    fields: { kinds: { fields: "Gaussian random fields made from two parameters, which the model infers" }, load: () => import("./data/synthetic/format.ts").then(({ fields }) => ({ fields })) },
    universes: { kinds: { "2lpt": "simulated boxes of the universe, generated or read from where they were generated", des: "simulated maps of a galaxy survey, generated or read from where they were generated" }, load: () => import("../extensions/universes/format.ts").then(({ formats }) => formats) },
  },
  /** `pack --train-tokenizer N`: core/data/text/pack.ts. */
  vocabularies: {
    bpe: { about: "byte-pair encoding", load: () => import("../extensions/bpe/learn.ts") },
  },
  /** `export CHECKPOINT OUT.NAME`: core/export/programs.ts. */
  programs: {
    onnx: { about: "for onnxruntime and others", load: () => import("../extensions/onnx/program.ts") },
  },
  /** `sweep --search NAME`: core/cluster/sweep/search.ts. */
  searches: {
    tpe: { about: "learns from earlier runs", load: () => import("../extensions/tpe/search.ts") },
    asha: { about: "stops losers early", load: () => import("../extensions/asha/search.ts") },
  },
  /** A search tells each of them of its runs: core/cluster/sweep/journals.ts. */
  journals: {
    optuna: { about: "a search as a study of Optuna's", load: () => import("../extensions/optuna/journal.ts") },
  },
  /** `sbatch`, `qsub`, and job arrays of a sweep: core/cluster/script/scheduler.ts. */
  schedulers: {
    slurm: { load: () => import("./cluster/script/slurm.ts") },
    pbs: { load: () => import("./cluster/script/pbs.ts") },
  },
  /** The page of a sweep has each of them: core/cluster/sweep/page.ts. */
  charts: {
    coordinates: { about: "all runs as lines over their settings", load: () => import("../extensions/coordinates/chart.ts") },
  },
};

export const hasPart = (name: string): boolean =>
  Object.values(PARTS).some((seam) => Object.hasOwn(seam, name));
