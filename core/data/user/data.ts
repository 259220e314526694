import { DATA_EXAMPLE, describeValue, type UserFile } from "../../models/user/file.ts";
import { openedLibtorch } from "../../../ffi/library.ts";
import { zeros } from "../../../ffi/make.ts";
import { isFloating } from "../../../ffi/dtype.ts";
import { maxValue } from "../../../ffi/ops.ts";
import { scope, Tensor } from "../../../ffi/tensor.ts";
import type { Config } from "../../settings/settings.ts";
import { memorySource } from "../source/memory.ts";
import { type Field, noteReader } from "../source/reader.ts";
import type { Sources } from "../format.ts";
import { type Source, threadedSource } from "../source/source.ts";
import { UserError } from "../../base/errors.ts";
import type { Facts } from "../../models/model.ts";
import type { DataSettings } from "../../models/user/library.ts";
import {
  mainThreadReader,
  type OnDemandSamples,
  type OwnSpec,
  readUserBatch,
  type UserSplit,
} from "./reader.ts";

const TASKS = ["classification", "regression", "language", "segmentation"];

type Samples = { input: Tensor; target: Tensor } | OnDemandSamples;

interface Made {
  readonly task: Facts["task"];
  readonly outputs: number;
  train: Samples;
  val?: Samples | null;
}

function withTargets(samples: Samples): Samples {
  if (!("batch" in samples)) {
    const { input, target } = samples;
    return { input, target: target ?? zeros([input?.shape[0] ?? 0]) };
  }
  const { length } = samples;
  const batch = (ids: readonly number[], epoch: number) => {
    const made = samples.batch(ids, epoch);
    return made && !(made instanceof Promise) ? { target: zeros([ids.length]), ...made } : made;
  };
  return { length, batch };
}

export function userData(
  file: UserFile,
  data: Config["data"],
  seed: number,
  withoutTargets = false,
): Sources {
  const made = file.make({ settings: data satisfies DataSettings, seed }) as Made;
  if (
    !TASKS.includes(made?.task) || !(Number.isSafeInteger(made.outputs) && made.outputs > 0) || !made.train
  ) {
    const why = made?.train && !TASKS.includes(made.task)
      ? `its task is ${describeValue(made.task)} and should be one of ${TASKS.join(", ")}`
      : made?.train
      ? `its outputs are ${
        describeValue(made.outputs)
      } and should be a whole number: of classes, of targets, of tokens`
      : `the function returned ${describeValue(made)}, and not data`;
    throw new UserError("usage", `${file.path}: ${why}. ${DATA_EXAMPLE}`);
  }
  const settings = { data, seed };
  if (withoutTargets) [made.train, made.val] = [withTargets(made.train), made.val && withTargets(made.val)];
  const opened = withoutTargets ? { ...file, reader: undefined } : file; // a thread would ask for the targets
  const train = open(opened, made, "train", made.train, settings);
  const val = made.val ? open(opened, made, "val", made.val, settings) : null;
  for (const field of ["input", "target"] as const) {
    const [one, other] = [train[field], val?.[field] ?? train[field]].map(({ shape, dtype }) =>
      `${dtype}[${shape.join(", ")}]`
    );
    if (one !== other) {
      throw new UserError(
        "usage",
        `${file.path}: a sample's ${field} is ${one} in train and ${other} in val: they must be alike.`,
      );
    }
  }
  return { train, val, notes: [] };
}

interface Settings {
  readonly data: Config["data"];
  readonly seed: number;
}

function open(
  file: UserFile,
  { task, outputs }: Made,
  role: UserSplit,
  samples: Samples,
  settings: Settings,
): Source {
  const { path } = file;
  const description = `${path}, ${role}`;
  const common = { name: `${path} (${role})`, task, outputs, description };
  if (typeof samples !== "object") {
    throw new UserError(
      "usage",
      `${path}: ${role} is ${describeValue(samples)}, and not samples. ${DATA_EXAMPLE}`,
    );
  }
  if ("batch" in samples) return readSource(file, common, role, samples, settings);
  const { input, target } = samples;
  const rows = input instanceof Tensor ? input.shape[0] ?? 0 : 0;
  if (!(input instanceof Tensor && target instanceof Tensor) || rows === 0 || rows !== target.shape[0]) {
    const found = [input, target].map((t) =>
      t instanceof Tensor ? `a tensor [${t.shape.join(", ")}]` : describeValue(t)
    );
    throw new UserError(
      "usage",
      `${path}: ${role}.input and ${role}.target should be tensors with one row a sample, as many of each, and they are ` +
        `${found.join(" and ")}.`,
    );
  }
  if (task === "classification") checkClasses(path, role, target, outputs);
  return memorySource({ ...common, input, target });
}

/** Probabilities have one row of numbers a sample, so nothing is known of them. */
function checkClasses(path: string, role: UserSplit, target: Tensor, outputs: number): void {
  if (target.shape.length > 1) return;
  if (isFloating(target.dtype)) {
    throw new UserError(
      "usage",
      `${path}: ${role}.target is ${target.dtype}, and classes are whole numbers: tensor(BigInt64Array.from(...)), or ` +
        'ops.toDtype(target, "i64").',
    );
  }
  const most = scope(() => maxValue(target).item());
  if (most < Math.max(outputs, 2)) return; // one logit stands for two classes
  throw new UserError(
    "usage",
    `${path}: ${role}.target has the class ${most}, and outputs is ${outputs}: classes are counted from 0, up to outputs - 1.`,
  );
}

/** Samples have numbers of 32 bits. */
const MOST_SAMPLES = 2 ** 31 - 1;

const openSamples = new Map<string, OnDemandSamples>();

const OWN_DATA = "own data";

/** Loader threads read where the file's own module for that is known. */
function readSource(
  { path, hash, reader }: UserFile,
  common: Pick<Source, "name"> & { task: Facts["task"]; outputs: number; description: string },
  role: UserSplit,
  samples: OnDemandSamples,
  { data, seed }: Settings,
): Source {
  const { length } = samples;
  if (!Number.isSafeInteger(length) || length < 1 || length > MOST_SAMPLES) {
    throw new UserError(
      "usage",
      `${path}: ${role}.length is ${
        describeValue(length)
      }, and should be the number of samples, at most 2147483647.`,
    );
  }
  if (typeof samples.batch !== "function") {
    throw new UserError(
      "usage",
      `${path}: ${role}.batch is ${describeValue(samples.batch)}, and should be a function of (ids, epoch).`,
    );
  }
  const { input, target, columns } = scope(() => {
    const one = readUserBatch({ path, role }, samples, [0], 0);
    return { ...one, input: fieldOf("input", one.input), target: fieldOf("target", one.target) };
  });
  const module = reader ?? OWN_DATA, libtorch = openedLibtorch();
  const about = { settings: data, seed, input, target, libtorch };
  const spec: OwnSpec = { module, whole: true, path, hash, role, length, ...about };
  openSamples.set(nameOf(spec), samples);
  noteReader(module, mainThreadReader((spec) => openSamples.get(nameOf(spec))!));
  const { bad_samples: bad } = data;
  const laidOut = columns?.map((column) => ({
    ...column,
    layout: column.shape.length > 0 ? column.shape : [1],
  }));
  const made = threadedSource({
    ...{ ...common, length, indices: null, reader: spec, stored: input, target, bad },
    ...(laidOut && { columns: { columns: laidOut, flat: true } }),
  });
  return reader === undefined ? { ...made, threaded: undefined } : made;
}

const fieldOf = (name: string, { shape, dtype }: Tensor): Field => ({
  name,
  shape: shape.slice(1),
  dtype,
});

const nameOf = ({ path, hash, role }: OwnSpec) => [path, hash, role].join("\0");
