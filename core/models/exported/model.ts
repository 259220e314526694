// Makes a model like any other of an exported program (.pt2), and a loss of the one inside its graph.
import { formatWhole } from "../../base/format.ts";
import type { Attends } from "../../../ffi/attention.ts";
import { isFloating } from "../../../ffi/dtype.ts";
import { damagedCheckpoint } from "../../base/file_bytes.ts";
import { UserError } from "../../base/errors.ts";
import type { Loss } from "../losses.ts";
import { type Block, type Facts, type Model, parameterCount } from "../model.ts";
import { type Archive, openExported } from "./archive.ts";
import { endingOf, isRepeated, type OutputActivation, withoutActivation } from "./activation.ts";
import { UnfitOperator } from "./operators.ts";
import {
  checkData,
  checkFixedBatch,
  dataWarnings,
  drawnInEvaluation,
  refuseProblems,
  sizesText,
  warningsOf,
} from "./check.ts";
import { cutsOf, graphHalves, type Halves, turnPieces } from "./cuts.ts";
import type { ExportedProgram, TensorMeta } from "./graph.ts";
import {
  isWithin,
  readRequestedColumns,
  type RequestedColumns,
  type Signature,
  signatureOf,
  takesAll,
  unpackFor,
} from "./signature.ts";
import { ExportedModule } from "./module.ts";
import { GraphRunner, updatesOf } from "./run.ts";
import { forBatches } from "./whole_sample.ts";
import type { LoraOptions } from "../nn/lora.ts";
import { lowRankWeights } from "./lora.ts";
import { type GraphPlan, planGraph } from "./plan.ts";
import type { Tensor } from "../../../ffi/tensor.ts";

export { isExported } from "../user/file.ts";

interface ExportedOptions {
  /** The graph is compared with these; they are absent where another program gives the inputs. */
  readonly facts?: Facts;
  readonly outputs?: number;
  /** There are at most this many blocks; 0 sets no limit. */
  readonly blocks?: number;
  readonly inputs?: readonly string[];
  readonly lora?: LoraOptions | null;
}

export interface ExportedModel extends Model {
  readonly root: ExportedModule;
  readonly warnings: readonly string[];
  readonly inputs: readonly { readonly name: string; readonly meta: TensorMeta }[];
  readonly loss: Loss | null;
  /** The loss takes the targets as this input. */
  readonly labels: string | null;
  readonly predicts: boolean;
  /** The sizes of what it predicts, the batch's first; a text is a size that may vary. */
  readonly prediction: TensorMeta["sizes"];
  /** The prediction is the values of this activation; null stands for any other. */
  readonly ending: OutputActivation | null;
  /** The prediction goes into this activation, which the graph ended in. */
  readonly cut: OutputActivation | null;
  /** Each input takes columns of its own. */
  readonly separateInputs: boolean;
  /** --sync-bn does not reach the batch norm in here. */
  readonly normalises: boolean;
  /** Attentions whose heads and width the graph says. */
  readonly attends: readonly Attends[];
}

export function checkRun(
  model: Model,
  run: {
    batch: number;
    samples: readonly number[];
    syncBn: boolean;
    changes: readonly string[];
  },
): void {
  if (!("inputs" in model)) return;
  const { name, inputs, normalises, separateInputs } = model as ExportedModel;
  if (separateInputs && run.changes.length > 0) {
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
    return build({ ...archive, program: forBatches(archive.program, options.facts?.input.columns) }, options);
  } catch (error) {
    if (error instanceof UnfitOperator) {
      throw damagedCheckpoint(path, `is not an exported program that can be read: ${error.message}`);
    }
    throw error;
  }
}

function read({ path, program }: Archive, requested: RequestedColumns, options: ExportedOptions) {
  const { facts, outputs = facts?.outputs ?? 0 } = options;
  const plan = planGraph(program, path);
  const signature = signatureOf(program, path, plan, requested, facts?.input.columns);
  refuseProblems(path, plan.problems);
  const output = signature.prediction?.name ?? "";
  const ending = endingOf(program, output), activation = ending?.activation ?? null;
  if (!facts || !ending || !isRepeated(program, ending, facts, outputs)) {
    const notes = activation === "sigmoid" && facts ? sigmoidsOfClasses(path, facts) : [];
    return { program, plan, signature, ending: activation, cut: null, notes };
  }
  const cut = withoutActivation(program, path, output, ending), again = planGraph(cut, path);
  return {
    program: cut,
    plan: again,
    signature: signatureOf(cut, path, again, requested, facts.input.columns),
    ending: null,
    cut: activation,
    notes: [
      `The graph ends in ${activation}, which loss, metrics and predictions apply themselves: they take what goes into it, ` +
      "so the loss is that of the graph's probabilities",
    ],
  };
}

/** Their sum may be anything: cross entropy takes them as logits all the same, in Python, too. */
const sigmoidsOfClasses = (path: string, { task }: Facts): string[] =>
  task === "regression" ? [] : [
    `Warning: ${path} ends in sigmoid, and the data has a class for each sample: the losses of classes apply softmax to its ` +
    "values between 0 and 1, as torch's cross_entropy does. To train it well, return what goes into the sigmoid.",
  ];

function build(archive: Archive, options: ExportedOptions): ExportedModel {
  const { path } = archive;
  const { facts } = options;
  const requested = readRequestedColumns(path, options.inputs ?? []);
  const { program, plan, signature, ending, cut, notes } = read(archive, requested, options);
  const { inputs, loss, target, turns } = signature;
  const unpack = facts ? unpackFor(path, inputs, requested, target, facts) : null;
  const whole = !facts || takesAll(inputs, requested, facts);
  if (facts) checkData(archive, signature, facts, { whole, outputs: options.outputs });
  const root = new ExportedModule(archive);
  const lowRank = options.lora ? lowRankWeights(path, program, root.tensors, options.lora) : [];
  root.adapt(lowRank);
  const slotIn = (of: { readonly slot: number } | null) => of?.slot ?? -1;
  const losses = turns.map(({ output }) => output.slot);
  const halves = graphHalves(plan, path, {
    ...{
      target: slotIn(target),
      loss: slotIn(loss),
      prediction: slotIn(signature.prediction),
      turns: losses,
    },
  });
  const prediction = losses.length > 0
    ? slotIn(signature.prediction)
    : predictionSlot(path, signature, halves, program);
  const updates = updatesOf(program, plan, root);
  const names = namesOf(program, plan);
  const floating = (slot: number) => isFloating(program.tensors.get(names.get(slot) ?? "")?.dtype ?? "i64");
  const most = updates.length > 0 ? 1 : options.blocks ?? 0;
  const runner = new GraphRunner({
    path,
    program,
    root,
    signature,
    halves,
    updates,
    prediction,
    unpack,
    lowRank,
  });
  const taking = turns.length > 0 ? runner.turns(turnPieces(halves.body, losses)) : null;
  const pieces = taking ? [] : cutsOf(halves.body, prediction, floating, most, halves.between);
  const blocks = taking
    ? [taking.block]
    : pieces.map((piece, i) => runner.block(piece, pieces[i - 1]?.out ?? -1));
  const warnings = [...warningsOf(archive), ...dataWarnings(path, signature, facts)];
  return {
    name: path,
    root,
    blocks,
    convolutional: program.nodes.some(({ target }) => /\.(conv[23]d|convolution)\./.test(target)),
    describe: () =>
      describeModel(archive, blocks, signature, [parameterCount(root), plan.steps.length], [
        ...notes,
        ...warnings,
      ]),
    draws: plan.draws,
    drawing: drawnInEvaluation(archive),
    ...(plan.drawing.length > 0 && { drawFor: (seed: number, ids: Int32Array) => runner.drawFor(seed, ids) }),
    warnings,
    inputs: inputs.map(({ label, meta }) => ({ name: label, meta })),
    loss: loss && graphLoss(taking?.apply ?? ((target) => runner.loss(target)), facts),
    ...(taking && {
      turns: {
        names: turns.map(({ trains }) => trains.join(", ")),
        of: (parameter) => turns.findIndex(({ trains }) => trains.some((name) => isWithin(parameter, name))),
        begin: taking.begin,
      },
    }),
    ...(halves.after.steps.length > 0 && { afterStep: () => runner.afterStep() }),
    labels: target?.label ?? null,
    predicts: signature.prediction !== null,
    prediction: signature.prediction?.meta.sizes ?? [],
    ending,
    cut,
    separateInputs: !whole,
    normalises: program.nodes.some(({ target }) => /batch_norm/.test(target)),
    attends: attentionsIn(program),
  };
}

function attentionsIn({ nodes, tensors }: ExportedProgram): Attends[] {
  return nodes.filter(({ target }) => /\.scaled_dot_product_attention\./.test(target)).flatMap(
    ({ inputs }) => {
      const value = (name: string) => inputs.find((input) => input.name === name)?.value;
      const number = (name: string) => ((of) => of?.kind === "number" ? of.value : 0)(value(name));
      const query = value("query"), mask = value("attn_mask");
      const sizes = query?.kind === "tensor" ? tensors.get(query.name)?.sizes ?? [] : [];
      const heads = sizes.at(-3), width = sizes.at(-1);
      if (typeof heads !== "number" || typeof width !== "number") return [];
      return [{
        ...{ heads, width, causal: number("is_causal") !== 0, dropout: number("dropout_p") },
        masked: mask !== undefined && mask.kind !== "none",
      }];
    },
  );
}

function describeModel(
  { path, program }: Archive,
  blocks: readonly Block[],
  { inputs, target, loss, prediction, turns, unused }: Signature,
  [parameters, steps]: readonly [number, number],
  notes: readonly string[],
): string {
  const parts = `${blocks.length} ${blocks.length === 1 ? "block" : "blocks"}`;
  const from = target ? `, which takes the targets as ${target.label}` : "";
  return [
    `${path}: exported by PyTorch ${program.torch}, ${steps} operations in ${parts}, ${
      formatWhole(parameters)
    } parameters`,
    ...(blocks.length > 1 ? [`Blocks: ${blocks.map(({ name }) => name).join(", ")}`] : []),
    ...(inputs.length > 1 ? [`Inputs: ${inputs.map(({ label }) => label).join(", ")}`] : []),
    ...(turns.length > 0
      ? [`Losses take turns: ${turns.map(({ trains }) => trains.join(", ")).join("; ")}`]
      : loss
      ? [`The graph has a loss of its own${from}`]
      : []),
    ...(unused.length > 0
      ? [
        `Outputs that nothing takes: ${unused.map(outputText).join(", ")}${
          prediction ? `; the loss takes ${outputText(prediction)}` : ""
        }`,
      ]
      : []),
    ...notes,
  ].join("\n");
}

const outputText = ({ label, name, meta }: NonNullable<Signature["prediction"]>): string =>
  `${label || name} ${sizesText(meta.sizes)}`;

function namesOf(program: ExportedProgram, plan: GraphPlan): Map<number, string> {
  const names = new Map<number, string>();
  for (const name of program.tensors.keys()) {
    try {
      names.set(plan.slotOf(name), name);
    } catch { /* a name that no step makes */ }
  }
  return names;
}

/** The blocks end in this: where forward gives its loss alone, in the value that the loss is made from. */
function predictionSlot(
  path: string,
  signature: Signature,
  halves: Halves,
  program: ExportedProgram,
): number {
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
      } depends on the targets (${target.label}), so nothing could ` +
        `be predicted without them: give the model what it may know of them as another input, and say which column that is ` +
        `with --inputs.${areTokens(target.meta, prediction.meta) ? SHIFTED : ""}`,
    );
  }
  return prediction.slot;
}

const SHIFTED =
  " A decoder that is fed the labels, shifted right inside forward (T5, BART), takes them as another input, which then is not " +
  "shifted: export it with decoder_input_ids beside labels, and give the data a column decoder_input_ids of " +
  "model.prepare_decoder_input_ids_from_labels(labels).";

const areTokens = (target: TensorMeta, scores: TensorMeta): boolean =>
  !isFloating(target.dtype ?? "f32") && target.sizes.length === 2 && scores.sizes.length === 3;

/** The loss counts as a mean over the samples: a batch weighs as much as it has of them. */
function graphLoss(apply: (target: Tensor) => Tensor, facts: Facts | undefined): Loss {
  return {
    name: "graph",
    outputs: facts?.outputs ?? 0,
    like: "none", // lossFor says otherwise where the prediction can be compared with the targets
    apply: (_, target: Tensor) => apply(target),
    validCount: (target) => target.shape[0],
  };
}

/** `target`: the shape of one. */
function likeness(
  sizes: ExportedModel["prediction"],
  { task, outputs, targetless }: Facts,
  target: readonly number[],
): NonNullable<Loss["like"]> {
  if (targetless) return "none";
  const enough = (size: unknown) => typeof size === "number" && size >= outputs;
  switch (task) {
    case "classification":
      return sizes.length === 2 && enough(sizes[1]) ? "cross_entropy" : "none";
    case "segmentation":
      return sizes.length === target.length + 2 &&
          (enough(sizes[1]) || sizes.length === 3 && enough(sizes[2]))
        ? "cross_entropy"
        : "none";
    case "language":
      return sizes.length === 3 && enough(sizes[2]) ? "cross_entropy" : "none";
    case "regression":
      return isSized(sizes.slice(1), target) ? "mse" : "none";
  }
}

/** Dimensions of 1 make no difference. */
function isSized(sizes: ExportedModel["prediction"], shape: readonly number[]): boolean {
  const own = sizes.filter((size) => size !== 1), wanted = shape.filter((size) => size !== 1);
  return own.length === wanted.length &&
    own.every((size, i) => typeof size !== "number" || size === wanted[i]);
}

/** The graph's own loss is used where it has one and no other was requested. `target`: the shape of one. */
export function lossFor(
  model: Model,
  requested: string,
  chosen: Loss,
  facts: Facts,
  target: readonly number[] = [facts.outputs],
): Loss {
  const { loss = null, labels = null, predicts = true, prediction = [], ending = null, name } =
    model as Partial<
      ExportedModel
    >;
  if (requested === "graph" && !loss) {
    throw new UserError(
      "usage",
      `--loss graph takes the loss that an exported program (.pt2) has among its outputs, and ${name} has none: name ` +
        "one, such as --loss mse, or give an output the name loss in Python.",
    );
  }
  if (loss && (requested === "auto" || requested === "graph")) {
    if (facts.targetless && labels !== null) {
      throw nothingToPredict(`the loss of ${name} takes targets as ${labels}`);
    }
    return predicts ? { ...loss, like: likeness(prediction, facts, target) } : loss;
  }
  if (facts.targetless) {
    const why = loss ? `--loss ${requested} judges by targets` : `${name} has no loss of its own`;
    throw nothingToPredict(why);
  }
  if (loss && !predicts) {
    throw new UserError(
      "usage",
      `${name}: forward gives its loss alone, so --loss ${requested} has nothing to judge: leave --loss out.`,
    );
  }
  if (takesLogs(chosen) && "ending" in model && ending !== "log_softmax") {
    const { cut } = model as ExportedModel;
    if (cut !== null) throw notLogs(`${name} ends in ${cut}`);
    const note =
      `Warning: the loss nll takes logarithms of probabilities, and ${name} does not end in log_softmax: for ` +
      "scores, use --loss cross_entropy";
    return { ...chosen, note };
  }
  return ending && chosen.ofProbabilities ? fitting(chosen.ofProbabilities, ending, name ?? "") : chosen;
}

export const takesLogs = ({ name, terms }: Loss): boolean =>
  name === "nll" || (terms?.some(({ loss }) => takesLogs(loss)) ?? false);

export const notLogs = (why: string): UserError =>
  new UserError(
    "usage",
    `the loss nll takes logarithms of probabilities, and ${why}: use --loss cross_entropy, which takes scores, or a model ` +
      "of your own that ends in log_softmax.",
  );

/** --loss bce takes logits, and a graph that ends in probabilities has none to give. */
function fitting(ofProbabilities: Loss, ending: OutputActivation, name: string): Loss {
  if (!ending.startsWith("log_")) {
    const note =
      `${name} ends in ${ending}: the loss bce takes these probabilities as they are, as BCELoss does`;
    return { ...ofProbabilities, note };
  }
  throw new UserError(
    "usage",
    `--loss bce takes logits, and ${name} ends in ${ending}, which gives logarithms of probabilities: return what goes into ` +
      "it and export the model again, or choose another loss.",
  );
}

const nothingToPredict = (why: string) =>
  new UserError(
    "data",
    `All columns of the data are features, and ${why}: name what it predicts with --targets.`,
  );
