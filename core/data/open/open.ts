import type { Config } from "../../settings/settings.ts";
import { DATA_KIND_NAMES, type DataKind } from "../../settings/formats.ts";
import { weightsDtype } from "../../settings/precision.ts";
import { valuesWithoutSecrets } from "../../base/secrets.ts";
import { UserError } from "../../base/errors.ts";
import { patchesOf } from "../../models/patches.ts";
import { isCode, isExported, userFile } from "../../models/user/file.ts";
import type { DataRequest, Sources } from "../format.ts";
import { checkPath, dataKindOf, formatNamed, FORMATS, hasColumns, isMade } from "./formats.ts";
import { loadReaderOf, readerOf } from "./readers.ts";
import { stage } from "./stage.ts";
import { isUrl } from "../arrays/paths.ts";
import { BY_FILE } from "../arrays/joined.ts";
import { order, orderHash } from "../source/order.ts";
import { ownPaths, withOwnFiles } from "./own_files.ts";
import { type Source, withoutStandIns } from "../source/source.ts";
import { isResampled } from "../arrays/resample.ts";
import { type Transformed, transformed } from "../transforms/apply.ts";
import { asDoubles } from "../transforms/doubles.ts";
import { userData } from "../user/data.ts";
import { key } from "../../base/random.ts";
import { listOf } from "../augment/list.ts";
import type { SampleOrders } from "../../run/events.ts";
import { checkReconstruction, givingItsInput, isReconstruction } from "./reconstruction.ts";
import type { Validation } from "../../run/validation.ts";

export interface Opened extends Transformed, Pick<Sources, "chosen" | "divided"> {
  /** An input's shape before patches are cut out of it. */
  readonly whole: readonly number[];
  /** Null where there is nothing to validate with. */
  readonly validation: Validation | null;
  /** Two runs with the same hashes see the same samples in the same order. */
  readonly orders: SampleOrders;
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
  if (isReconstruction(data)) return openReconstruction(data, training, model, quiet);
  const staged = data.stage !== "" && data.data_path !== "" && !isUrl(data.data_path) ? stage(data) : null;
  const read = staged ? { ...data, data_path: staged.path } : data;
  const request = { data: read, training, model };
  const ways = [
    ...(training.predicts ? [withoutStandIns] : []),
    ...(weightsDtype(training) === "f64" ? [asDoubles] : []),
  ];
  const opened = ways.reduce(eachOf, withOwnFiles(request, openSources, hasColumns(data)));
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
    silent: training.withoutTargets,
    settled: model.vocab_size > 0 || isExported(model.name),
  });
  const { train, val } = done;
  return {
    ...done,
    warnings: [...opened.warnings ?? [], ...done.warnings],
    ...(opened.divided && { divided: opened.divided }),
    whole: opened.train.input.shape,
    chosen: opened.chosen,
    validation: val && validationOf(val, { ...data, ...done.scale }, training.seed),
    notes: [
      ...(staged?.notes ?? []),
      ...(data.stage !== "" && isUrl(data.data_path)
        ? [`Not staged: ${data.data_path} is read from its server`]
        : []),
      `Data: ${train.describe()}. ${samplesNote(train, val)}`,
      ...opened.notes,
      ...done.notes,
    ],
    orders: {
      train: orderHash(order(train.length, training.seed, 0, data.shuffle), train.indices),
      val: val && orderHash(order(val.length, training.seed, 0, false), val.indices),
    },
  };
}

const eachOf = (sources: Sources, way: (source: Source) => Source): Sources => ({
  ...sources,
  train: way(sources.train),
  val: sources.val && way(sources.val),
  test: sources.test && way(sources.test),
});

/** The data has no targets but its inputs. */
function openReconstruction(
  ...[data, training, model, quiet]: Required<Parameters<typeof openData>>
): Opened {
  const read = { ...data, targets: [], normalise_targets: "off" as const };
  const opened = openData(read, { ...training, withoutTargets: true }, model, quiet);
  const features = opened.chosen?.features.map(({ name }) => name) ?? [];
  checkReconstruction(data, features);
  const { train, val, test, notes } = opened, own = (one: Source) => givingItsInput(one, features);
  return {
    ...opened,
    ...{ train: own(train), val: val && own(val), test: test && own(test) },
    notes: [...notes, "The target is the input, as the model sees it (--targets input)"],
  };
}

/** New weights of a built-in model learn from files. PyTorch's own models have PyTorch's bits. */
const isScaledByDefault = (request: DataRequest, train: Source): boolean =>
  isOfFiles(request, train) && !request.training.init_from && !isOwnModel(request);

/** Samples that are made up are the same ones, made before or here. */
const isOfFiles = ({ data, training }: DataRequest, { packedFrom }: Source): boolean =>
  training.learns === true && data.data_path !== "" && data.code === "" &&
  !isMadeUp(dataKindOf(data)) && !isMadeUp(packedFrom ?? "");

const isMadeUp = (kind: string): boolean =>
  isMade(kind) || Object.hasOwn(FORMATS, kind) && FORMATS[kind as DataKind].path === null;

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
  augment: "",
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
    ...(listOf(data.augment)?.masked ? [data.augment, seed] : []), // other tokens are hidden
  ];
  const samples = orderHash(order(length, seed, 0, false), indices);
  const id = key(length, samples, JSON.stringify(chosen)) & 0xffffffffn;
  return { data: name, samples: length, id: id.toString(16).padStart(8, "0") };
}

/** It must end before the data is opened. */
export async function loadDataReader(data: Config["data"]): Promise<void> {
  if (data.code !== "") return;
  for (const data_path of [data.data_path, ...ownPaths(data).map(([, path]) => path)]) {
    const own = { ...data, data_path };
    const { prepare } = await loadReaderOf(dataKindOf(own));
    await prepare?.(own);
  }
}

function openSources(request: DataRequest): Sources {
  const { data, training } = request;
  if (data.code !== "") return userData(userFile(data.code), data, training.seed, training.withoutTargets);
  const kind = dataKindOf(data), format = formatNamed(kind);
  checkPath(kind, format, data.data_path);
  const { sample_dim, sel } = data, alongFiles = format.many && sample_dim === BY_FILE;
  const [asks, it] = format.selects
    ? []
    : sample_dim !== "" && !alongFiles
    ? [`data.sample_dim (--sample-dim ${sample_dim}) names a dimension`, "it"]
    : sel.length > 0
    ? [`data.sel (--sel ${sel.join(",")}) chooses along named dimensions`, "it"]
    : isResampled(data)
    ? ["--resample and --coarsen take means along named dimensions", "them"]
    : [];
  if (asks) {
    const some = DATA_KIND_NAMES.filter((kind) => FORMATS[kind].selects).join(", ");
    throw new UserError(
      "usage",
      `${asks}, and ${kind} data has none: ${some} have. Leave ${it} out.`,
    );
  }
  return readerOf(kind).open(request);
}
