// Settings of the data section.
import { bool, choice, float, int, list, path } from "./kinds.ts";

export const data = {
  type: choice(["auto", "synthetic", "mnist", "fields", "npz", "csv", "netcdf", "hdf5", "tokens"], "auto", {
    flag: "data-type",
    common: true,
    aliases: ["data"],
    help: "kind of data; auto looks at the data path, and is synthetic without one",
  }),
  data_path: path("", {
    flag: "data-path",
    common: true,
    aliases: ["data.path"],
    empty: "none",
    help: "file or folder the data is read from",
  }),
  features: list({
    flag: "features",
    empty: "all but the targets",
    help: "columns or variables the model sees",
  }),
  targets: list({ flag: "targets", empty: "the last one", help: "columns or variables the model predicts" }),
  shuffle: bool(true, { flag: "shuffle", help: "a new order of the training samples each epoch" }),
  validation_split: float(0.1, {
    min: 0,
    max: 1,
    below: true,
    flag: "validation-split",
    common: true,
    help: "share held out for validation, where the data has no validation set of its own",
  }),
  num_workers: int(8, {
    min: 0,
    max: 1024,
    flag: "num-workers",
    common: true,
    help: "threads that load data (never more than there are cores); 0 loads in the training thread",
  }),
  train_samples: int(100_000, {
    min: 1,
    max: 1e12,
    flag: "train-samples",
    common: true,
    help: "training samples to make, or the most to use of a data set",
  }),
  val_samples: int(10_000, {
    min: 0,
    max: 1e12,
    flag: "val-samples",
    common: true,
    help: "validation samples to make, or the most to use of a data set",
  }),
  stage: path("", {
    flag: "stage",
    empty: "off",
    help: "node-local folder to copy the data to before training",
  }),
  bad_samples: choice(["fail", "skip"], "fail", {
    flag: "bad-samples",
    help: "what a sample that cannot be read or is not finite does: end the run, or be left out",
  }),
};
