// Training sees every kind of data as a Source, whether its samples are in memory or loader threads read
// them.
import { borrowBytes, toNumbers, uninitialised } from "../../../ffi/make.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { formatPlural } from "../../base/format.ts";
import type { Facts } from "../../models/model.ts";
import type { Grid, GridVariable } from "../arrays/grid.ts";
import type { Field, ReaderSpec, Threaded } from "./reader.ts";
import type { Baselines, Climate } from "./climate.ts";
import type { Vectors } from "./vectors.ts";
import type { Vocabulary } from "../augment/masked_language.ts";
import { openPipeline, type Pipeline } from "./pipeline.ts";

/** Numbers of samples. */
export type Ids = readonly number[] | Int32Array;

/** The rows of one pass through the model. */
export interface Part {
  /** Random choices depend on this epoch. */
  readonly epoch: number;
  /** The batch's own samples come first, then those that are only mixed with them. */
  readonly ids: Int32Array;
  /** The batch has this many of them. */
  readonly count: number;
  /** Each sample's mate, as a place in `ids`; null where nothing is mixed. */
  readonly mates: Int32Array | null;
  /** The part's virtual shard of the global batch. */
  readonly shard?: number;
}

/** Samples and their targets, one row each. */
export interface Batch {
  /** (samples, ...) */
  readonly input: Tensor;
  /** (samples, ...), or (samples) for classes. */
  readonly target: Tensor;
  /**
   * The targets as they were before --normalise-targets, where they are judged.
   * @internal
   */
  readonly unscaled?: Tensor;
}

/**
 * Texts about targets, by the target's name and the text's.
 * @internal
 */
export type TargetTexts = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Models, metrics and messages go by what is known of samples beside their rows. */
export interface Known {
  /** The samples' numbers in the data, in order; all of it by default. */
  readonly indices?: Int32Array | null;
  /** The names of the classes, or of the target's numbers. */
  readonly names?: readonly string[];
  /** The target's own units are std * number + mean, target by target. */
  readonly units?: Normalisation;
  /** Data of this kind is usually normalised so. */
  readonly usual?: Normalisation;
  /** Fields that may have missing points (NaN); absent where none may. */
  readonly missing?: Missing;
  /** Each sample's class, where it is known without reading samples. */
  readonly labels?: () => ArrayLike<number>;
  /** How often each sample comes, beside the others (--sampling). */
  readonly sampleWeights?: Float64Array;
  /**
   * It says of a text's tokens what masks have to know; null where nobody does.
   * @internal
   */
  readonly vocabulary?: () => Vocabulary | null;
  /** So many bytes of text are in a token, where the tokenizer is known. */
  readonly bytesPerToken?: number;
  /** The loss sees targets less these means, divided by these deviations; `restore` undoes it (--normalise-targets). */
  readonly targetScale?: Normalisation;
  /** The first sample's target (of a map its mean), near to all and the same to all ranks. Numbers only. */
  readonly reference?: readonly number[];
  /** The kind of data that was packed. */
  readonly packedFrom?: string;
  /** The file that the sample of this number in the data is in, where each has its own. */
  pathOf?(index: number): string;
  /** Texts about each target, such as its units, by its name. */
  readonly about?: TargetTexts;
  /** It says where the samples and their targets lie, and reads coordinates; null where dimensions have no names. */
  readonly grid?: () => Grid | null;
  /** It reads another variable of the data, as floats; null where there is none of this name. */
  readonly variable?: (name: string) => GridVariable | null;
  /** These features are finer than the input's maps, and a pixel's points of them lie in channels: maps can't be turned. */
  readonly folded?: readonly string[];
  /** Channels that are components of vectors; null where there are none. */
  readonly vectors?: Vectors | null;
  /** So many leads has each target: the targets of the first come first, then those of the next. */
  readonly leads?: number;
  /** Means by season, and where the samples lie in them. */
  readonly climate?: Climate | null;
  /** Targets are differences from the climatology, and `restore` adds it again. */
  readonly anomalies?: boolean;
  /** A forecast is compared with these. They are computed once, with the weights of a map's points. */
  readonly baselines?: (weights: Float64Array | null) => Baselines;
}

/** Samples to train or to validate with, by number, and how they become batches. */
export interface Source extends Known {
  /** Messages use the path and the part, most often. */
  readonly name: string;
  /** The number of samples. */
  readonly length: number;
  /** The finished batch has this input. */
  readonly input: Field;
  /** The loss compares with this target of a finished batch. */
  readonly target: Field;
  /** A model is made from these facts. */
  readonly facts: Facts;
  /**
   * The part's rows are as held or stored, on the host; the tensors belong to the caller's scope. It may fill `into`,
   * memory of the same shapes and types, and return it: in memory that is touched for the first time a row is copied
   * ten times slower.
   */
  raw(part: Part, into?: Batch): Batch;
  /** Raw rows, on any device, become the batch that the model sees. Random choices are keyed. */
  finish(raw: Batch, part: Part): Batch;
  /** One line about the samples. */
  describe(): string;
  /** Threads can read the raw rows. */
  readonly threaded?: Threaded;
  /** `finish` makes of each byte a float that depends on the byte and its channel alone. */
  readonly bytewise?: boolean;
  /** A model on the CPU gets the same batches, of rows that threads have finished as far as they can. */
  readonly host?: Source;
  /** It counts bad samples that raw() passed over; absent where there can be none. */
  passedOver?(): number;
  /**
   * Outputs or targets of these samples that are anomalies get their climatology back. Outputs may be several parts
   * of each target, of which some are shifted.
   */
  restore?(values: Tensor, ids: Ids, parts?: readonly boolean[]): Tensor;
  /** The same for targets that were not scaled, as a batch has them beside those that are. */
  restoreUnscaled?(values: Tensor, ids: Ids): Tensor;
  /** Training looks at a part of a target in this epoch. */
  shorten?(target: Tensor, epoch: number): Tensor;
}

/** The fields that may have missing points. */
export interface Missing {
  /** Inputs may have some. */
  readonly input: boolean;
  /** Targets may have some. */
  readonly target: boolean;
}

/** A batch's targets in their own units. Scaling is not undone where the numbers from before it are there, to the bit. */
export function ownTargets(source: Source, { target, unscaled }: Omit<Batch, "input">, ids: Ids): Tensor {
  if (unscaled) return source.restoreUnscaled?.(unscaled, ids) ?? unscaled;
  return source.restore?.(target, ids) ?? target;
}

/** A part of samples that are not mixed. */
export const plainPart = (ids: Ids, epoch = 0): Part => ({
  epoch,
  ids: ids instanceof Int32Array ? ids : Int32Array.from(ids),
  count: ids.length,
  mates: null,
});

/** Reads and finishes one batch. */
export const batchOf = (source: Source, part: Part): Batch =>
  scope(() => source.finish(source.raw(part), part));

/** More is done with each batch when it is finished. `rowwise`: it makes of each row what is made of that row alone. */
export function finishThen(
  source: Source,
  more: (batch: Batch, part: Part) => Batch,
  rowwise = false,
): Source {
  const finish = (raw: Batch, part: Part) => more(source.finish(raw, part), part);
  if (rowwise && finishesRows(source)) ofRows.add(finish);
  return { ...source, finish, host: source.host && finishThen(source.host, more, rowwise) };
}

/** `source` makes a Source from these; what is known is passed on as it is. */
export interface SourceParts extends Known {
  /** The name in messages. */
  readonly name: string;
  /** The number of samples. */
  readonly length: number;
  /** The kind of target. */
  readonly task: Facts["task"];
  /** Classes, numbers to predict, or tokens in the vocabulary. */
  readonly outputs: number;
  /** The data have inputs alone. */
  readonly targetless?: boolean;
  /** Messages name the fields "input" and "target" by default. */
  readonly fields?: readonly [input: string, target: string];
  /** One line about the samples. */
  readonly description: string;
  /** A table's input has columns. */
  readonly columns?: Pick<Facts["input"], "columns" | "flat">;
  /** An input holds so many steps of time. */
  readonly history?: number;
  /** It runs in a scope of its own: only the batch outlives it. Random choices depend on the epoch. */
  raw(ids: Ids, epoch: number, into?: Batch): Batch;
  /** It makes the model's batch; the raw rows by default. */
  finish?(raw: Batch): Batch;
}

const steady = new WeakSet<Source["finish"]>(),
  idle = new WeakSet<Source["finish"]>(),
  ofRows = new WeakSet<Source["finish"]>();
const gathering = new WeakSet<Source["raw"]>();

/** Its `finish` sees the raw rows alone, so it is the same work for every part of as many. */
export const isSteady = ({ finish }: Source): boolean => steady.has(finish);

/** Its `finish` gives the raw rows back as they are. */
export const finishesNothing = ({ finish }: Source): boolean => idle.has(finish);

/** Its `finish` makes of each row what is made of that row alone, so that rows of many parts are finished at once. */
export const finishesRows = ({ finish }: Source): boolean => ofRows.has(finish);

/** Its `raw` takes each row by its number alone and fills what it is given, so that rows of many parts are taken at once. */
export const gathersRows = ({ raw }: Source): boolean => gathering.has(raw);

/** Says both of a source. */
export function thatGathers(source: Source): Source {
  gathering.add(source.raw);
  ofRows.add(source.finish);
  return source;
}

/** The same source, whose `raw` gives rows that are finished. */
export function finishedBy(source: Source, raw: Source["raw"]): Source {
  const finish = (rows: Batch) => rows;
  idle.add(finish);
  return thatGathers({ ...source, raw, finish });
}

/** Makes a source; a batch of one sample decides the fields' shapes and types. */
export function source(parts: SourceParts): Source {
  const { task, outputs, targetless, fields, description, columns, history, ...known } = parts;
  const raw = ({ ids, epoch }: Part, into?: Batch) => scope(() => parts.raw(ids, epoch, into));
  const finish = (batch: Batch) => parts.finish ? scope(() => parts.finish!(batch)) : batch;
  steady.add(finish);
  if (!parts.finish) idle.add(finish);
  const { input, target, reference } = scope(() => {
    const one = finish(raw(plainPart([0])));
    const field = (name: string, t: Tensor): Field => ({ name, shape: t.shape.slice(1), dtype: t.dtype });
    return {
      input: field(fields?.[0] ?? "input", one.input),
      target: field(fields?.[1] ?? "target", one.target),
      reference: task === "regression" ? centresOf(one.target) : undefined,
    };
  });
  const upscale = task === "regression" ? finerBy(target.shape, input.shape) : 1;
  const facts = {
    task,
    ...(upscale > 1 && { upscale }),
    input: { shape: input.shape, dtype: input.dtype, ...columns, ...(history && { history }) },
    outputs,
    ...(targetless && { targetless }),
    ...(known.missing?.target && { missing: true }),
  };
  return { ...known, input, target, facts, reference, raw, finish, describe: () => description };
}

/** How many times the sides of one map are those of another; 1 where they are no such maps. */
export function finerBy(fine: readonly number[], coarse: readonly number[]): number {
  if (fine.length !== 3 || coarse.length !== 3) return 1;
  const k = fine[1] / coarse[1];
  return Number.isInteger(k) && fine[2] === k * coarse[2] ? k : 1;
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

/** A sample's target has its mean over the points that are there; without any it is 0. */
function centresOf(target: Tensor): number[] {
  const all = toNumbers(target), count = target.shape[1] ?? 1, each = all.length / count;
  return Array.from({ length: count }, (_, k) => {
    const present = all.subarray(k * each, (k + 1) * each).filter((value) => !Number.isNaN(value));
    const mean = present.reduce((sum, value) => sum + value, 0) / present.length;
    return Number.isFinite(mean) ? mean : 0;
  });
}

// Threads read the samples of such a source from their files.

export interface ThreadedParts extends Omit<SourceParts, "raw" | "fields"> {
  readonly indices: Int32Array | null;
  readonly reader: ReaderSpec;
  /** One stored input and its target. */
  readonly stored: Field;
  readonly target: Field;
  readonly bad: "fail" | "skip";
  readonly bytewise?: boolean;
}

export function threadedSource({ reader, stored, target, bad, bytewise, ...parts }: ThreadedParts): Source {
  const { length, missing } = parts, indices = parts.indices && shared(parts.indices);
  const threaded = {
    ...{ reader, indices, length, target, bad },
    ...{ input: stored, levels: null, geometry: null, seed: null, missing: missing?.input },
  };
  const { raw, passedOver } = readRows(threaded);
  const fields = [stored.name, target.name] as const;
  const made = source({ ...parts, fields, raw: (ids, epoch) => raw(plainPart(ids, epoch)) });
  return { ...made, threaded, passedOver, bytewise };
}

/** No sample stands in for a bad one of these. */
export function withoutStandIns(source: Source): Source {
  if (source.threaded?.bad !== "skip") return source;
  const threaded = { ...source.threaded, bad: "alone" } as const;
  return { ...source, threaded, ...readRows(threaded) };
}

/** The calling thread reads; what it opens stays open for as long as the program runs. */
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

function shared(indices: Int32Array): Int32Array {
  if (indices.buffer instanceof SharedArrayBuffer) return indices;
  const copy = new Int32Array(new SharedArrayBuffer(indices.byteLength));
  copy.set(indices);
  return copy;
}

/** One number for all channels, or one for each. */
export interface Normalisation {
  /** The means are subtracted, channel by channel or once. */
  readonly mean: readonly number[];
  /** The deviations divide, channel by channel or once. */
  readonly std: readonly number[];
}
