// Source: what every kind of data looks like to training, whether its samples are in memory or stay in their files
// until loader threads read them.
import type { DType } from "../../ffi/dtype.ts";
import { borrowBytes, toNumbers, uninitialised } from "../../ffi/make.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { formatPlural } from "../base/format.ts";
import type { Facts } from "../models/model.ts";
import type { ReaderSpec, Threaded } from "./reading/reader.ts";
import type { Normalisation } from "./transforms/values.ts";
import { openPipeline, type Pipeline } from "./reading/pipeline.ts";

// Source: what every kind of data looks like to training.

/** Numbers of samples. */
export type Ids = readonly number[] | Int32Array;

/** The rows of one pass through the model. */
export interface Part {
  /** The epoch whose random choices they are seen with. */
  readonly epoch: number;
  /** The samples to read: the batch's own, then any that they are only mixed with. */
  readonly ids: Int32Array;
  /** How many of them the batch has. */
  readonly count: number;
  /** For each sample of the batch, where in `ids` the one is that it is mixed with; null where nothing is mixed. */
  readonly mates: Int32Array | null;
  /** The virtual shard of the global batch that it is a part of, where there are some. */
  readonly shard?: number;
}

/** The name, shape and type of an input or a target. */
export interface Field {
  /** In the data, for messages. */
  readonly name: string;
  /** The shape of one sample's. */
  readonly shape: readonly number[];
  /** The type of its numbers. */
  readonly dtype: DType;
}

/** Samples and their targets, one row each. */
export interface Batch {
  /** (samples, ...), as the model is given it. */
  readonly input: Tensor;
  /** (samples, ...) as the model should answer, or (samples) of classes. */
  readonly target: Tensor;
}

/** Samples to train or to validate with, by number, and how they become batches. */
export interface Source {
  /** For messages: the path and the part, most often. */
  readonly name: string;
  /** Samples there are. */
  readonly length: number;
  /** The input of a finished batch. */
  readonly input: Field;
  /** The target of a finished batch, which the loss compares with. */
  readonly target: Field;
  /** The facts that a model is made from. */
  readonly facts: Facts;
  /** The normalisation that is usual for data of this kind. */
  readonly usual?: Normalisation;
  /** The numbers of these samples in the data, in their order; left out where they are all of it. */
  readonly indices?: Int32Array | null;
  /** The names of the classes, or of the target's numbers. */
  readonly names?: readonly string[];
  /** The scale of the target's numbers: value in its own units = std * number + mean, target by target. */
  readonly units?: Normalisation;
  /** The first sample's target, of a map its mean: near to all of them, and the same to all ranks. Of numbers alone. */
  readonly reference?: readonly number[];
  /** The part's rows as they are held or stored, on the host; the tensors belong to the caller's scope. */
  raw(part: Part): Batch;
  /** From raw rows, on whatever device, to the batch that the model sees. Its random choices are keyed. */
  finish(raw: Batch, part: Part): Batch;
  /** Present where threads can read the raw rows. */
  readonly threaded?: Threaded;
  /** True where `finish` makes of each byte a float that depends on the byte and its channel alone. */
  readonly bytewise?: boolean;
  /** For a model on the CPU: the same batches, of rows that threads have finished as far as they can. */
  readonly host?: Source;
  /** Bad samples that raw() passed over so far; absent where there can be none. */
  passedOver?(): number;
  /** Describes the samples in one line. */
  describe(): string;
}

/** Makes a part of samples that nothing is mixed with. */
export const plainPart = (ids: Ids, epoch = 0): Part => ({
  epoch,
  ids: ids instanceof Int32Array ? ids : Int32Array.from(ids),
  count: ids.length,
  mates: null,
});

/** Reads and finishes one batch. */
export const batchOf = (source: Source, part: Part): Batch =>
  scope(() => source.finish(source.raw(part), part));

/** The parts from which `source` makes a Source; names that both have mean the same. */
export interface SourceParts {
  /** The name in messages. */
  readonly name: string;
  /** The number of samples. */
  readonly length: number;
  /** The kind of target. */
  readonly task: Facts["task"];
  /** Classes, numbers to predict, or tokens in the vocabulary. */
  readonly outputs: number;
  /** True where the data have inputs alone. */
  readonly targetless?: boolean;
  /** The fields' names, for messages; "input" and "target" where left out. */
  readonly fields?: readonly [input: string, target: string];
  /** The samples in one line. */
  readonly description: string;
  /** The numbers of these samples in the data. */
  readonly indices?: Source["indices"];
  /** The names of the classes, or of the target's numbers. */
  readonly names?: Source["names"];
  /** The scale of the target's numbers. */
  readonly units?: Source["units"];
  /** The normalisation that is usual for data of this kind. */
  readonly usual?: Normalisation;
  /** The columns of an input that is a table. */
  readonly columns?: Pick<Facts["input"], "columns" | "flat">;
  /** Runs in a scope of its own: only the batch outlives it. The epoch matters where random choices are made. */
  raw(ids: Ids, epoch: number): Batch;
  /** Makes the model's batch of it; the raw rows themselves where left out. */
  finish?(raw: Batch): Batch;
}

/** A source from its parts; what a batch of one looks like is the one truth about the fields. */
export function source(parts: SourceParts): Source {
  const { name, length, task, outputs, targetless, fields, description, indices, names, units, usual } =
    parts;
  const raw = ({ ids, epoch }: Part) => scope(() => parts.raw(ids, epoch));
  const finish = (batch: Batch) => parts.finish ? scope(() => parts.finish!(batch)) : batch;
  const { input, target, reference } = scope(() => {
    const one = finish(raw(plainPart([0])));
    const field = (name: string, t: Tensor): Field => ({ name, shape: t.shape.slice(1), dtype: t.dtype });
    return {
      input: field(fields?.[0] ?? "input", one.input),
      target: field(fields?.[1] ?? "target", one.target),
      reference: task === "regression" ? centresOf(one.target) : undefined,
    };
  });
  const facts = {
    task,
    input: { shape: input.shape, dtype: input.dtype, ...parts.columns },
    outputs,
    ...(targetless && { targetless }),
  };
  return {
    name,
    length,
    input,
    target,
    facts,
    indices,
    names,
    units,
    reference,
    usual,
    raw,
    finish,
    describe: () => description,
  };
}

export function answerText(task: Facts["task"], outputs: number, shape: readonly number[]): string {
  switch (task) {
    case "regression":
      return shape.length > 1 ? `maps of [${shape.join(", ")}]` : formatPlural(outputs, "number");
    case "language":
      return `${outputs} tokens`;
    case "segmentation":
      return `${outputs} classes a pixel`;
    case "classification":
      return `${outputs} classes`;
  }
}

/** The mean of one sample's target along its own axis, 0 where that is no number. */
function centresOf(target: Tensor): number[] {
  const all = toNumbers(target), count = target.shape[1] ?? 1, each = all.length / count;
  return Array.from({ length: count }, (_, k) => {
    const mean = all.subarray(k * each, (k + 1) * each).reduce((sum, value) => sum + value, 0) / each;
    return Number.isFinite(mean) ? mean : 0;
  });
}

// A source whose samples stay in their files until they are wanted.

export interface ThreadedParts {
  readonly name: string;
  /** Samples, and where each is in the files; null where that is its own number. */
  readonly length: number;
  readonly indices: Int32Array | null;
  readonly reader: ReaderSpec;
  /** One stored input, and its target. */
  readonly stored: Field;
  readonly target: Field;
  readonly bad: "fail" | "skip";
  readonly task: Facts["task"];
  readonly outputs: number;
  readonly targetless?: boolean;
  readonly description: string;
  readonly names?: Source["names"];
  readonly usual?: Source["usual"];
  readonly bytewise?: boolean;
  readonly columns?: SourceParts["columns"];
  finish?(raw: Batch): Batch;
}

export function threadedSource(parts: ThreadedParts): Source {
  const { length, reader, stored, target, bad } = parts;
  const indices = parts.indices && shared(parts.indices);
  const threaded = {
    ...{ reader, indices, length, target, bad },
    ...{ input: stored, levels: null, geometry: null, seed: null },
  };
  const { raw, passedOver } = readRows(threaded);
  const fields = [stored.name, target.name] as const;
  const made = source({ ...parts, fields, raw: (ids, epoch) => raw(plainPart(ids, epoch)) });
  return { ...made, threaded, passedOver, bytewise: parts.bytewise };
}

/** Reads the rows in the thread that asks; what it opens for that stays open for as long as the program runs. */
export function readRows(threaded: Threaded): Required<Pick<Source, "raw" | "passedOver">> {
  let passed = 0;
  let pipeline: Pipeline | null = null;
  const { input, target } = threaded;
  const raw = ({ ids, epoch }: Part): Batch => {
    pipeline ??= openPipeline(threaded);
    const made = ({ shape, dtype }: Field) => uninitialised([ids.length, ...shape], { dtype });
    const batch = { input: made(input), target: made(target) };
    const inputs = borrowBytes(batch.input), targets = borrowBytes(batch.target);
    if (pipeline.part) {
      passed += pipeline.part(Array.from(ids), epoch, inputs, targets);
      return batch;
    }
    const i = inputs.length / ids.length, t = targets.length / ids.length;
    for (let row = 0; row < ids.length; row++) {
      passed += pipeline.row(
        ids[row],
        epoch,
        inputs.subarray(row * i, (row + 1) * i),
        targets.subarray(row * t, (row + 1) * t),
      );
    }
    return batch;
  };
  return { raw, passedOver: () => passed };
}

/** In memory that threads share. */
function shared(indices: Int32Array): Int32Array {
  if (indices.buffer instanceof SharedArrayBuffer) return indices;
  const copy = new Int32Array(new SharedArrayBuffer(indices.byteLength));
  copy.set(indices);
  return copy;
}
