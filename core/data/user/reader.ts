// The main thread has what the file's function gave; a loader thread imports the file anew and calls the
// function itself.
import { borrowBytes, readBytes } from "../../../ffi/make.ts";
import { contiguous } from "../../../ffi/ops.ts";
import type { Libtorch } from "../../../ffi/libraries/find.ts";
import { openLibtorch } from "../../../ffi/library.ts";
import { scope, Tensor } from "../../../ffi/tensor.ts";
import type { Field, ReaderModule, ReaderSpec, WholeReader } from "../source/reader.ts";
import { UserError } from "../../base/errors.ts";
import { asMistake, describeValue, type LibraryContext, openUserFile } from "../../models/user/file.ts";
import { isPython } from "../../base/files.ts";
import { openPythonFile } from "../../models/user/python.ts";
import type { InputColumn } from "../../models/model.ts";
import type { DataSettings } from "../../models/user/library.ts";

export type UserSplit = "train" | "val";

export interface OnDemandSamples {
  readonly length: number;
  batch(ids: readonly number[], epoch: number): unknown;
}

export interface OwnSpec extends ReaderSpec {
  readonly path: string;
  readonly hash: string;
  readonly role: UserSplit;
  readonly length: number;
  readonly settings: DataSettings;
  readonly seed: number;
  readonly input: Field;
  readonly target: Field;
  readonly libtorch: Libtorch;
}

const like = (path: string) => `${path} has samples to read as they are asked for (length and batch)`;

export const mainThreadReader = (
  samplesOf: (spec: OwnSpec) => OnDemandSamples,
): ReaderModule<OwnSpec> => ({ openWhole: (spec) => reader(spec, samplesOf(spec)) });

export function loaderThreadReader(library: () => Promise<LibraryContext>): ReaderModule<OwnSpec> {
  let made: Partial<Record<UserSplit, OnDemandSamples | null>> = {};
  return {
    async load(spec) {
      const { path, hash, libtorch, settings, seed } = spec;
      openLibtorch(libtorch);
      const file = isPython(path)
        ? await openPythonFile(path)
        : await openUserFile(path, "data", withoutChance(await library(), path), like(path));
      if (file.hash !== hash) {
        throw new UserError("usage", `${path} was changed while it was being opened: start the run again.`);
      }
      made = file.make({ settings, seed }) as typeof made;
    },
    openWhole(spec) {
      const samples = made?.[spec.role];
      if (typeof samples?.batch === "function" && samples.length === spec.length) {
        return reader(spec, samples);
      }
      throw new UserError(
        "usage",
        `${spec.path}: in a loader thread, ${spec.role} was ${
          describeValue(samples)
        } and not the ${spec.length} samples that the ` +
          "main thread has. What the function gives must be the same whenever it is called; or give --num-workers 0.",
      );
    },
  };
}

const DRAWS = ["randn", "rand", "randint", "normal_", "uniform_", "bernoulli_"];

/** libtorch has one generator for all threads: their draws would differ in every run. */
function withoutChance(library: LibraryContext, path: string): LibraryContext {
  const refuse = (name: string) => () => {
    throw new UserError(
      "usage",
      `${path}: ops.${name} draws from the generator that training draws from, and data is read in other threads: draw ` +
        "from the seed and a sample's id instead, or give --num-workers 0.",
    );
  };
  const ops = {
    ...(library.ops as LibraryContext),
    ...Object.fromEntries(DRAWS.map((name) => [name, refuse(name)])),
  };
  return { ...library, ops };
}

function reader(spec: OwnSpec, samples: OnDemandSamples): WholeReader {
  return {
    path: spec.path,
    stored: spec.input.shape,
    close: () => {},
    readPart(indices, epoch, inputs, targets) {
      scope(() => {
        const { input, target } = readUserBatch(spec, samples, indices, epoch);
        inputs.set(bytesOf(input, inputs.length));
        targets.set(bytesOf(target, targets.length));
      });
    },
  };
}

function bytesOf(t: Tensor, length: number): Uint8Array {
  const bytes = t.device === "cpu" ? borrowBytes(contiguous(t)) : readBytes(t);
  if (bytes.length !== length) throw new Error(`internal: ${bytes.length} bytes of ${length}.`);
  return bytes;
}

interface Rows {
  readonly input: Tensor;
  readonly target: Tensor;
  /** Several inputs lie side by side in `input`, each as plain numbers. */
  readonly columns?: readonly Pick<InputColumn, "name" | "shape" | "whole">[];
}

/** The rows must be like those of the first batch. They belong to the caller's scope. */
export function readUserBatch(
  { path, role, input, target }: Pick<OwnSpec, "path" | "role"> & Partial<Pick<OwnSpec, "input" | "target">>,
  samples: OnDemandSamples,
  ids: readonly number[],
  epoch: number,
): Rows {
  let made: unknown;
  try {
    made = samples.batch([...ids], epoch);
  } catch (error) {
    throw asMistake(error, path);
  }
  const given = (made ?? {}) as { input?: unknown; target?: unknown };
  for (const [name, field] of [["input", input], ["target", target]] as const) {
    const rows = given[name];
    if (!(rows instanceof Tensor) || rows.shape[0] !== ids.length) {
      const found = made instanceof Promise ? "a Promise: it must not be async" : describeValue(made);
      throw new UserError(
        "usage",
        `${path}: ${role}.batch was asked for ${ids.length} samples and gave ${found}: it should give { input, target }, ` +
          "tensors with one row for each id.",
      );
    }
    if (field && (rows.dtype !== field.dtype || String(rows.shape.slice(1)) !== String(field.shape))) {
      throw new UserError(
        "usage",
        `${path}: ${role}.batch gave ${name}s ${rows.dtype}[${rows.shape.join(", ")}] for the samples from ${
          ids[0]
        } on, and ${field.dtype}[1, ${
          field.shape.join(", ")
        }] for sample 0: the rows of all samples must be alike. Pad or cut them.`,
      );
    }
  }
  return given as Rows;
}
