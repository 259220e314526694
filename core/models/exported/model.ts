// --model my.pt2: a model from an exported program, run through libtorch's own autograd. May import ffi, model, its
// siblings.
import { isFloating } from "../../../ffi/dtype.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { toDevice } from "../../../ffi/make.ts";
import { clone, copy_, toDtype } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { damaged } from "../../checkpoint/file_bytes.ts";
import { UserError } from "../../errors.ts";
import { type Activation, type Block, type Facts, type Model, parameterCount } from "../model.ts";
import { recomputing } from "../nn/batch_norm.ts";
import { type Archive, openExported } from "./archive.ts";
import { type Frame, Unfit } from "./arguments.ts";
import { bindSizes, checkFixedBatch, checkInput, checkOutput, refuseProblems, warningsOf } from "./check.ts";
import { cutsOf, type Piece } from "./cuts.ts";
import type { Meta, Program, Value } from "./graph.ts";
import { ExportedModule, Part } from "./module.ts";
import { freeAfterLastUse, type Plan, planOf, runSteps } from "./plan.ts";

export interface ExportedOptions {
  /** What the data says, to be compared with the graph; left out where somebody else gives the inputs. */
  readonly facts?: Facts;
  /** Numbers per sample that the loss wants. */
  readonly outputs?: number;
  /** At most so many blocks; 0 for as many as there are. */
  readonly blocks?: number;
}

export interface ExportedModel extends Model {
  readonly root: ExportedModule;
  /** What a user should hear of: frozen batch norm, for instance. */
  readonly warnings: readonly string[];
  readonly inputs: readonly { readonly name: string; readonly meta: Meta }[];
  /** It has batch norm, which --sync-bn does not reach here. */
  readonly normalises: boolean;
}

/** What an exported model is refused with before anything is read; nothing for all others. */
export function checkRun(
  model: Model,
  run: { batch: number; samples: readonly number[]; syncBn: boolean },
): void {
  if (!("inputs" in model)) return;
  const { name, inputs, normalises } = model as ExportedModel;
  if (run.syncBn && normalises) {
    throw new UserError(
      "usage",
      `--sync-bn does not reach batch norm inside the exported program ${name}: leave it out.`,
    );
  }
  const [{ name: input, meta }] = inputs;
  const fixed = meta.sizes[0];
  if (typeof fixed === "number") checkFixedBatch(name, input, fixed, run);
}

/** A model by the name of its file. */
export const isExported = (name: string): boolean => /\.pt2$/i.test(name);

export function exportedModel(path: string, options: ExportedOptions = {}): ExportedModel {
  using archive = openExported(path);
  try {
    return build(archive, options);
  } catch (error) {
    if (error instanceof Unfit) {
      throw damaged(path, `is not an exported program that can be read: ${error.message}`);
    }
    throw error;
  }
}

function build(archive: Archive, options: ExportedOptions): ExportedModel {
  const { path } = archive;
  const { program } = archive;
  const plan = planOf(program, path);
  const inputs = userInputs(program, path);
  const output = outputOf(program, path, plan);
  refuseProblems(path, plan.problems);
  const { facts } = options;
  if (facts) {
    if (inputs.length !== 1) throw severalInputs(path, inputs.map(({ name }) => name));
    checkInput(archive, inputs[0].name, inputs[0].meta, facts);
    checkOutput(archive, program.tensors.get(output.name), facts, options.outputs ?? facts.outputs);
  }
  const root = new ExportedModule(archive, dropped(program));
  const floating = (name: string) => isFloating(program.tensors.get(name)?.dtype ?? "i64");
  const names = new Map<number, string>();
  for (const name of program.tensors.keys()) {
    try {
      names.set(plan.slotOf(name), name);
    } catch { /* a name that no step makes */ }
  }
  const updates = updatesOf(program, plan, root);
  const pieces = cutsOf(
    plan,
    output.slot,
    (slot) => floating(names.get(slot) ?? ""),
    updates.length > 0 ? 1 : options.blocks ?? 0,
  );
  const runner = new Runner(path, program, plan, root, inputs, updates);
  const blocks = pieces.map((piece, i) => runner.block(piece, pieces[i - 1]?.out ?? -1));
  const warnings = warningsOf(archive);
  const steps = plan.steps.length;
  const said = `exported by PyTorch ${program.torch}, ${steps} operations in ${blocks.length} ${
    blocks.length === 1 ? "block" : "blocks"
  }`;
  return {
    name: path,
    root,
    blocks,
    convolutional: program.nodes.some(({ target }) => /\.(conv[23]d|convolution)\./.test(target)),
    describe: () =>
      [
        `${path}: ${said}, ${parameterCount(root).toLocaleString("en-US")} parameters`,
        ...(blocks.length > 1 ? [`Blocks: ${blocks.map(({ name }) => name).join(", ")}`] : []),
        ...warnings,
      ].join("\n"),
    warnings,
    inputs,
    normalises: program.nodes.some(({ target }) => /batch_norm/.test(target)),
  };
}

interface UserInput {
  readonly name: string;
  readonly slot: number;
  readonly meta: Meta;
}

function userInputs(program: Program, path: string): (UserInput & { name: string })[] {
  const found: UserInput[] = [];
  let slot = -1;
  for (const input of program.inputs) {
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
    found.push({ name, slot, meta });
  }
  if (found.length === 0) {
    throw new UserError("usage", `${path}: forward takes no tensor, so there is nothing to give it.`);
  }
  return found;
}

const severalInputs = (path: string, names: readonly string[]) =>
  new UserError(
    "data",
    `${path}: forward takes ${names.length} tensors (${
      names.join(", ")
    }), and the data has one field of features: ` +
      "export a module that takes one tensor and takes it apart.",
  );

/** The one that is trained on: named logits, output or out, else the first. */
function outputOf(program: Program, path: string, plan: Plan): { name: string; slot: number } {
  const users = program.outputs.filter(({ kind }) => kind === "user" || kind === "loss");
  const { outputNames } = program;
  const preferred = ["logits", "output", "out"].map((name) => outputNames?.indexOf(name) ?? -1)
    .find((i) => i >= 0 && i < users.length) ?? 0;
  const chosen: Value | undefined = users[preferred]?.value;
  if (chosen?.kind !== "tensor") {
    throw new UserError("usage", `${path}: forward gives no tensor first, so there is nothing to train on.`);
  }
  return { name: chosen.name, slot: plan.problems.length > 0 ? -1 : plan.slotOf(chosen.name) };
}

function dropped(program: Program): number {
  let most = 0;
  for (const { target, inputs } of program.nodes) {
    if (/\.bernoulli_|\.rand|\.normal/.test(target)) most = Math.max(most, 0.5);
    if (!/dropout|attention|lstm|gru|rnn/.test(target)) continue;
    for (const { name, value } of inputs) {
      if (/^(p|dropout_p|dropout)$/.test(name) && value.kind === "number") most = Math.max(most, value.value);
    }
  }
  return most;
}

interface Update {
  readonly slot: number;
  readonly buffer: Tensor;
  /** The slot that the buffer comes in by. */
  readonly from: number;
}

/** Of graphs whose writes were turned into outputs: which value belongs into which buffer. */
function updatesOf(program: Program, plan: Plan, root: ExportedModule): Update[] {
  return program.outputs.flatMap(({ kind, value, of }) => {
    const buffer = root.tensors.get(of);
    if (kind !== "buffer" || value.kind !== "tensor" || !buffer) return [];
    const input = program.inputs.find((i) => i.kind === "buffer" && i.of === of);
    const from = input?.kind === "buffer" ? plan.slotOf(input.name) : -1;
    return [{ slot: plan.slotOf(value.name), buffer, from }];
  });
}

class Runner {
  readonly #frame: Frame;
  readonly #written: ReadonlySet<number>;

  constructor(
    readonly path: string,
    readonly program: Program,
    readonly plan: Plan,
    readonly root: ExportedModule,
    readonly inputs: readonly UserInput[],
    readonly updates: readonly Update[],
  ) {
    this.#frame = { values: new Array(plan.slots), device: "cpu", training: true, again: false };
    this.#written = new Set(plan.steps.map(({ writes }) => writes));
    for (const input of program.inputs) {
      if (input.kind === "user" || input.kind === "other") continue;
      this.#frame.values[plan.slotOf(input.name)] = root.tensors.get(input.of);
    }
  }

  block({ from, to, out, name }: Piece, input: number): Block {
    const { plan, root, path } = this;
    const last = to === plan.steps.length;
    const kept = new Set([out, ...(last ? this.updates.map(({ slot }) => slot) : [])]);
    if (from > 0) kept.add(input); // the caller's
    freeAfterLastUse(plan, from, to, kept);
    const frame = this.#frame;
    const forward = (x: Activation): Activation => {
      frame.training = root.training;
      frame.again = recomputing();
      if (from === 0) this.#bind(x);
      else frame.values[input] = x as Tensor;
      runSteps(plan.steps, from, to, frame, path);
      if (last) this.#update();
      const result = frame.values[out] as Tensor;
      return result === x ? clone(result) : result;
    };
    return { name, module: this.#partOf(from, to), forward };
  }

  #partOf(from: number, to: number): Part | null {
    const { plan, program, root } = this;
    const used = new Set(
      plan.steps.slice(from, to).flatMap(({ uses }) => uses.map((slot) => plan.roots[slot])),
    );
    const trained = new Map(root.namedParameters().map(([name, tensor]) => [tensor, name]));
    const named = program.inputs.flatMap((input): [string, Tensor][] => {
      if (input.kind !== "parameter" || !used.has(plan.slotOf(input.name))) return [];
      const tensor = root.tensors.get(input.of)!;
      return trained.has(tensor) ? [[trained.get(tensor)!, tensor]] : [];
    });
    return named.length > 0 ? new Part(named) : null;
  }

  /** The batch, checked against what the graph was exported for. */
  #bind(x: Activation): void {
    const given = Array.isArray(x) ? x as readonly Tensor[] : [x as Tensor];
    const { inputs, path, program } = this, frame = this.#frame;
    if (given.length !== inputs.length) throw severalInputs(path, inputs.map(({ name }) => name));
    const symbols = new Map<string, number>();
    inputs.forEach(({ name, slot, meta }, i) => {
      bindSizes(path, name, meta, given[i], program, symbols);
      const fits = meta.dtype === null || meta.dtype === given[i].dtype;
      const taken = fits ? given[i] : toDtype(given[i], meta.dtype!);
      frame.values[slot] = fits && this.#written.has(slot) ? clone(taken) : taken;
    });
    if (frame.device !== given[0].device) {
      frame.device = given[0].device;
      this.#moveConstants();
    }
    // Backward wants what forward read as it was, and the buffer is written to before that.
    for (const { buffer, from } of this.updates) if (from >= 0) frame.values[from] = clone(buffer);
  }

  /** Constants and buffers that are in no state dict are moved by nobody else. */
  #moveConstants(): void {
    for (const tensor of this.root.tensors.values()) {
      if (tensor.device !== this.#frame.device) {
        tensor.replaceWith(keep(toDevice(tensor, this.#frame.device)));
      }
    }
  }

  #update(): void {
    const { values, training, again } = this.#frame;
    if (!training || again) return;
    for (const { slot, buffer } of this.updates) {
      scope(() => noGrad(() => copy_(buffer, values[slot] as Tensor)));
    }
  }
}
