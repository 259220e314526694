// What goes into an exported program and comes out of it: which inputs are features and which one is the targets, which
// output is the prediction and which the loss. May import core/errors, ffi/dtype, graph (types), inputs, plan (types).
import { isFloating } from "../../../ffi/dtype.ts";
import { UserError } from "../../errors.ts";
import type { InputColumn } from "../model.ts";
import type { Meta, Output, Program } from "./graph.ts";
import { type Asked, asksFor, TARGETS } from "./inputs.ts";
import type { Plan } from "./plan.ts";

export interface UserInput {
  /** The graph's own name of it. */
  readonly name: string;
  /** What the user calls it: the same, but for one that came in a dict. */
  readonly label: string;
  readonly slot: number;
  readonly meta: Meta;
}

export interface UserOutput {
  readonly name: string;
  readonly label: string;
  readonly slot: number;
  readonly meta: Meta;
}

export interface Signature {
  /** Of features. */
  readonly inputs: readonly UserInput[];
  /** The input that the targets go to; only where the loss is in the graph. */
  readonly target: UserInput | null;
  /** Null where forward gives its loss alone. */
  readonly prediction: UserOutput | null;
  readonly loss: UserOutput | null;
}

export function signatureOf(
  program: Program,
  path: string,
  plan: Plan,
  asked: Asked,
  columns: readonly InputColumn[] | undefined,
): Signature {
  const all = userInputs(program, path);
  const outputs = userOutputs(program, plan);
  const loss = lossAmong(outputs, path);
  const prediction = predictionAmong(outputs.filter((output) => output !== loss));
  if (!loss && !prediction) {
    throw new UserError("usage", `${path}: forward gives no tensor first, so there is nothing to train on.`);
  }
  const target = loss ? targetAmong(all, asked, columns) : null;
  const inputs = all.filter((input) => input !== target);
  if (inputs.length === 0) throw nothingTaken(path);
  return { inputs, target, prediction, loss };
}

const nothingTaken = (path: string) =>
  new UserError("usage", `${path}: forward takes no tensor, so there is nothing to give it.`);

function userInputs(program: Program, path: string): UserInput[] {
  const found: UserInput[] = [];
  let slot = -1, leaf = -1;
  for (const input of program.inputs) {
    if (input.kind === "user") leaf++;
    if (input.kind === "other") continue;
    if (input.kind === "user" && input.value.kind !== "tensor" && input.value.kind !== "symbol") continue;
    slot++; // the planner numbers inputs in this order
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

function userOutputs(program: Program, plan: Plan): UserOutput[] {
  const users = program.outputs.filter(({ kind }) => kind === "user" || kind === "loss");
  return users.flatMap((output: Output, i) => {
    const { value, kind } = output;
    const meta = value.kind === "tensor" ? program.tensors.get(value.name) : undefined;
    if (value.kind !== "tensor" || !meta) return [];
    const slot = plan.problems.length > 0 ? -1 : plan.slotOf(value.name);
    const label = kind === "loss" ? "loss" : program.outputNames[i] ?? "";
    return [{ name: value.name, label, slot, meta }];
  });
}

const isNumber = ({ meta }: UserOutput) => meta.sizes.length === 0 && isFloating(meta.dtype ?? "i64");

/** The output named loss, else the only one that is a number: of a prediction there is one for each sample. */
function lossAmong(outputs: readonly UserOutput[], path: string): UserOutput | null {
  const named = outputs.find(({ label }) => label === "loss" || label.endsWith(".loss"));
  if (named && !isNumber(named)) {
    throw new UserError(
      "usage",
      `${path}: its output ${named.label} has ${named.meta.sizes.length} dimensions, and a loss is one number: give its ` +
        "mean over the batch, or another name.",
    );
  }
  const numbers = outputs.filter(isNumber);
  return named ?? (numbers.length === 1 ? numbers[0] : null);
}

/** Named logits, output or out, else the first that has something for each sample. */
function predictionAmong(outputs: readonly UserOutput[]): UserOutput | null {
  for (const name of ["logits", "output", "out"]) {
    const found = outputs.find(({ label }) => label === name);
    if (found) return found;
  }
  return outputs.find((output) => !isNumber(output)) ?? null;
}

const TARGET_NAMES = /^(targets?|labels?|y|y_true)$/;

function targetAmong(
  inputs: readonly UserInput[],
  asked: Asked,
  columns: readonly InputColumn[] | undefined,
): UserInput | null {
  const given = inputs.find((input) => asksFor(asked, input)?.join() === TARGETS);
  if (given) return given;
  const known = (input: UserInput) =>
    asked.size > 0
      ? asksFor(asked, input) !== undefined
      : columns?.some(({ name }) => name === input.label || name === input.name) ?? false;
  const unknown = inputs.filter((input) => !known(input));
  if (unknown.length <= 1 && (asked.size > 0 || inputs.length > 1 && unknown.length < inputs.length)) {
    return unknown[0] ?? null;
  }
  const named = unknown.find(({ label, name }) => TARGET_NAMES.test(label) || TARGET_NAMES.test(name));
  return named ?? (unknown.length > 1 ? unknown.at(-1)! : null);
}
