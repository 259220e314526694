// Samples from a user's file. May import ffi, errors, config (types), data's sources, its siblings.
import { Tensor } from "../../ffi/tensor.ts";
import type { Config } from "../config/settings.ts";
import { memorySource } from "../data/memory.ts";
import { type Batch, type Ids, type Source, source } from "../data/source.ts";
import { UserError } from "../errors.ts";
import type { Facts } from "../models/model.ts";
import { describe, type UserFile } from "./export.ts";
import type { DataSettings } from "./library.ts";
import { asMistake } from "./mistakes.ts";

export const LIKE_DATA =
  'It should look like: export default ({ tensor }) => ({ task: "regression", outputs: 1, train: { input, target }, ' +
  "val: { input, target } }). To begin with one: hpctrain new data.";

const TASKS = ["classification", "regression", "language", "segmentation"];

/** Samples as two tensors, or read as they are asked for. */
type Samples = { input: Tensor; target: Tensor } | {
  length: number;
  batch(ids: readonly number[], epoch: number): Batch;
};

interface Made {
  readonly task: Facts["task"];
  readonly outputs: number;
  readonly train: Samples;
  readonly val?: Samples | null;
}

export function userData(
  file: UserFile,
  data: Config["data"],
  seed: number,
): { train: Source; val: Source | null } {
  const made = file.make({ settings: data satisfies DataSettings, seed }) as Made;
  if (!TASKS.includes(made?.task) || !Number.isSafeInteger(made.outputs) || !made.train) {
    const why = made?.train && !TASKS.includes(made.task)
      ? `its task is ${describe(made.task)} and should be one of ${TASKS.join(", ")}`
      : made?.train
      ? `its outputs are ${
        describe(made.outputs)
      } and should be a whole number: of classes, of targets, of tokens`
      : `the function returned ${describe(made)}, and not data`;
    throw new UserError("usage", `${file.path}: ${why}. ${LIKE_DATA}`);
  }
  return {
    train: open(file, made, "train", made.train),
    val: made.val ? open(file, made, "val", made.val) : null,
  };
}

function open({ path }: UserFile, { task, outputs }: Made, role: "train" | "val", samples: Samples): Source {
  const description = `${path}, ${role}`;
  const common = { name: `${path} (${role})`, task, outputs, description };
  if ("batch" in samples) {
    const { length } = samples;
    if (!Number.isSafeInteger(length) || length < 1) {
      throw new UserError(
        "usage",
        `${path}: ${role}.length is ${describe(length)}, and should be the number of samples.`,
      );
    }
    return source({ ...common, length, raw: (ids, epoch) => batchOf(path, role, samples, ids, epoch) });
  }
  const { input, target } = samples;
  if (!(input instanceof Tensor && target instanceof Tensor) || input.shape[0] !== target.shape[0]) {
    const found = [input, target].map((t) =>
      t instanceof Tensor ? `a tensor ${t.shape.join(" x ")}` : describe(t)
    );
    throw new UserError(
      "usage",
      `${path}: ${role}.input and ${role}.target should be tensors with one row a sample, as many of each, and they are ` +
        `${found.join(" and ")}.`,
    );
  }
  return memorySource({ ...common, input, target });
}

function batchOf(
  path: string,
  role: string,
  samples: Extract<Samples, { length: number }>,
  ids: Ids,
  epoch: number,
): Batch {
  let made: Batch;
  try {
    made = samples.batch(Array.from(ids), epoch);
  } catch (error) {
    throw asMistake(error);
  }
  const { input, target } = made ?? {};
  if (
    input instanceof Tensor && target instanceof Tensor && input.shape[0] === ids.length &&
    target.shape[0] === ids.length
  ) {
    return made;
  }
  throw new UserError(
    "usage",
    `${path}: ${role}.batch was asked for ${ids.length} samples and gave ${
      describe(made)
    }: it should give { input, target }, ` +
      "tensors with one row for each id.",
  );
}
