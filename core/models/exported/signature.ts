// Maps the data's columns to the inputs of an exported program, by name or in their order. A batch has one
// tensor of features, in which the columns lie side by side; each input takes its own out of it.
import { isFloating } from "../../../ffi/dtype.ts";
import { UserError } from "../../base/errors.ts";
import type { Facts, InputColumn } from "../model.ts";
import type { ExportedProgram, GraphOutput, TensorMeta } from "./graph.ts";
import type { GraphPlan } from "./plan.ts";
import { constant } from "../../../ffi/make.ts";
import { cat, contiguous, eq, narrow, ne, reshape, toDtype } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { didYouMean } from "../../base/suggest.ts";
import { fitSizes, refuseLarge, sizesText } from "./check.ts";
import { UnfitOperator } from "./operators.ts";

export interface UserInput {
  readonly name: string;
  /** The user's name differs for an input that came in a dict. */
  readonly label: string;
  readonly slot: number;
  readonly meta: TensorMeta;
}

interface UserOutput {
  readonly name: string;
  readonly label: string;
  readonly slot: number;
  readonly meta: TensorMeta;
}

export interface Turn {
  readonly output: UserOutput;
  /** Names of parameters, and of modules that have some. */
  readonly trains: readonly string[];
}

export interface Signature {
  readonly inputs: readonly UserInput[];
  /** The targets go to this input; null unless the loss is in the graph. */
  readonly target: UserInput | null;
  /** It is null where forward gives its loss alone. */
  readonly prediction: UserOutput | null;
  readonly loss: UserOutput | null;
  /** Losses that take turns, each with what it trains; `loss` is the first of them. Empty where there is one loss. */
  readonly turns: readonly Turn[];
  /** Nothing takes these outputs. */
  readonly unused: readonly UserOutput[];
}

export function signatureOf(
  program: ExportedProgram,
  path: string,
  plan: GraphPlan,
  requested: RequestedColumns,
  columns: readonly InputColumn[] | undefined,
): Signature {
  const all = userInputs(program, path);
  const outputs = userOutputs(program, plan);
  // A batch of one sample gives predictions of one number, too.
  const isNumber = all.some(({ meta }) => meta.sizes[0] === 1) ? isScalar : isOneNumber;
  const turns = turnsAmong(outputs, program);
  const loss = turns[0]?.output ?? lossAmong(outputs, isNumber, path);
  const prediction = predictionAmong(outputs.filter((output) => output !== loss), isNumber);
  if (!loss && !prediction) {
    throw new UserError("usage", `${path}: forward gives no tensor first, so there is nothing to train on.`);
  }
  const target = loss && turns.length === 0 ? targetAmong(all, requested, columns) : null;
  const inputs = all.filter((input) => input !== target);
  if (inputs.length === 0) throw nothingTaken(path);
  const taken = [prediction, loss, ...turns.map(({ output }) => output)];
  const unused = outputs.filter((output) => !taken.includes(output));
  return { inputs, target, prediction, loss, turns, unused };
}

const nothingTaken = (path: string) =>
  new UserError("usage", `${path}: forward takes no tensor, so there is nothing to give it.`);

function userInputs(program: ExportedProgram, path: string): UserInput[] {
  const found: UserInput[] = [];
  let slot = -1, leaf = -1;
  for (const input of program.inputs) {
    if (input.kind === "user") leaf++;
    if (input.kind === "other") continue;
    if (input.kind === "user" && input.value.kind !== "tensor" && input.value.kind !== "symbol") continue;
    slot++; // The planner numbers inputs in this order.
    if (input.kind !== "user") continue;
    if (input.value.kind !== "tensor") {
      throw new UserError(
        "usage",
        `${path}: forward takes a number that changes, and data gives tensors only: make it a fixed one.`,
      );
    }
    const { name } = input.value;
    const meta = program.tensors.get(name);
    if (!meta) throw new UserError("checkpoint", `${path}: says nothing of its input ${name}.`);
    found.push({ name, label: program.inputNames[leaf] || name, slot, meta });
  }
  if (found.length === 0) throw nothingTaken(path);
  return found;
}

function userOutputs(program: ExportedProgram, plan: GraphPlan): UserOutput[] {
  const users = program.outputs.filter(({ kind }) => kind === "user" || kind === "loss");
  return users.flatMap((output: GraphOutput, i) => {
    const { value, kind } = output;
    const meta = value.kind === "tensor" ? program.tensors.get(value.name) : undefined;
    if (value.kind !== "tensor" || !meta) return [];
    const slot = plan.problems.length > 0 ? -1 : plan.slotOf(value.name);
    if (plan.kinds[slot] === "number") {
      throw new UnfitOperator(`its output ${value.name} is a number, and no tensor`);
    }
    const label = kind === "loss" ? "loss" : program.outputNames[i] ?? "";
    return [{ name: value.name, label, slot, meta }];
  });
}

type IsNumber = (output: UserOutput) => boolean;

const isOneOf = (sizes: readonly string[]): IsNumber => ({ meta }) =>
  sizes.includes(meta.sizes.join()) && isFloating(meta.dtype ?? "i64");
const isScalar = isOneOf([""]);
/** Some libraries make their losses of tensors of one element, [1]. */
const isOneNumber = isOneOf(["", "1"]);

/**
 * The loss is the output of that name, or else the only one that is a number: a prediction has one for each
 * sample.
 */
function lossAmong(outputs: readonly UserOutput[], isNumber: IsNumber, path: string): UserOutput | null {
  const named = outputs.find(({ label }) => label === "loss" || label.endsWith(".loss"));
  if (named && !isOneNumber(named)) {
    throw new UserError(
      "usage",
      `${path}: its output ${named.label} has ${named.meta.sizes.length} dimensions, and a loss is one number: give its ` +
        "mean over the batch, or another name.",
    );
  }
  const numbers = outputs.filter(isNumber);
  return named ?? (numbers.length === 1 ? numbers[0] : null);
}

/** Losses named loss.netD and loss.netG train the parameters of netD and netG, in this order; a plus joins several. */
function turnsAmong(outputs: readonly UserOutput[], { inputs }: ExportedProgram): Turn[] {
  const parameters = inputs.flatMap((input) => input.kind === "parameter" ? [input.of] : []);
  const isKnown = (name: string) => parameters.some((parameter) => isWithin(parameter, name));
  return outputs.flatMap((output) => {
    const trains = output.label.startsWith("loss.") ? output.label.slice("loss.".length).split("+") : [];
    return trains.length > 0 && trains.every(isKnown) && isOneNumber(output) ? [{ output, trains }] : [];
  });
}

export const isWithin = (parameter: string, name: string): boolean =>
  parameter === name || parameter.startsWith(`${name}.`);

/** The prediction is named logits, output or out, or else is the first with something for each sample. */
function predictionAmong(outputs: readonly UserOutput[], isNumber: IsNumber): UserOutput | null {
  for (const name of ["logits", "output", "out"]) {
    const found = outputs.find(({ label }) => label === name);
    if (found) return found;
  }
  return outputs.find((output) => !isNumber(output)) ?? null;
}

const TARGET_NAMES = /^(targets?|labels?|y|y_true)$/;

function targetAmong(
  inputs: readonly UserInput[],
  requested: RequestedColumns,
  columns: readonly InputColumn[] | undefined,
): UserInput | null {
  const given = inputs.find((input) => requestedFor(requested, input)?.join() === TARGETS);
  if (given) return given;
  const known = (input: UserInput) =>
    requested.size > 0
      ? requestedFor(requested, input) !== undefined
      : columns?.some(({ name }) => name === input.label || name === input.name) ?? false;
  const unknown = inputs.filter((input) => !known(input));
  if (unknown.length <= 1 && (requested.size > 0 || inputs.length > 1 && unknown.length < inputs.length)) {
    return unknown[0] ?? null;
  }
  const named = unknown.find(({ label, name }) => TARGET_NAMES.test(label) || TARGET_NAMES.test(name));
  return named ?? (unknown.length > 1 ? unknown[unknown.length - 1] : null);
}

/** --inputs gives the names of columns by the input's name. */
export type RequestedColumns = ReadonlyMap<string, readonly string[]>;

/** It stands for the targets, in place of a column of features. */
const TARGETS = "targets";

/** The list is "x=temp,salinity,mask=mask": a column without an input belongs to the input before it. */
export function readRequestedColumns(path: string, list: readonly string[]): RequestedColumns {
  const found = new Map<string, string[]>();
  let columns: string[] | undefined;
  for (const item of list) {
    const at = item.indexOf("=");
    if (at > 0) {
      const name = item.slice(0, at).trim();
      if (found.has(name)) throw new UserError("usage", `--inputs names the input ${name} of ${path} twice.`);
      found.set(name, columns = []);
    }
    if (!columns) {
      throw new UserError(
        "usage",
        `--inputs begins with "${item}": say which input takes which columns, as in --inputs x=temp,salinity,mask=mask.`,
      );
    }
    const column = item.slice(at > 0 ? at + 1 : 0).trim();
    if (column !== "") columns.push(column);
  }
  return found;
}

const requestedFor = (
  requested: RequestedColumns,
  { name, label }: UserInput,
): readonly string[] | undefined => requested.get(label) ?? requested.get(name);

export type UnpackInputs = (features: Tensor) => Tensor[];

export const takesAll = (
  inputs: readonly UserInput[],
  requested: RequestedColumns,
  { input }: Facts,
): boolean => inputs.length === 1 && (!input.columns || (requested.size === 0 && !input.flat));

/** It is null where the one input takes all features unchanged. */
export function unpackFor(
  path: string,
  inputs: readonly UserInput[],
  requested: RequestedColumns,
  target: UserInput | null,
  facts: Facts,
): UnpackInputs | null {
  const { input } = facts;
  refuseUnknown(path, requested, target ? [...inputs, target] : inputs);
  const { columns } = input;
  if (takesAll(inputs, requested, facts)) return reshaped(inputs[0], input.shape);
  const ofTexts = facts.task === "language" && !columns ? besideTokens(path, inputs, facts) : null;
  if (ofTexts) return ofTexts;
  if (!columns) {
    throw new UserError(
      "data",
      `${path}: forward takes ${inputs.length} tensors (${
        labels(inputs)
      }), and this data has one field of features. ` +
        "Data of several fields is an .npz, .csv, NetCDF or HDF5 file; or export a module that takes one tensor apart.",
    );
  }
  const taken = inputs.map((named) => columnsOf(path, named, inputs, requested, columns));
  const places = placesOf(columns, input.shape, input.flat === true);
  const takes = inputs.map((named, i) => take(path, named, taken[i].map((at) => places[at])));
  return (features) => takes.map((one) => one(features));
}

/** Transformers take these beside the tokens of a text, which say them. */
const BESIDE = /^(attention_mask|token_type_ids)$/;

/** Null where forward takes something else, too. */
function besideTokens(path: string, inputs: readonly UserInput[], facts: Facts): UnpackInputs | null {
  const isBeside = ({ label, name }: UserInput) => BESIDE.test(label) || BESIDE.test(name);
  const [tokens, ...others] = inputs.filter((input) => !isBeside(input));
  if (!tokens || others.length > 0) return null;
  if (!fitSizes(facts.input.shape, tokens.meta.sizes.slice(1))) {
    throw new UserError(
      "usage",
      `${path}: its input ${tokens.label} takes samples of shape ${
        sizesText(tokens.meta.sizes.slice(1))
      }, and windows of ` +
        `this text are ${sizesText(facts.input.shape)}: set --context, or export the model for these.`,
    );
  }
  const takes = inputs.map((input) => {
    if (input === tokens) return (x: Tensor) => x;
    const dtype = input.meta.dtype ?? "i64", { padding } = facts;
    const counts = /attention/.test(`${input.label}${input.name}`);
    return (x: Tensor) =>
      toDtype(
        !counts ? ne(x, x) : padding === undefined ? eq(x, x) : ne(x, constant(padding, x.dtype, x.device)),
        dtype,
      );
  });
  return (x) => takes.map((take) => take(x));
}

/** The data's samples and the graph's may differ by a dimension of 1. */
function reshaped({ meta }: UserInput, shape: readonly number[]): UnpackInputs | null {
  const fitted = fitSizes(shape, meta.sizes.slice(1));
  if (!fitted || fitted.length === shape.length) return null;
  return (x) => [reshape(x, [x.shape[0], ...fitted])];
}

const labels = (inputs: readonly UserInput[]) => inputs.map(({ label }) => label).join(", ");

function refuseUnknown(path: string, requested: RequestedColumns, inputs: readonly UserInput[]): void {
  const names = inputs.flatMap(({ name, label }) => [name, label]);
  for (const name of requested.keys()) {
    if (names.includes(name)) continue;
    throw new UserError(
      "usage",
      `${path} has no input "${name}" (--inputs).${didYouMean(name, names)} It takes ${labels(inputs)}.`,
    );
  }
}

/**
 * --inputs comes first, then the column of the input's name, then, where the counts agree, the column of its
 * place.
 */
function columnsOf(
  path: string,
  input: UserInput,
  inputs: readonly UserInput[],
  requested: RequestedColumns,
  columns: readonly InputColumn[],
): number[] {
  const names = columns.map(({ name }) => name);
  const wanted = requestedFor(requested, input);
  if (wanted) return wanted.map((name) => indexOf(path, input, name, names));
  const own = [input.label, input.name].map((name) => names.indexOf(name)).find((at) => at >= 0);
  if (own !== undefined) return [own];
  const none = requested.size === 0 &&
    inputs.every(({ label, name }) => !names.includes(label) && !names.includes(name));
  if (none && inputs.length === columns.length) return [inputs.indexOf(input)];
  if (inputs.length === 1) {
    throw new UserError(
      "data",
      `${path}: its input ${input.label} takes one tensor, and the data's columns have different shapes (${
        columns.map(describeColumn).join(", ")
      }): choose with --features, or with --inputs ${input.label}=...`,
    );
  }
  throw new UserError(
    "data",
    `${path}: the data lacks its input ${input.label}: the columns are ${names.join(", ")}. ` +
      `Say which it takes: --inputs ${input.label}=COLUMN,...`,
  );
}

const describeColumn = ({ name, shape }: InputColumn) => `${name} ${sizesText(shape)}`;

function indexOf(path: string, input: UserInput, name: string, names: readonly string[]): number {
  const at = names.indexOf(name);
  if (at >= 0) return at;
  throw new UserError(
    "data",
    `${path}: its input ${input.label} is to take "${name}" (--inputs), which is no column of the features.${
      didYouMean(name, names)
    } They are ${names.join(", ")}.`,
  );
}

interface ColumnRange {
  readonly column: InputColumn;
  readonly at: number;
  readonly size: number;
  readonly shape: readonly number[];
}

function placesOf(columns: readonly InputColumn[], joined: readonly number[], flat: boolean): ColumnRange[] {
  let at = 0;
  return columns.map((column) => {
    const { layout } = column;
    const size = flat ? layout.reduce((product, side) => product * side, 1) : layout[0];
    const place = { column, at, size, shape: flat ? layout : [size, ...joined.slice(1)] };
    at += size;
    return place;
  });
}

function take(path: string, input: UserInput, places: readonly ColumnRange[]): (features: Tensor) => Tensor {
  const { label, meta } = input;
  if (places.length === 0) throw new UserError("usage", `--inputs gives ${label} of ${path} no column.`);
  const [first, ...others] = places;
  const odd = others.find(({ shape }) => shape.slice(1).join() !== first.shape.slice(1).join());
  if (odd) {
    throw new UserError(
      "data",
      `${path}: its input ${label} can't take ${describeColumn(first.column)} and ${
        describeColumn(odd.column)
      } together: their shapes ` +
        "don't go side by side.",
    );
  }
  const shape = [places.reduce((sum, place) => sum + place.shape[0], 0), ...first.shape.slice(1)];
  const sizes = meta.sizes.slice(1);
  const fitted = fitSizes(shape, sizes);
  if (!fitted) {
    throw new UserError(
      "usage",
      `${path}: its input ${label} takes samples of shape ${sizesText(sizes)}, and ${
        places.map(({ column }) => describeColumn(column)).join(" with ")
      } is given: choose other columns with --inputs, or export the model for these.`,
    );
  }
  const fraction = places.find(({ column }) => !column.whole);
  if (meta.dtype && !isFloating(meta.dtype) && fraction) {
    throw new UserError(
      "usage",
      `${path}: its input ${label} is whole numbers (${meta.dtype}), and the column ${fraction.column.name} is floating: ` +
        "choose another with --inputs, or store it as whole numbers.",
    );
  }
  if (meta.dtype && !isFloating(meta.dtype)) refuseLarge(path, input, places.map(({ column }) => column));
  const part = (x: Tensor, { at, size, shape }: ColumnRange) =>
    reshape(contiguous(narrow(x, 1, at, size)), [x.shape[0], ...shape]);
  return (x) => {
    const parts = places.map((place) => part(x, place));
    return reshape(parts.length === 1 ? parts[0] : cat(parts, 1), [x.shape[0], ...fitted]);
  };
}
