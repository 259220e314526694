// npz, csv, NetCDF and HDF5 share this path from named columns to samples.
import { borrowBytes, toNumbers, zeros } from "../../../ffi/make.ts";
import { toDtype } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import type { Config } from "../../settings/settings.ts";
import { formatPlural } from "../../base/format.ts";
import { goodRows, inputColumns, joinColumns, type TensorField } from "./tensors.ts";
import { planReading, type Streamed, streamedSource, targetField } from "./streamed.ts";
import { type Choice, choiceOf, columnLayoutOf, joinedShape, vectorsIn } from "./choose.ts";
import type { DataRequest, Sources } from "../format.ts";
import { memorySource } from "../source/memory.ts";
import { keepsMissing, missingNotes, refuseMissing } from "../source/missing.ts";
import { leakWarning, type Split, splitRows } from "./splits.ts";
import { rolloutRows } from "../source/rollout.ts";
import type { Batch, Source } from "../source/source.ts";
import type { Baselines, VariableSpan } from "../source/climate.ts";
import { baselinesOf, type Forecast, seasonalOf } from "./baselines.ts";
import { climateOf } from "./climatology.ts";
import { weightsColumn } from "../source/sampling.ts";
import { coordinateNamed, coordinateValue, timeCoordinate } from "../arrays/coordinate.ts";
import { type ArraysSpec, targetsIn } from "./reader.ts";
import { laterOf, lengthsOf, taskOf, unknown } from "./targets.ts";
import type { Column, Table } from "../arrays/table.ts";
import { forecastLeads, isForecast, type Windows, windowsOf } from "./windows.ts";

export function fromColumns(all: Table, settings: DataRequest): Sources {
  const choice = choiceOf(all, settings);
  const { streamed, notes } = planReading(choice, settings.data.in_memory);
  return scope(() => {
    const columns = { ...choice, ...readColumns(choice, streamed, settings, notes) };
    const samples = { ...columns, ...layOut(columns, settings, notes) };
    const { warnings, ...parts } = partsOf(samples, settings, notes);
    return {
      ...sourcesOf(samples, parts, settings),
      notes,
      warnings,
      chosen: { features: choice.features, targets: choice.targets },
      rollout: samples.rollout,
    };
  });
}

/** The columns of a table that samples are made of, and their values: features in memory, or `streamed`. */
type Columns = Choice & ReturnType<typeof readColumns>;

function readColumns(
  choice: Choice,
  streamed: Streamed | null,
  { data, training }: DataRequest,
  notes: string[],
) {
  const { table, rows, features, targets, flat, floats } = choice;
  const keeps = (columns: readonly Column[], flat = false) =>
    keepsMissing(data, joinedShape(table, columns, flat));
  const keepsInput = keeps(features, flat), keepsTarget = targets.length > 0 && keeps(targets);
  const held = streamed ? null : joinColumns(table, features, flat, keepsInput, floats);
  const target = targets.length === 0
    ? nothing(rows)
    : streamed
    ? targetField(choice, keepsTarget, training.loss)
    : joinColumns(table, targets, false, keepsTarget, floats);
  const fields = held ? [held, target] : [target];
  const missing = {
    input: keepsInput && (held ? held.missing.length > 0 : streamed!.mayMiss),
    target: target.missing.length > 0,
  };
  refuseMissing(table, fields);
  notes.push(...fields.flatMap((field) => field.notes));
  notes.push(...missingNotes(held?.missing ?? null, target));
  const kept = goodRows(table, fields, rows, data.bad_samples, notes);
  return { held, streamed, target, missing, kept };
}

/** How samples lie in the rows: each takes one, or the rows of several `steps`. An input has this `shape`. */
type Samples = Columns & ReturnType<typeof layOut>;

function layOut(columns: Columns, settings: DataRequest, notes: string[]) {
  const { table, rows, features, targets, held, streamed, target } = columns, { data, training } = settings;
  const predicted = targets.length > 0
    ? spansOf(targets)
    : training.climatology?.targets ?? data.targets.map((name) => ({ name, shape: [1] }));
  const channelsOf = (spans: readonly VariableSpan[]) =>
    spans.map(({ name, shape: [channels] }) => ({ name, channels }));
  const moving = channelsOf(spansOf(features)).map((one, i) => ({ ...one, isStatic: features[i].isStatic }));
  const rollout = rolloutRows(table.path, data, moving, channelsOf(predicted));
  const windows = windowsOf(table, rows, data, targets.length > 0, notes, rollout?.ahead);
  const [channels, ...side] = held ? held.values.shape.slice(1) : streamed!.shape;
  const steps = data.history + (rollout?.ahead ?? 0), shape = [channels * steps, ...side];
  const places = { input: shape, lengths: lengthsOf(features, settings) };
  const answer = targets.length === 0
    ? unknown(target)
    : laterOf(table, taskOf(table, targets, places, target, settings, notes), forecastLeads(data));
  return { windows, rollout, steps, shape, answer };
}

/** The rows of the samples to train, to validate and to test with. */
function partsOf(
  samples: Samples,
  settings: DataRequest,
  notes: string[],
): Split & { readonly warnings: readonly string[] } {
  const { table, rows, kept, windows, answer } = samples;
  const { data, training: { seed, unsplit = false } } = settings;
  const splitting = {
    ...{ table, samples: rows, kept, data, seed, windows, unsplit },
    labels: answer.task === "classification" ? () => toNumbers(answer.values) : null,
  };
  return { ...splitRows(splitting, notes), warnings: leakWarning(splitting) };
}

type Facts = ReturnType<typeof factsOf>;

function factsOf(samples: Samples, { data }: DataRequest) {
  const { table: { path, noun }, features, separateInputs, flat, targetless, missing, steps, shape, answer } =
    samples;
  return {
    name: path,
    task: answer.task,
    outputs: answer.outputs,
    targetless,
    missing,
    names: answer.names,
    fields: ["features", "targets"] as const,
    description: `${path}: ${flat ? formatPlural(features.length, noun) : sizeOf(shape)} -> ${answer.answer}`,
    ...(separateInputs && data.history === 1 && { columns: { columns: inputColumns(samples), flat } }),
    ...(steps > 1 && { history: steps }),
    finish: (raw: Batch): Batch => ({
      input: toDtype(raw.input, samples.floats),
      target: toDtype(raw.target, answer.dtype),
    }),
  };
}

function sourcesOf(
  samples: Samples,
  { train, val, test }: Split,
  settings: DataRequest,
): Pick<Sources, "train" | "val" | "test" | "seasonal"> {
  const { table, rows, features, targets, steps, windows } = samples, { data, training } = settings;
  const facts = factsOf(samples, settings), leads = forecastLeads(data);
  const weighing = training.plain ? null : weightsColumn(data);
  const drawn = weighing === null ? null : coordinateNamed(table, weighing, rows, "--sampling");
  const read = readerOf(samples, facts, windows, data);
  const climate = climateOf({
    ...{ table, samples: rows, data, trained: train, known: training.climatology ?? null },
    features: spansOf(features),
    targets: targets.length > 0 ? spansOf(targets) : null,
    inputs: windows?.inputs ?? [0],
    leads: leads.map((lead) => lead * (windows?.each ?? 1)),
    read: (single) => readerOf(samples, facts, null, data)(single),
  });
  const layout = { path: table.path, features, targets, steps, leads: leads.length };
  const vectors = training.plain ? null : vectorsIn(data.vectors, layout);
  const compared = comparisonOf(samples, train, settings);
  const sourceOf = (part: Int32Array): Source => {
    const source = {
      ...read(part),
      ...labelsOf(samples, part),
      ...(drawn && { sampleWeights: Float64Array.from(part, (row) => coordinateValue(drawn, row)) }),
      leads: leads.length,
      ...(climate && { climate }),
      ...(vectors && { vectors }),
    };
    if (compared === null) return source;
    let found: Baselines | null = null;
    const baselines = (weights: Float64Array | null) =>
      found ??= baselinesOf({ ...compared, values: heldTargets(samples, source), judged: part, weights });
    return { ...source, baselines };
  };
  const trained = sourceOf(train);
  return {
    train: trained,
    val: val.length > 0 ? sourceOf(val) : null,
    test: test && sourceOf(test),
    seasonal: compared ? () => seasonalOf({ ...compared, values: heldTargets(samples, trained) }) : undefined,
  };
}

/** Gives the source of some rows. */
function readerOf(
  { held, streamed, target, answer }: Samples,
  facts: Facts,
  windows: Windows | null,
  { bad_samples: bad }: Config["data"],
): (rows: Int32Array) => Source {
  const targets = answer.values;
  if (held) return (rows) => memorySource({ ...facts, input: held.values, target: targets, rows, windows });
  return streamedSource(streamed!, { ...facts, targets, deferred: target.deferred, windows, bad });
}

/** A part's classes, where each sample is of one. */
function labelsOf({ rows, answer }: Samples, part: Int32Array): Pick<Source, "labels"> {
  if (answer.task !== "classification" || answer.values.numel !== rows) return {};
  const labels = () => {
    const all = toNumbers(answer.values);
    return Array.from(part, (row) => all[row]);
  };
  return { labels };
}

/** How forecasts of features are compared with the last step's values and with means; null for other predictions. */
function comparisonOf(
  { table, rows, features, targets, windows, answer }: Samples,
  train: Int32Array,
  { data, training: { unsplit = false, seasonal } }: DataRequest,
): Omit<Forecast, "values" | "judged" | "weights"> | null {
  const persists = isForecast(data) && targets.every((column) => features.includes(column));
  if (!persists || answer.task !== "regression" || windows === null) return null;
  const { shape, dtype } = answer.values, { leads, each } = windows;
  const alone = unsplit && !seasonal, time = alone ? null : timeCoordinate(table, rows); // the data is closed later
  return { dtype, shape, leads, each, time, trained: train, seasonal, alone };
}

const heldTargets = ({ held, answer }: Samples, source: Source): Uint8Array =>
  held ? borrowBytes(answer.values) : targetsIn(source.threaded!.reader as ArraysSpec);

const spansOf = (columns: readonly Column[]): VariableSpan[] =>
  columns.map((column) => ({ name: column.name, shape: columnLayoutOf(column).slice(1) }));

const nothing = (samples: number): TensorField => ({
  values: zeros([samples, 1]),
  bad: [],
  missing: [],
  notes: [],
});

function sizeOf([channels, ...rest]: readonly number[]): string {
  return rest.length === 0
    ? formatPlural(channels, "feature")
    : `maps of [${[channels, ...rest].join(", ")}]`;
}
