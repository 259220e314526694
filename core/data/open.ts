// data.type -> the sources to train and validate with. May import errors, config, the kinds of data.
import type { Config } from "../config/settings.ts";
import { didYouMean } from "../config/suggest.ts";
import { UserError } from "../errors.ts";
import { formatPlural } from "../format.ts";
import { looksLikeMnist, mnist } from "./mnist.ts";
import type { Source } from "./source.ts";
import { synthetic } from "./synthetic/choose.ts";
import { checkCount, type Spec } from "./synthetic/draw.ts";
import { fields } from "./synthetic/fields.ts";

const READY = ["synthetic", "mnist", "fields"];
const PLANNED = ["des", "2lpt", "imagefolder", "netcdf", "hdf5", "npz", "tokens", "packed", "csv"];

interface Sources {
  readonly train: Source;
  /** Null when no samples are held out. */
  readonly val: Source | null;
}

export interface Opened extends Sources {
  /** Lines for the user: what was found and decided. */
  readonly notes: readonly string[];
}

type Training = Pick<Config["training"], "seed" | "loss">;

/** Draws from libtorch's default generator: seed it again before a model is initialised. */
export function openData(data: Config["data"], training: Training, model: Config["model"]): Opened {
  const { train, val } = openType(data, training, model);
  const held = val ? `${formatPlural(val.length, "sample")} to validate with` : "none to validate with";
  return {
    train,
    val,
    notes: [`Data: ${train.describe()}`, `Samples: ${train.length} to train with, ${held}`],
  };
}

function openType(data: Config["data"], training: Training, model: Config["model"]): Sources {
  const type: string = data.type === "auto" ? detect(data.data_path) : data.type;
  switch (type) {
    case "synthetic":
      refusePath(type, data.data_path);
      return madeUp(synthetic, data, training, model);
    case "fields":
      refusePath(type, data.data_path);
      return madeUp(fields, data, training, model);
    case "mnist":
      return mnist({ data, seed: training.seed, model });
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
  if (looksLikeMnist(path)) return "mnist";
  throw new UserError(
    "data",
    exists(path)
      ? `${path} is not data of a kind that can be read yet: of files on disk only mnist is (a folder with ` +
        "train-images-idx3-ubyte). For another cause, name the kind with --data-type."
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
