// --model my.pt2: a model from an exported program, run through libtorch's own autograd. May import ffi, model, its
// siblings.
import { isFloating } from "../../../ffi/dtype.ts";
import { damaged } from "../../checkpoint/file_bytes.ts";
import { UserError } from "../../errors.ts";
import type { Loss } from "../losses.ts";
import { type Block, type Facts, type Model, parameterCount } from "../model.ts";
import { type Archive, openExported } from "./archive.ts";
import { Unfit } from "./arguments.ts";
import { checkFixedBatch, checkInput, checkOutput, refuseProblems, warningsOf } from "./check.ts";
import { cutsOf } from "./cuts.ts";
import type { Meta, Program } from "./graph.ts";
import { type Halves, halvesOf } from "./halves.ts";
import { readAsked, takesAll, unpackFor } from "./inputs.ts";
import { graphLoss } from "./loss.ts";
import { ExportedModule } from "./module.ts";
import { type Plan, planOf } from "./plan.ts";
import { Runner, updatesOf } from "./run.ts";
import { type Signature, signatureOf } from "./signature.ts";

export { isExported } from "./name.ts";

export interface ExportedOptions {
  /** What the data says, to be compared with the graph; left out where somebody else gives the inputs. */
  readonly facts?: Facts;
  /** Numbers per sample that the loss wants. */
  readonly outputs?: number;
  /** At most so many blocks; 0 for as many as there are. */
  readonly blocks?: number;
  /** Which columns each input takes, as --inputs says it. */
  readonly inputs?: readonly string[];
}

export interface ExportedModel extends Model {
  readonly root: ExportedModule;
  /** What a user should hear of: frozen batch norm, for instance. */
  readonly warnings: readonly string[];
  /** What it takes of the features. */
  readonly inputs: readonly { readonly name: string; readonly meta: Meta }[];
  /** The graph's own; null where it has none. */
  readonly loss: Loss | null;
  /** The input that its loss takes the targets as, or null. */
  readonly labels: string | null;
  /** Whether forward gives something beside its loss. */
  readonly predicts: boolean;
  /** It takes columns apart: each input its own. */
  readonly apart: boolean;
  /** It has batch norm, which --sync-bn does not reach here. */
  readonly normalises: boolean;
}

/** What an exported model is refused with before anything is read; nothing for all others. */
export function checkRun(
  model: Model,
  run: {
    batch: number;
    samples: readonly number[];
    syncBn: boolean;
    /** Settings that change the values of features. */
    changes: readonly string[];
  },
): void {
  if (!("inputs" in model)) return;
  const { name, inputs, normalises, apart } = model as ExportedModel;
  if (apart && run.changes.length > 0) {
    throw new UserError(
      "usage",
      `${
        run.changes.join(", ")
      } would change the columns of all inputs of ${name} alike: leave it out, and do it in ` +
        "forward for the one that wants it.",
    );
  }
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
  const { path, program } = archive;
  const plan = planOf(program, path);
  const { facts } = options;
  const asked = readAsked(path, options.inputs ?? []);
  const signature = signatureOf(program, path, plan, asked, facts?.input.columns);
  refuseProblems(path, plan.problems);
  const { inputs, loss, target } = signature;
  const unpack = facts ? unpackFor(path, inputs, asked, target, facts) : null;
  const whole = !facts || takesAll(inputs, asked, facts);
  if (facts && whole) checkInput(archive, inputs[0].label, inputs[0].meta, facts);
  if (facts && !loss) {
    checkOutput(archive, signature.prediction?.meta, facts, options.outputs ?? facts.outputs);
  }
  const root = new ExportedModule(archive);
  const halves = halvesOf(plan, path, target?.slot ?? -1, loss?.slot ?? -1);
  const prediction = predictionSlot(path, signature, halves, program);
  const updates = updatesOf(program, plan, root);
  const names = namesOf(program, plan);
  const floating = (slot: number) => isFloating(program.tensors.get(names.get(slot) ?? "")?.dtype ?? "i64");
  const most = updates.length > 0 ? 1 : options.blocks ?? 0;
  const pieces = cutsOf(halves.body, prediction, floating, most, halves.between);
  const runner = new Runner({ path, program, root, signature, halves, updates, prediction, unpack });
  const blocks = pieces.map((piece, i) => runner.block(piece, pieces[i - 1]?.out ?? -1));
  const warnings = warningsOf(archive);
  return {
    name: path,
    root,
    blocks,
    convolutional: program.nodes.some(({ target }) => /\.(conv[23]d|convolution)\./.test(target)),
    describe: () => said(archive, blocks, signature, [parameterCount(root), plan.steps.length], warnings),
    draws: plan.draws,
    warnings,
    inputs: inputs.map(({ label, meta }) => ({ name: label, meta })),
    loss: loss && graphLoss(runner, signature, facts),
    labels: target?.label ?? null,
    predicts: signature.prediction !== null,
    apart: !whole,
    normalises: program.nodes.some(({ target }) => /batch_norm/.test(target)),
  };
}

function said(
  { path, program }: Archive,
  blocks: readonly Block[],
  { inputs, target, loss }: Signature,
  [parameters, steps]: readonly [number, number],
  warnings: readonly string[],
): string {
  const parts = `${blocks.length} ${blocks.length === 1 ? "block" : "blocks"}`;
  const from = target ? `, which takes the targets as ${target.label}` : "";
  return [
    `${path}: exported by PyTorch ${program.torch}, ${steps} operations in ${parts}, ${
      parameters.toLocaleString("en-US")
    } parameters`,
    ...(blocks.length > 1 ? [`Blocks: ${blocks.map(({ name }) => name).join(", ")}`] : []),
    ...(inputs.length > 1 ? [`Inputs: ${inputs.map(({ label }) => label).join(", ")}`] : []),
    ...(loss ? [`The graph has a loss of its own${from}`] : []),
    ...warnings,
  ].join("\n");
}

/** The name of what a step makes, by its slot. */
function namesOf(program: Program, plan: Plan): Map<number, string> {
  const names = new Map<number, string>();
  for (const name of program.tensors.keys()) {
    try {
      names.set(plan.slotOf(name), name);
    } catch { /* a name that no step makes */ }
  }
  return names;
}

/** What the blocks end in: where forward gives its loss alone, what the loss is made from. */
function predictionSlot(path: string, signature: Signature, halves: Halves, program: Program): number {
  const { prediction, loss, target } = signature;
  const made = new Set(halves.body.steps.flatMap(({ defines }) => defines));
  if (!prediction) {
    const names = namesOf(program, halves.body);
    const dims = (slot: number) => program.tensors.get(names.get(slot) ?? "")?.sizes.length ?? 0;
    return halves.between.find((slot) => made.has(slot) && dims(slot) > 1) ??
      halves.between.find((slot) => made.has(slot)) ?? loss!.slot;
  }
  if (target && !made.has(prediction.slot)) {
    throw new UserError(
      "usage",
      `${path}: its output ${
        prediction.label || prediction.name
      } hangs on the targets (${target.label}), so nothing could ` +
        `be predicted without them: give the model what it may know of them as another input, and say which column that is ` +
        `with --inputs.`,
    );
  }
  return prediction.slot;
}
