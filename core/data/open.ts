// data.type -> the sources to train and validate with. May import errors, config, the kinds of data.
import type { Config } from "../config/settings.ts";
import { didYouMean } from "../config/suggest.ts";
import { UserError } from "../errors.ts";
import { formatPlural } from "../format.ts";
import { csv } from "./csv.ts";
import { looksLikeMnist, mnist } from "./mnist.ts";
import { loadReader, netcdf } from "./netcdf.ts";
import { looksLikeArrays, npz } from "./npz.ts";
import type { Source } from "./source.ts";
import { synthetic } from "./synthetic/choose.ts";
import { checkCount, type Spec } from "./synthetic/draw.ts";
import { fields } from "./synthetic/fields.ts";
import { looksLikeTokens, tokens } from "./tokens.ts";

const READY = ["synthetic", "mnist", "fields", "npz", "csv", "netcdf", "hdf5", "tokens"];
const PLANNED = ["des", "2lpt", "imagefolder", "packed"];
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
  /** What was found and decided. */
  readonly notes: readonly string[];
}

type Training = Pick<Config["training"], "seed" | "loss" | "ignore_index">;

/** Draws from libtorch's default generator: seed it again before a model is initialised. */
export function openData(data: Config["data"], training: Training, model: Config["model"]): Opened {
  const { train, val, notes = [] } = openType(data, training, model);
  const held = val ? `${formatPlural(val.length, "sample")} to validate with` : "none to validate with";
  return {
    train,
    val,
    notes: [`Data: ${train.describe()}`, ...notes, `Samples: ${train.length} to train with, ${held}`],
  };
}

export { loadReader };

/** Whether the data is columns, to be chosen by name. */
export const hasColumns = (data: Config["data"]): boolean => OF_COLUMNS.includes(typeOf(data));

const typeOf = ({ type, data_path }: Config["data"]): string => type === "auto" ? detect(data_path) : type;

function openType(data: Config["data"], training: Training, model: Config["model"]): Sources {
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
  }
  const ready = `Available now: ${READY.join(", ")}.`;
  if (PLANNED.includes(type)) {
    throw new UserError("usage", `Data of type ${type} can't be read yet. ${ready}`);
  }
  throw new UserError(
    "usage",
    `Unknown data type "${type}".${didYouMean(type, [...READY, ...PLANNED])} ${ready}`,
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
function detect(path: string): string {
  if (path === "") return "synthetic";
  const ending = Object.keys(ENDINGS).find((ending) => path.toLowerCase().endsWith(ending));
  if (ending) return ENDINGS[ending];
  if (looksLikeMnist(path)) return "mnist";
  if (looksLikeTokens(path)) return "tokens";
  if (looksLikeArrays(path)) return "npz";
  throw new UserError(
    "data",
    exists(path)
      ? `${path} doesn't say by its name what kind of data it is: files end in ` +
        `${
          Object.keys(ENDINGS).join(", ")
        }, and a folder has train-images-idx3-ubyte, train.bin or .npy files in it. ` +
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
