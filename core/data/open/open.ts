import type { Config } from "../../settings/settings.ts";
import { DATA_KIND_NAMES, type DataKind } from "../../settings/formats.ts";
import { didYouMean } from "../../base/suggest.ts";
import { valuesWithoutSecrets } from "../../base/secrets.ts";
import { UserError } from "../../base/errors.ts";
import { patchesOf } from "../../models/patches.ts";
import type { Rollout } from "../../models/rollout.ts";
import { isCode, isExported, userFile } from "../../models/user/file.ts";
import type { DataRequest, Format, Sources } from "../format.ts";
import { conversionOf, remoteCopy } from "./conversions.ts";
import type { Climatology } from "../source/climate.ts";
import { FORMATS } from "./formats.ts";
import { isSimulated } from "../cosmology/options.ts";
import { stage } from "../formats/packed/stage.ts";
import { filesNamed, filesText, isUrl } from "../arrays/paths.ts";
import { BY_FILE } from "../arrays/joined.ts";
import { order, orderHash } from "../source/order.ts";
import { isProse } from "../text/prose.ts";
import { ownPaths, withOwnFiles } from "./own_files.ts";
import type { Normalisation, Source } from "../source/source.ts";
import { isResampled } from "../arrays/resample.ts";
import { transformed } from "../transforms/apply.ts";
import type { ScaleChoice } from "../transforms/scale_choice.ts";
import { userData } from "../user/data.ts";
import { key } from "../../base/random.ts";
import type { SampleOrders } from "../../run/events.ts";
import type { Validation } from "../../run/validation.ts";

export interface Opened extends Omit<Sources, "rollout"> {
  readonly test: Source | null;
  readonly warnings: readonly string[];
  readonly normalisation: Normalisation | null;
  readonly scale: ScaleChoice;
  /** These means stand for missing inputs; null where nothing was measured for it. */
  readonly fill: readonly number[] | null;
  /** An input's shape before patches are cut out of it. */
  readonly whole: readonly number[];
  readonly climatology: Climatology | null;
  /** The model is fed with its own predictions so; null where it isn't. */
  readonly rollout: Rollout | null;
  /** Null where there is nothing to validate with. */
  readonly validation: Validation | null;
  /** Two runs with the same hashes see the same samples in the same order. */
  readonly orders: SampleOrders;
  readonly notes: readonly string[];
}

/**
 * It draws from libtorch's default generator: seed it again before a model is initialised. Long work shows
 * progress unless `quiet`.
 */
export function openData(
  data: Config["data"],
  training: DataRequest["training"],
  model: Config["model"],
  quiet = true,
): Opened {
  const staged = data.stage !== "" && data.data_path !== "" && !isUrl(data.data_path) ? stage(data) : null;
  const read = staged ? { ...data, data_path: staged.path } : data;
  const request = { data: read, training, model };
  const opened = withOwnFiles(request, openSources, hasColumns(data));
  const { plain } = training;
  const patches = patchesOf(data, model.padding, 1);
  const done = transformed(opened, {
    ...{ data: read, seed: training.seed, quiet, plain },
    ...{ patches, ignored: training.ignore_index, rows: opened.rollout, epochs: training.epochs },
    ...{
      loss: training.loss,
      byDefault: isScaledByDefault(request, opened.train),
      saved: training.savedScale ?? null,
    },
    warnsOfScale: isOfFiles(request, opened.train) &&
      (isOwnModel(request) || !!training.init_from || opened.train.facts.task === "regression"),
    features: opened.chosen?.features.map(({ name }) => name),
    untold: training.withoutTargets,
  });
  const { train, val, test, notes, normalisation, scale, fill, climatology, rollout } = done;
  return {
    train,
    val,
    test,
    normalisation,
    scale,
    warnings: [...opened.warnings ?? [], ...done.warnings],
    ...(opened.divided && { divided: opened.divided }),
    fill,
    whole: opened.train.input.shape,
    chosen: opened.chosen,
    climatology,
    rollout,
    validation: val && validationOf(val, { ...data, ...scale }, training.seed),
    notes: [
      ...(staged?.notes ?? []),
      ...(data.stage !== "" && isUrl(data.data_path)
        ? [`Not staged: ${data.data_path} is read from its server`]
        : []),
      `Data: ${train.describe()}. ${samplesNote(train, val)}`,
      ...opened.notes,
      ...notes,
    ],
    orders: {
      train: orderHash(order(train.length, training.seed, 0, data.shuffle), train.indices),
      val: val && orderHash(order(val.length, training.seed, 0, false), val.indices),
    },
  };
}

/** New weights of a built-in model learn from files. PyTorch's own models have PyTorch's bits. */
const isScaledByDefault = (request: DataRequest, train: Source): boolean =>
  isOfFiles(request, train) && !request.training.init_from && !isOwnModel(request);

/** Samples that are made up are the same ones, made before or here. */
const isOfFiles = ({ data, training }: DataRequest, { packedFrom }: Source): boolean =>
  training.learns === true && data.data_path !== "" && data.code === "" &&
  !isMadeUp(kindOf(data)) && !isMadeUp(packedFrom ?? "");

const isMadeUp = (kind: string): boolean =>
  isSimulated(kind) || Object.hasOwn(FORMATS, kind) && FORMATS[kind as DataKind].path === null;

const isOwnModel = ({ model: { name } }: DataRequest): boolean => isCode(name) || isExported(name);

export const asStored = (data: Config["data"]): Config["data"] => ({
  ...data,
  normalise: "none",
  normalise_targets: "off",
  mean: [],
  std: [],
  fill: ["none"],
  mask_channel: false,
  anomaly: [],
  climatology_channel: false,
  scaling: "none",
  random_crop: 0,
  patch: "",
  crop_padding: 0,
  flip: "none",
  rotate: false,
  vectors: [],
  mixup: 0,
  cutmix: 0,
  one_hot: false,
});

const samplesNote = (train: Source, val: Source | null): string =>
  `Samples: ${train.length} to train with, ${val ? val.length : "none"} to validate with`;

/** Settings that choose samples and targets from the same files. */
const CHOICE = [
  "targets",
  "sel",
  "resample",
  "coarsen",
  "sample_dim",
  "token_type",
  "lead",
  "rollout",
] as const;

function validationOf(
  { length, indices, input, target }: Source,
  data: Config["data"],
  seed: number,
): Validation {
  const path = valuesWithoutSecrets(data.validation_path || data.data_path || data.code);
  const madeUp = path === "", shape = ({ dtype, shape }: Source["input"]) => [dtype, ...shape];
  const name = madeUp ? `made-up ${data.type} of seed ${seed}` : path;
  const chosen = [
    ...[name, shape(target), madeUp ? shape(input) : [], CHOICE.map((setting) => data[setting])],
    ...(data.normalise_targets === "on" ? ["scaled targets"] : []), // their losses are other numbers
  ];
  const samples = orderHash(order(length, seed, 0, false), indices);
  const id = key(length, samples, JSON.stringify(chosen)) & 0xffffffffn;
  return { data: name, samples: length, id: id.toString(16).padStart(8, "0") };
}

/** It must end before the data is opened. */
export async function loadReader(data: Config["data"]): Promise<void> {
  if (data.code !== "") return;
  await formatOf(data).reader?.(data);
  for (const [, path] of ownPaths(data)) {
    const own = { ...data, data_path: path };
    await formatOf(own).reader?.(own);
  }
}

export const hasColumns = (data: Config["data"]): boolean =>
  data.code === "" && formatOf(data).table !== undefined;

export const hasTargets = (data: Config["data"]): boolean =>
  hasColumns(data) || (data.code === "" && formatOf(data).namesTargets === true);

export const lacksTargets = (data: Config["data"]): boolean =>
  data.code === "" && formatOf(data).lacksTargets?.(data.data_path) === true;

export const kindOf = ({ type, data_path }: Pick<Config["data"], "type" | "data_path">): DataKind =>
  type === "auto" ? detect(data_path) : type;

function formatOf(data: Pick<Config["data"], "type" | "data_path">): Format {
  const kind = kindOf(data);
  if (Object.hasOwn(FORMATS, kind)) return FORMATS[kind];
  throw new UserError(
    "usage",
    `Unknown data type "${kind}".${didYouMean(kind, DATA_KIND_NAMES)} Available: ${
      DATA_KIND_NAMES.join(", ")
    }.`,
  );
}

function openSources(request: DataRequest): Sources {
  const { data, training } = request;
  if (data.code !== "") return userData(userFile(data.code), data, training.seed, training.withoutTargets);
  const format = formatOf(data);
  checkPath(kindOf(data), format, data.data_path);
  const alongFiles = format.many && data.sample_dim === BY_FILE;
  if (data.sample_dim !== "" && !format.selects && !alongFiles) {
    const some = DATA_KIND_NAMES.filter((kind) => FORMATS[kind].selects);
    throw new UserError(
      "usage",
      `data.sample_dim (--sample-dim ${data.sample_dim}) names a dimension, and ${
        kindOf(data)
      } data has none: ` +
        `${some.join(", ")} have. Leave it out.`,
    );
  }
  if (data.sel.length > 0 && !format.selects) {
    const some = DATA_KIND_NAMES.filter((kind) => FORMATS[kind].selects);
    throw new UserError(
      "usage",
      `data.sel (--sel ${data.sel.join(",")}) chooses along named dimensions, and ${
        kindOf(data)
      } data has none: ` +
        `${some.join(", ")} have. Leave it out.`,
    );
  }
  if (isResampled(data) && !format.selects) {
    const some = DATA_KIND_NAMES.filter((kind) => FORMATS[kind].selects);
    throw new UserError(
      "usage",
      `--resample and --coarsen take means along named dimensions, and ${kindOf(data)} data has none: ${
        some.join(", ")
      } have. Leave them out.`,
    );
  }
  return format.open(request);
}

function checkPath(kind: DataKind, { path: needed, many }: Format, path: string): void {
  if (needed === null && path !== "") {
    // A preset may have chosen the type: made-up data instead of the user's would surprise.
    throw new UserError(
      "usage",
      `data.type is ${kind}, which makes its own data, but --data-path is ${path}: ` +
        "name the kind of data that is there with --data-type, or leave --data-path out.",
    );
  }
  if (isUrl(path) && (kind !== "zarr" || /\.zip$/i.test(path))) {
    throw notOnServer(path, kind);
  }
  const files = needed && !many ? filesNamed(path) : null;
  if (files) {
    const several = DATA_KIND_NAMES.filter((kind) => FORMATS[kind].many);
    throw new UserError(
      "usage",
      `--data-path ${path} names ${filesText(files)}, and ${kind} data is one file or folder. Files of ` +
        `${several.join(", ")} are joined: others are packed one by one (hpctrain pack), or joined before.`,
    );
  }
  if (needed && path === "") {
    throw new UserError("usage", `data.type ${kind} needs --data-path: ${needed}.`);
  }
}

const endings = () => DATA_KIND_NAMES.flatMap((kind) => FORMATS[kind].endings);

export const isNamedAsData = (path: string): boolean =>
  endings().some((ending) => path.toLowerCase().endsWith(ending)) ||
  Object.values(FORMATS).some(({ previews }) => previews?.test(path));

export function detect(path: string): DataKind {
  if (path === "") return "synthetic";
  if (isUrl(path)) return kindOnServer(path);
  const elsewhere = remoteCopy(path);
  if (elsewhere) throw new UserError("data", elsewhere);
  const lower = path.toLowerCase();
  const kinds = Object.entries(FORMATS) as [DataKind, Format][];
  const byName = kinds.find(([, { endings }]) => endings.some((ending) => lower.endsWith(ending)));
  if (byName) return byName[0] === "csv" && isProse(path) ? "tokens" : byName[0];
  const files = filesNamed(path, endings());
  if (files) return kindOfAll(path, files);
  if (isCode(path)) {
    throw new UserError(
      "usage",
      `${path} is a program and not data: train with what it gives by --data ${path}.`,
    );
  }
  const inFolder = kinds.find(([, { folder }]) => folder?.detect(path));
  if (inFolder) return inFolder[0];
  const conversion = isFile(path) ? conversionOf(path) : null;
  if (conversion) throw new UserError("data", conversion);
  const folders = kinds.flatMap(([, { folder }]) => folder ? [folder.has] : []);
  throw new UserError(
    "data",
    exists(path)
      ? `${path} doesn't say by its name what kind of data it is: files end in ${endings().join(", ")}, ` +
        `and a folder has ${folders.slice(0, -1).join(", ")} or ${folders.at(-1)} in it. ` +
        "Name the kind with --data-type."
      : `There is no ${path}. Check data.data_path (--data-path).`,
  );
}

/** Whatever the name of a store is. */
function kindOnServer(path: string): DataKind {
  const name = path.toLowerCase().replace(/[?#].*$/, "");
  const other = DATA_KIND_NAMES.find((kind) => FORMATS[kind].endings.some((ending) => name.endsWith(ending)));
  if (other && (other !== "zarr" || name.endsWith(".zip"))) throw notOnServer(path, other);
  return "zarr";
}

function notOnServer(path: string, kind: DataKind): UserError {
  const what = kind === "zarr" ? "Zarr in a zip file" : `${kind} data`;
  return new UserError(
    "usage",
    `${what} is read from files of this machine, and from a server only Zarr in a folder. Copy it first ` +
      `(curl -LO '${path}').`,
  );
}

/** Globs such as era5/* tell the kind by their files. */
function kindOfAll(path: string, files: readonly string[]): DataKind {
  const found = files.map((file) =>
    DATA_KIND_NAMES.find((kind) =>
      FORMATS[kind].endings.some((ending) => file.toLowerCase().endsWith(ending))
    )
  );
  const [first] = found, odd = found.findIndex((kind) => kind === undefined || kind !== first);
  if (first !== undefined && odd < 0) return first;
  const [one, other] = [files[0], files[Math.max(odd, 0)]];
  throw new UserError(
    "data",
    first === undefined
      ? `${path} names ${one}, which doesn't say by its name what kind of data it is: files end in ` +
        `${endings().join(", ")}. Name the kind with --data-type.`
      : `${path} names files of several kinds, ${one} and ${other}: name those of one kind by their ending, ` +
        "such as '*.nc', or say which kind with --data-type.",
  );
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    return !(error instanceof Deno.errors.NotFound);
  }
}
