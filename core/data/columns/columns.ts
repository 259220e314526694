// npz, csv, NetCDF and HDF5 share this path from named columns to samples.
import { type DType, isFloating } from "../../../ffi/dtype.ts";
import { borrowBytes, toNumbers, zeros } from "../../../ffi/make.ts";
import { toDtype } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { CLASS_LOSSES } from "../../settings/sections/objective.ts";
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { formatBytes, formatPlural } from "../../base/format.ts";
import { isCode, isExported } from "../../models/user/file.ts";
import type { Facts, InputColumn } from "../../models/model.ts";
import { unusedNote } from "../unused.ts";
import type { Rows } from "./rows.ts";
import {
  type ClassShapes,
  classTargets,
  type Field,
  goodRows,
  heldBytes,
  joinColumns,
  peakBytes,
  streamColumns,
  type Streamed,
  streamedSource,
  targetField,
} from "./tensors.ts";
import {
  canBeJoined,
  checkTexts,
  chooseColumns,
  columnLayoutOf,
  joinedShape,
  leavesNothing,
  sampleCount,
} from "./choose.ts";
import type { DataRequest, Sources } from "../format.ts";
import { checkRoom, heldInMemory, memorySource } from "../memory.ts";
import { keepsMissing, missingNotes, refuseMissing } from "../missing.ts";
import type { Floats, Rule, Values, Variable } from "./variables.ts";
import { heldOut, splitIndices } from "../order.ts";
import { isPlainSplit, leakWarning, splitRows, withoutSplitColumns } from "../splits.ts";
import { rolloutRows } from "../rollout.ts";
import { forecastLeads, isForecast, windowsOf } from "../windows.ts";
import { answerText, type Batch, type Source } from "../source.ts";
import { vectorsIn } from "../transforms/vectors.ts";
import { type Baselines, baselinesOf, type Seasonal, seasonalOf } from "../baselines.ts";
import { climateOf, climateWanted, type Span } from "../climatology.ts";
import { weightsColumn } from "../sampling.ts";
import { coordinateNamed, timeOf, valueAt } from "./coordinate.ts";
import { type ArraysSpec, targetsIn } from "./reader.ts";

export interface Column {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** Values are row-major in this machine's byte order. Only chosen columns are read, once. */
  read(): ArrayBufferView;
  /** The values are floats only because a missing value is NaN, so they can still be classes. */
  readonly whole?: boolean;
  /** The numbers 0, 1, 2, ... stand for texts; such a column can only be the one target. */
  readonly text?: {
    /** It names one text and its place: '"red" in line 2'. */
    readonly example: string;
    classes(): readonly string[];
  };
  readonly onlyByName?: boolean;
  /** It is the same for all samples. */
  readonly still?: boolean;
  /** The reason follows the name: "holds Python objects". */
  readonly unusable?: string;
  readonly dimensions?: readonly string[];
  readonly units?: string;
  /** Times with units such as "days since 1979-01-01" are dates of it. */
  readonly calendar?: string;
  /** It reads single rows; a column without it can only be read whole. */
  readonly stream?: Stream;
  /** Threads may share the reading of these values, which read() unpacks. */
  readonly stored?: StoredValues;
}

export interface StoredValues {
  readonly variable: Variable;
  readonly raw: DType;
  /** Bits of the floats that are missing, where all else is as it is meant; null where values are packed otherwise. */
  readonly fills: readonly number[] | null;
  /** It makes what read() gives of all stored values, which may be the same memory; null where they are that already. */
  readonly unpack: ((from: Values, to: Floats, absent?: Uint8Array) => void) | null;
}

export interface Stream {
  /** A string says why the rows have no place of their own, and follows the column's name. */
  rows(): Rows | string;
  /** The rule turns the stored type into what read() gives. */
  readonly raw: DType;
  readonly rule: Rule | null;
}

export interface SideBySide {
  /** [rows, columns], as f32. */
  readonly values: Tensor;
  /** By column: it may have numbers that are not finite, or whole ones that floats have no room for. */
  readonly marked: readonly boolean[];
}

export interface Table<C extends Column = Column> {
  readonly path: string;
  readonly noun: string;
  readonly columns: readonly C[];
  /** Samples lie along these dimensions; the last one varies fastest. By default they are a list. */
  readonly grid?: readonly { readonly name: string; readonly size: number }[];
  /** Columns of one number each are read at once, which is faster; null where it can't be done. */
  sideBySide?(columns: readonly C[]): SideBySide | null;
  /** Known once all chosen columns are read: 1 marks a row that is no sample, such as land in a sea. */
  absent?(): Uint8Array;
}

export function fromColumns(all: Table, settings: DataRequest): Sources {
  const { path } = all, { data, training: { unsplit = false, seed } } = settings;
  const table = withoutSplitColumns(all, data);
  // A model that takes several inputs apart itself may take columns that do not fit each other.
  const apart = isExported(settings.model.name);
  const { withoutTargets = false } = settings.training;
  const targetless = !withoutTargets && apart && leavesNothing(table, data);
  const { features, targets } = chooseColumns(table, data, withoutTargets || targetless);
  const samples = sampleCount(table, [...features, ...targets]);
  checkTexts(table, features, targets);
  const flat = apart && features.length > 1 && !canBeJoined(features);
  if (flat && data.history > 1) {
    throw new UserError(
      "usage",
      `${path}: features of several shapes can't have a --history: choose some of one shape with --features.`,
    );
  }
  const climates = climateWanted(data);
  if (flat && climates) {
    throw new UserError(
      "usage",
      `${path}: ${climates} is for features of one shape: choose such with --features.`,
    );
  }
  const { streamed, notes } = whereToRead(table, features, targets, samples, data.in_memory, flat);
  return scope(() => {
    const keeps = (columns: readonly Column[], flat = false) =>
      keepsMissing(data, joinedShape(table, columns, flat));
    const keepsInput = keeps(features, flat), keepsTarget = targets.length > 0 && keeps(targets);
    const held = streamed ? null : joinColumns(table, features, flat, keepsInput);
    const target = targets.length === 0
      ? nothing(samples)
      : streamed
      ? targetField(table, targets, keepsTarget, !CLASS_LOSSES.includes(settings.training.loss))
      : joinColumns(table, targets, false, keepsTarget);
    const fields = held ? [held, target] : [target];
    const missing = {
      input: keepsInput && (held ? held.missing.length > 0 : streamed!.mayMiss),
      target: target.missing.length > 0,
    };
    refuseMissing(table, fields);
    notes.push(...fields.flatMap((field) => field.notes));
    notes.push(...missingNotes(held?.missing ?? null, target));
    const kept = goodRows(table, fields, samples, data.bad_samples, notes);
    const predicted = targets.length > 0 ? spansOf(targets) : settings.training.climatology?.targets ??
      data.targets.map((name) => ({ name, shape: [1] }));
    const channelsOf = (spans: readonly Span[]) =>
      spans.map(({ name, shape: [channels] }) => ({ name, channels }));
    const moving = channelsOf(spansOf(features)).map((one, i) => ({ ...one, still: features[i].still }));
    const rollout = rolloutRows(path, data, moving, channelsOf(predicted));
    const windows = windowsOf(table, samples, data, targets.length > 0, notes, rollout?.ahead);
    const [channels, ...side] = held ? held.values.shape.slice(1) : streamed!.shape;
    const seen = data.history + (rollout?.ahead ?? 0), shape = [channels * seen, ...side];
    const places = { input: shape, lengths: lengthsOf(features, settings) };
    const answer = targets.length === 0
      ? unknown(target)
      : laterOf(table, taskOf(table, targets, places, target, settings, notes), forecastLeads(data));
    const splitting = {
      ...{ table, samples, kept, data, seed, windows, unsplit },
      labels: answer.task === "classification" ? () => toNumbers(answer.values) : null,
    };
    const warnings = leakWarning(splitting);
    const { train, val, test } = isPlainSplit(splitting)
      ? { ...split(kept, samples, settings, notes), test: null }
      : splitRows(splitting, notes);
    const facts = {
      name: path,
      task: answer.task,
      outputs: answer.outputs,
      targetless,
      missing,
      names: answer.names,
      fields: ["features", "targets"] as const,
      description: `${path}: ${
        flat ? formatPlural(features.length, table.noun) : sizeOf(shape)
      } -> ${answer.answer}`,
      ...(apart && data.history === 1 && { columns: { columns: features.map(inputColumn), flat } }),
      ...(seen > 1 && { history: seen }),
      finish: (raw: Batch): Batch => ({
        input: toDtype(raw.input, "f32"),
        target: toDtype(raw.target, answer.dtype),
      }),
    };
    const weighing = settings.training.plain ? null : weightsColumn(data);
    const drawn = weighing === null ? null : coordinateNamed(table, weighing, samples, "--sampling");
    const chosenBy = (rows: Int32Array) => ({
      ...(answer.task === "classification" && answer.values.numel === samples && {
        labels: () => {
          const labels = toNumbers(answer.values);
          return Array.from(rows, (row) => labels[row]);
        },
      }),
      ...(drawn && { sampleWeights: Float64Array.from(rows, (row) => valueAt(drawn, row)) }),
    });
    const late = { targets: answer.values, deferred: target.deferred };
    const read = held
      ? (rows: Int32Array) =>
        memorySource({ ...facts, input: held.values, target: answer.values, rows, windows, indices: rows })
      : streamedSource(streamed!, { ...facts, ...late, windows, bad: data.bad_samples });
    const climate = climateOf({
      ...{ table, samples, data, trained: train, known: settings.training.climatology ?? null },
      features: spansOf(features),
      targets: targets.length > 0 ? spansOf(targets) : null,
      inputs: windows?.inputs ?? [0],
      leads: forecastLeads(data).map((lead) => lead * (windows?.each ?? 1)),
      read: (rows) => {
        const single = { ...facts, windows: null };
        return held
          ? memorySource({ ...single, input: held.values, target: answer.values, rows })
          : streamedSource(streamed!, { ...single, ...late, bad: data.bad_samples })(rows);
      },
    });
    const persists = isForecast(data) && targets.every((column) => features.includes(column));
    const layout = { path, features, targets, steps: seen, leads: forecastLeads(data).length };
    const vectors = settings.training.plain ? null : vectorsIn(data.vectors, layout);
    const make = (judged: Int32Array): Source => {
      const source = {
        ...read(judged),
        ...chosenBy(judged),
        leads: forecastLeads(data).length,
        ...(climate && { climate }),
        ...(vectors && { vectors }),
      };
      if (!persists || answer.task !== "regression" || windows === null) return source;
      const { shape, dtype } = answer.values, { leads, each } = windows;
      const values = () =>
        held ? borrowBytes(answer.values) : targetsIn(source.threaded!.reader as ArraysSpec);
      let found: Baselines | null = null;
      const { seasonal: others } = settings.training;
      const alone = unsplit && !others, time = alone ? null : timeOf(table, samples); // the data is closed later
      const forecast = (weights: Float64Array | null) => ({
        ...{ values: values(), dtype, shape, leads, each, time, trained: train, judged, weights },
        ...{ seasonal: others, alone },
      });
      seasonal = () => seasonalOf(forecast(null));
      return { ...source, baselines: (weights) => found ??= baselinesOf(forecast(weights)) };
    };
    let seasonal: (() => Seasonal | null) | undefined;
    return {
      train: make(train),
      val: val.length > 0 ? make(val) : null,
      test: test && make(test),
      notes,
      warnings,
      chosen: { features, targets },
      seasonal,
      rollout,
    };
  });
}

const spansOf = (columns: readonly Column[]): Span[] =>
  columns.map((column) => ({ name: column.name, shape: columnLayoutOf(column).slice(1) }));

function whereToRead(
  table: Table,
  features: readonly Column[],
  targets: readonly Column[],
  samples: number,
  mode: Config["data"]["in_memory"],
  flat: boolean,
): { streamed: Streamed | null; notes: string[] } {
  const { path } = table;
  const of = (bytes: typeof heldBytes, columns: readonly Column[]) => columns.length > 0 ? bytes(columns) : 0;
  const held = of(heldBytes, features) + of(heldBytes, targets);
  const peak = of(peakBytes, features) + of(peakBytes, targets);
  const advice = "Choose fewer with --features.";
  let because = "";
  // The data takes a quarter of free memory in the end, and half on the way.
  if (!heldInMemory(mode, Math.max(held, peak / 2))) {
    const streamed = streamColumns(table, features, flat);
    if (typeof streamed !== "string") {
      checkRoom(
        `${path}: what is predicted`,
        of(peakBytes, targets),
        samples,
        "Choose fewer with --targets.",
      );
      const why = mode === "no"
        ? "--in-memory no"
        : `in memory it would take ${formatBytes(held)}, and ${formatBytes(peak)} on the way there`;
      return {
        streamed,
        notes: [`Features are read from the file a sample at a time: ${why}`, ...streamed.notes],
      };
    }
    if (mode === "no") {
      throw new UserError(
        "data",
        `${path}: ${streamed}. So single samples of it can't be read: hold it in memory (--in-memory yes), or pack ` +
          "it once (hpctrain pack).",
      );
    }
    because =
      ` It can't be read a sample at a time, either: ${streamed}, or pack it once where there is more memory ` +
      "(hpctrain pack).";
  }
  checkRoom(path, peak, samples, advice + because);
  return { streamed: null, notes: [] };
}

const inputColumn = ({ name, shape, dtype, whole }: Column): InputColumn => ({
  name,
  shape: shape.slice(1),
  layout: columnLayoutOf({ shape }).slice(1),
  whole: whole ?? !isFloating(dtype),
});

const nothing = (samples: number): Field => ({
  values: zeros([samples, 1]),
  bad: [],
  missing: [],
  notes: [],
});

const unknown = ({ values }: Field): TargetTensor => ({
  values,
  dtype: "f32",
  task: "regression",
  outputs: 1,
  answer: "what nobody has told",
});

interface TargetTensor {
  readonly values: Tensor;
  readonly dtype: DType;
  readonly task: Facts["task"];
  readonly outputs: number;
  readonly names?: readonly string[];
  readonly answer: string;
}

/** Models may answer for each position of a text or a series. */
function lengthsOf(features: readonly Column[], { training, model }: DataRequest): number[] {
  if (!(isExported(model.name) || isCode(model.name))) return [];
  return features.flatMap(({ shape: [, ...sample], dtype, whole }) => {
    const sides = sample.filter((side) => side > 1);
    const text = whole || !isFloating(dtype) || CLASS_LOSSES.includes(training.loss);
    const series = sample.length > 1 || text;
    return series && sides.length <= 2 ? sides : []; // either side of a series may be its length
  });
}

/** A single target of whole numbers means classes, unless the loss or the model's outputs mean a quantity. */
function taskOf(
  table: Table,
  targets: readonly Column[],
  places: ClassShapes,
  target: Field,
  { training, model }: DataRequest,
  notes: string[],
): TargetTensor {
  const { loss } = training;
  const numeric = !["auto", "graph", "bce", ...CLASS_LOSSES].includes(loss) || model.output_size === 1;
  const [first] = targets;
  const whole = first.whole || first.text || !/^(f|bf)\d/.test(first.dtype);
  const classes = targets.length === 1 && (first.text || (!numeric && (whole || CLASS_LOSSES.includes(loss))))
    ? classTargets(table, first, target, places, training.ignore_index)
    : null;
  if (classes) {
    notes.push(classes.note);
    return {
      ...classes,
      names: first.text?.classes(),
      dtype: "i64",
      answer: answerText(classes.task, classes.outputs, []),
    };
  }
  const outputs = target.values.shape[1];
  const names = outputs === targets.length ? targets.map(({ name }) => name) : undefined;
  if (whole && numeric && targets.length === 1) {
    const why = loss === "auto" ? `model.output_size is ${model.output_size}` : `the loss is ${loss}`;
    notes.push(`Target ${first.name} is whole numbers, taken as a quantity because ${why}`);
  }
  return {
    values: target.values,
    dtype: "f32",
    task: "regression",
    outputs,
    names,
    answer: answerText("regression", outputs, target.values.shape.slice(1)),
  };
}

/** Each lead of a target is an output of its own: ice+1, ice+2. */
function laterOf({ path }: Table, answer: TargetTensor, leads: readonly number[]): TargetTensor {
  if (leads.length === 1 && leads[0] === 0) return answer;
  const { task, outputs, names, answer: said } = answer;
  if (task !== "regression") {
    if (leads.length === 1) return answer;
    throw new UserError(
      "usage",
      `${path}: classes can be forecast at one --lead at a time, not at ${
        leads.join(", ")
      }: give one of them.`,
    );
  }
  return {
    ...answer,
    outputs: outputs * leads.length,
    names: names && leads.flatMap((lead) => names.map((name) => lead === 0 ? name : `${name}+${lead}`)),
    answer: leads.length === 1 ? said : `${said} at each of ${formatPlural(leads.length, "lead")}`,
  };
}

function split(
  kept: Int32Array | null,
  samples: number,
  { data, training }: DataRequest,
  notes: string[],
) {
  const total = kept?.length ?? samples;
  const held = data.val_samples === 0 ? 0 : heldOut(total, data.validation_split);
  const part = { train: Math.min(data.train_samples, total - held), val: Math.min(data.val_samples, held) };
  notes.push(...unusedNote(total - part.train - part.val, data));
  const chosen = splitIndices(total, part, training.seed);
  const rows = (ids: Int32Array) => kept ? ids.map((id) => kept[id]) : ids;
  return { train: rows(chosen.train), val: rows(chosen.val) };
}

function sizeOf([channels, ...rest]: readonly number[]): string {
  return rest.length === 0
    ? formatPlural(channels, "feature")
    : `maps of [${[channels, ...rest].join(", ")}]`;
}
