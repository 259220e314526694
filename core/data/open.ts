// data.type -> the sources to train and validate with.
import type { Config } from "../settings/settings.ts";
import { didYouMean } from "../base/suggest.ts";
import { isSimulated } from "./cosmology/options.ts";
import { UserError } from "../base/errors.ts";
import { formatPlural } from "../base/format.ts";
import { csv } from "./formats/csv/csv.ts";
import { imagefolder, looksLikeImages } from "./formats/images/imagefolder.ts";
import { generated } from "./cosmology/source.ts";
import { looksLikeMnist, mnist } from "./formats/mnist/mnist.ts";
import { loadReader as loadHdf5Reader, netcdf } from "./formats/netcdf/netcdf.ts";
import { looksLikeArrays, npz } from "./formats/npz/npz.ts";
import { looksPacked } from "./formats/packed/index.ts";
import { packed, readersOf } from "./formats/packed/packed.ts";
import { stage } from "./formats/packed/stage.ts";
import { order, orderHash } from "./order.ts";
import { loadKind } from "./reading/reader.ts";
import type { Source } from "./source.ts";
import { synthetic } from "./synthetic/synthetic.ts";
import { checkCount, type Spec } from "./synthetic/draw.ts";
import { fields } from "./synthetic/fields.ts";
import { looksLikeTokens, tokens } from "./formats/tokens/tokens.ts";
import { transformed } from "./transforms/apply.ts";
import type { Normalisation } from "./transforms/values.ts";
import { userData } from "./user/data.ts";
import { isCode, userFile } from "../models/user/file.ts";

const READY = [
  "synthetic",
  "mnist",
  "fields",
  "npz",
  "csv",
  "netcdf",
  "hdf5",
  "tokens",
  "packed",
  "imagefolder",
  "2lpt",
  "des",
];
const OF_COLUMNS = ["npz", "csv", "netcdf", "hdf5"];
/** The kind of a file, by how its name ends. */
const ENDINGS: Readonly<Record<string, string>> = {
  ".npz": "npz",
  ".npy": "npz",
  ".csv": "csv",
  ".tsv": "csv",
  ".txt": "csv",
  ".nc": "netcdf",
  ".nc4": "netcdf",
  ".cdf": "netcdf",
  ".h5": "hdf5",
  ".hdf5": "hdf5",
  ".bin": "tokens",
};

interface Sources {
  readonly train: Source;
  /** Null when no samples are held out. */
  readonly val: Source | null;
  /** Lines for the user: what was decided on the way. */
  readonly notes?: readonly string[];
}

export interface Opened extends Sources {
  /** What values are normalised with; null for nothing. */
  readonly normalisation: Normalisation | null;
  /** What was found and decided. */
  readonly notes: readonly string[];
}

interface Training extends Pick<Config["training"], "seed" | "loss" | "ignore_index"> {
  /** True where samples are looked at and not trained with: nothing is random. */
  readonly plain?: boolean;
  /** True where nobody asks what the data says of its samples. */
  readonly untold?: boolean;
}

/**
 * Draws from libtorch's default generator: seed it again before a model is initialised. Unless `quiet`, long work on
 * the way says how far it is.
 */
export function openData(
  data: Config["data"],
  training: Training,
  model: Config["model"],
  quiet = true,
): Opened {
  const staged = data.stage !== "" && data.data_path !== "" ? stage(data) : null;
  const read = staged ? { ...data, data_path: staged.path } : data;
  const opened = openType(read, training, model);
  const { plain } = training;
  const done = transformed(opened, { data: read, seed: training.seed, quiet, plain });
  const { train, val, notes, normalisation } = done;
  return {
    train,
    val,
    normalisation,
    notes: [
      ...(staged?.notes ?? []),
      `Data: ${train.describe()}`,
      ...(opened.notes ?? []),
      ...notes,
      samplesNote(train, val, data.shuffle, training.seed),
    ],
  };
}

/** Of these settings, what makes samples that are stored rather than trained with: nothing random, no normalising. */
export const asStored = (data: Config["data"]): Config["data"] => ({
  ...data,
  normalise: "none",
  mean: [],
  std: [],
  scaling: "none",
  random_crop: 0,
  crop_padding: 0,
  flip: "none",
  rotate: false,
  mixup: 0,
  cutmix: 0,
  one_hot: false,
});

/** How many, and hashes of both orders: the same samples in the same order have the same. */
function samplesNote(train: Source, val: Source | null, shuffle: boolean, seed: number): string {
  const said = ({ length, indices }: Source, shuffled: boolean) =>
    `(order ${orderHash(order(length, seed, 0, shuffled), indices)})`;
  const held = val
    ? `${formatPlural(val.length, "sample")} to validate with ${said(val, false)}`
    : "none to validate with";
  return `Samples: ${train.length} to train with ${said(train, shuffle)}, ${held}`;
}

/** The readers of these kinds are loaded before the data is opened. */
const READERS: Readonly<Record<string, readonly string[]>> = {
  npz: ["arrays"],
  tokens: ["tokens"],
  "2lpt": ["packed"],
  des: ["packed"],
  imagefolder: ["images"],
};

/** What has to come to its end before the data is opened. */
export async function loadReader(data: Config["data"]): Promise<void> {
  await loadHdf5Reader(data);
  const type = typeOf(data);
  const kinds = type === "packed" ? readersOf(data.data_path) : READERS[type] ?? [];
  for (const kind of kinds) await loadKind(kind);
}

/** Whether the data is columns, to be chosen by name. */
export const hasColumns = (data: Config["data"]): boolean => OF_COLUMNS.includes(typeOf(data));

/** Whether targets are chosen by name. */
export const hasTargets = (data: Config["data"]): boolean =>
  hasColumns(data) || isSimulated(data.type) || typeOf(data) === "packed";

/** What a user's own file reads is its own affair. */
const typeOf = ({ type, data_path, code }: Config["data"]): string =>
  code !== "" ? "code" : type === "auto" ? detect(data_path) : type;

function openType(data: Config["data"], training: Training, model: Config["model"]): Sources {
  if (data.code !== "") return userData(userFile(data.code), data, training.seed, training.untold);
  const type = typeOf(data);
  switch (type) {
    case "synthetic":
      refusePath(type, data.data_path);
      return madeUp(synthetic, data, training, model);
    case "fields":
      refusePath(type, data.data_path);
      return madeUp(fields, data, training, model);
    case "mnist":
      return mnist({ data, seed: training.seed, model });
    case "netcdf":
    case "hdf5":
      return netcdf(type, { data, training, model });
    case "npz":
      needPath(type, data.data_path);
      return npz({ data, training, model });
    case "csv":
      needPath(type, data.data_path);
      return csv({ data, training, model });
    case "tokens":
      needPath(type, data.data_path);
      return tokens({ data, training, model });
    case "imagefolder":
      needPath(type, data.data_path);
      return imagefolder({ data, seed: training.seed, model });
    case "2lpt":
    case "des":
      return generated({ data, seed: training.seed, model });
    case "packed":
      needPath(type, data.data_path);
      return packed({ data, seed: training.seed });
  }
  throw new UserError(
    "usage",
    `Unknown data type "${type}".${didYouMean(type, READY)} Available: ${READY.join(", ")}.`,
  );
}

/** A preset may have chosen the type: training on made-up data instead of the user's would be a bad surprise. */
function refusePath(type: string, path: string): void {
  if (path === "") return;
  throw new UserError(
    "usage",
    `data.type is ${type}, which makes its own data, but --data-path is ${path}: ` +
      "name the kind of data that is there with --data-type, or leave --data-path out.",
  );
}

function needPath(type: string, path: string): void {
  if (path !== "") return;
  throw new UserError("usage", `data.type ${type} needs --data-path: the file or folder to read.`);
}

function madeUp(
  make: (spec: Spec) => Source,
  data: Config["data"],
  { seed, loss }: Training,
  model: Config["model"],
): Sources {
  const made = (role: Spec["role"], samples: number) => {
    const spec = { role, samples, seed, loss, model };
    checkCount(spec);
    return make(spec);
  };
  return {
    train: made("train", data.train_samples),
    val: data.val_samples > 0 ? made("val", data.val_samples) : null,
  };
}

/** The kind of data at a path; made-up data without one. */
export function detect(path: string): string {
  if (path === "") return "synthetic";
  const ending = Object.keys(ENDINGS).find((ending) => path.toLowerCase().endsWith(ending));
  if (ending) return ENDINGS[ending];
  if (isCode(path)) {
    throw new UserError(
      "usage",
      `${path} is a program and not data: train with what it gives by --data ${path}.`,
    );
  }
  if (looksPacked(path)) return "packed";
  if (looksLikeMnist(path)) return "mnist";
  if (looksLikeTokens(path)) return "tokens";
  if (looksLikeArrays(path)) return "npz";
  if (looksLikeImages(path)) return "imagefolder";
  throw new UserError(
    "data",
    exists(path)
      ? `${path} doesn't say by its name what kind of data it is: files end in ` +
        `${
          Object.keys(ENDINGS).join(", ")
        }, and a folder has train-images-idx3-ubyte, train.bin, index.json, .npy files or a folder of images for each class in it. ` +
        "Name the kind with --data-type."
      : `There is no ${path}. Check data.data_path (--data-path).`,
  );
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    return !(error instanceof Deno.errors.NotFound);
  }
}
