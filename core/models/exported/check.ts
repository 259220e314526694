// Checks an exported program against libtorch's operations, the data and the batch. Each fault is one
// sentence.
import { libtorchIsOpen, openedLibtorch } from "../../../ffi/library.ts";
import { isFloating } from "../../../ffi/dtype.ts";
import { describe, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import type { Facts, InputColumn } from "../model.ts";
import type { Archive } from "./archive.ts";
import {
  type ExportedProgram,
  type GraphNode,
  sourceLineOf,
  type SymbolicSize,
  type TensorMeta,
} from "./graph.ts";
import { symbolIn } from "./operators.ts";
import type { GraphProblem } from "./plan.ts";
import { drawnPredictions } from "./judged_draws.ts";
import { valueNames } from "./inline.ts";
import type { Signature } from "./signature.ts";

const MAX_LINES = 30;

export function refuseProblems(path: string, problems: readonly GraphProblem[]): void {
  if (problems.length === 0) return;
  const groups = Map.groupBy(problems, ({ target, why }) => `${target}: ${why}`);
  const lines = [...groups].map(([what, all]) => {
    const places = [...new Set(all.map(({ place }) => place).filter((place) => place !== ""))];
    const more = places.length > 1 ? `, and ${places.length - 1} more` : "";
    return `  ${what}${places.length > 0 ? ` (${places[0]}${more})` : ""}`;
  });
  const shown = lines.length > MAX_LINES
    ? [...lines.slice(0, MAX_LINES), `  ... and ${lines.length - MAX_LINES} more`]
    : lines;
  const count = groups.size === 1 ? "an operation" : `${groups.size} operations`;
  throw new UserError(
    "usage",
    `${path}: ${count} of this graph can't be run with libtorch ${openedLibtorch().versionText}:\n${
      shown.join("\n")
    }${problems.every(isCustom) ? "" : MENDED}`,
  );
}

const MENDED =
  "\n  Often mended before saving: torch.export.save(program.run_decompositions(), path), which writes such operations with others.";

/** Only its library knows what such an operation is made of, and its own line says what to do. */
const isCustom = ({ target }: GraphProblem): boolean => /^torch\.ops\.(?!aten\.|higher_order\.)/.test(target);

export const sizesText = (sizes: readonly (number | string)[]): string =>
  `[${sizes.map((size) => typeof size === "number" ? size : "any").join(", ")}]`;

/** The program takes the data's samples, all columns as one input where `whole`, and gives what its losses take. */
export function checkData(
  archive: Archive,
  { inputs, loss, prediction }: Signature,
  facts: Facts,
  { whole, outputs = facts.outputs }: { readonly whole: boolean; readonly outputs?: number },
): void {
  if (whole) checkInput(archive, inputs[0].label, inputs[0].meta, facts);
  if (!loss) checkOutput(archive, prediction?.meta, facts, outputs);
}

function checkInput({ path }: Archive, name: string, meta: TensorMeta, facts: Facts): void {
  const { shape, dtype } = facts.input;
  const sizes = meta.sizes.slice(1);
  if (!fitSizes(shape, sizes)) {
    throw new UserError(
      "usage",
      `${path}: its input ${name} takes samples of shape ${sizesText(sizes)}, and the data's are ${
        sizesText(shape)
      }: choose other data, or export the model for these.`,
    );
  }
  const wanted = meta.dtype ?? "f32", tokens = !isFloating(wanted);
  if (tokens && facts.input.columns?.every(({ whole }) => whole)) { // they pass as f32, and become whole again
    return refuseLarge(path, { label: name, meta }, facts.input.columns);
  }
  // Tokens that the data declares as i64 stay whole.
  if (tokens === isFloating(dtype) && !(tokens && facts.task === "language")) {
    throw new UserError(
      "usage",
      `${path}: its input ${name} is ${
        tokens ? "whole numbers" : "floating"
      } (${wanted}), and the data's are ${
        tokens ? "floating" : "whole numbers"
      } (${dtype}): choose other data, or convert inside the model and export it again.`,
    );
  }
}

/** An index that is rounded names another thing. */
export function refuseLarge(
  path: string,
  { label, meta }: { readonly label: string; readonly meta: Pick<TensorMeta, "dtype"> },
  columns: readonly InputColumn[],
): void {
  const large = columns.find(({ large }) => large);
  if (!large) return;
  throw new UserError(
    "data",
    `${path}: its input ${label} takes whole numbers (${meta.dtype}), and the column ${large.name} has some from 16,777,216 on, which ` +
      "the floats of a batch can't tell apart: number what they stand for from 0 on, x = numpy.unique(x, return_inverse=True)[1].",
  );
}

/** Dimensions of 1 are added or removed until the shape has these sizes; null where that is impossible. */
export function fitSizes(shape: readonly number[], sizes: readonly SymbolicSize[]): number[] | null {
  const fitted: number[] = [];
  let i = 0;
  for (const size of sizes) {
    if (size === 1 && shape[i] !== 1) {
      fitted.push(1);
      continue;
    }
    while (
      shape[i] === 1 && size !== 1 &&
      (typeof size === "number" || shape.length - i > sizes.length - fitted.length)
    ) i++;
    if (i >= shape.length || (typeof size === "number" && size !== shape[i])) return null;
    fitted.push(shape[i++]);
  }
  return shape.slice(i).every((side) => side === 1) ? fitted : null;
}

function checkOutput(
  { path }: Archive,
  meta: TensorMeta | undefined,
  facts: Facts,
  outputs: number,
): void {
  if (meta && facts.task === "language") checkPositions(path, meta, facts);
  const given = widthOf(meta, facts);
  if (!meta || given === null) return;
  const { sizes } = meta;
  const fits = facts.task === "regression" ? given === outputs || sizes.length > 2 : given >= outputs;
  if (fits) return;
  const what = facts.task === "regression"
    ? "targets per sample"
    : facts.task === "language"
    ? "tokens"
    : "classes";
  throw new UserError(
    "usage",
    `${path}: the model gives ${given} numbers per sample, and the data has ${outputs} ${what}: ` +
      "change its last layer in Python and export it again.",
  );
}

/** The loss takes the next token at each position. */
function checkPositions(
  path: string,
  { sizes }: TensorMeta,
  { input: { shape: [length = 1] } }: Facts,
): void {
  if (sizes.length === 3 && (sizes[1] !== 1 || length === 1)) return;
  const last = sizes.length === 2 || sizes[1] === 1;
  throw new UserError(
    "usage",
    `${path}: the model gives ${sizesText(sizes)}${
      last ? ", scores of one position alone" : ""
    }, and the loss of a text takes scores of the next token at each of its positions, [samples, positions, tokens]: return ` +
      "the logits of all positions in Python and export it again.",
  );
}

/** How many numbers each sample, pixel or token gets; null where the graph does not say. */
function widthOf(meta: TensorMeta | undefined, { task }: Facts): number | null {
  const sizes = meta?.sizes ?? [];
  if (sizes.length < (task === "segmentation" ? 4 : 2)) return null; // scores of a line of pixels may have them last
  const given = sizes[task === "language" ? sizes.length - 1 : 1];
  return typeof given === "number" ? given : null;
}

/** A head for other data may be a few classes wider. */
const MUCH_WIDER = 2;

/** More scores than classes are trained all the same, which is odd where there are many more. */
function widthWarning(
  path: string,
  output: { readonly meta: TensorMeta; readonly label: string } | null,
  facts: Facts,
): string[] {
  const given = output && widthOf(output.meta, facts), { task, outputs } = facts;
  if (!output || given === null || task === "regression" || task === "language") return [];
  if (given <= MUCH_WIDER * outputs) return [];
  const name = output.label === "" ? "its first output" : `its output ${output.label}`;
  return [
    `Warning: ${path} gives ${given} numbers for each ${
      task === "segmentation" ? "pixel" : "sample"
    } (${name}), and the data has ${outputs} classes: the loss takes them as scores of ${given} classes. ` +
    "If they are something else, such as a reconstruction, give forward a loss of its own or name the scores logits.",
  ];
}

/** A sparse tensor's values are the same, so it says only what it costs. */
const sparseWarnings = (
  path: string,
  inputs: readonly { readonly label: string; readonly meta: TensorMeta }[],
): string[] =>
  inputs.filter(({ meta }) => meta.sparse).map(({ label }) =>
    `Warning: ${path} was exported with a sparse tensor as ${label}, and data is given to it dense: the values are the same, ` +
    "and it takes the memory and time of all zeros."
  );

/** The sizes may be fixed since the export. Returns the values of the symbols. */
export function bindSizes(
  path: string,
  name: string,
  meta: TensorMeta,
  tensor: Tensor,
  { ranges }: ExportedProgram,
  symbols: Map<string, number>,
): void {
  const { shape } = tensor, { sizes } = meta;
  if (shape.length !== sizes.length) {
    throw new UserError(
      "usage",
      `${path}: its input ${name} has ${sizes.length} dimensions, and is given ${describe(tensor)}.`,
    );
  }
  for (let i = 0; i < sizes.length; i++) {
    const size = sizes[i], given = shape[i];
    if (typeof size === "number") {
      if (size !== given) throw fixedSize(path, name, i, size, given);
      continue;
    }
    const found = symbolIn(size);
    if (found === null) continue;
    const { symbol, times } = found, value = given / times;
    const refuse = (what: string): never => {
      throw new UserError(
        "usage",
        `${path}: was exported for ${what} in dimension ${i} of ${name}, and is given ${given}.`,
      );
    };
    if (!Number.isInteger(value)) refuse(`multiples of ${times}`);
    const known = symbols.get(symbol);
    if (known !== undefined && known !== value) refuse(`${known * times}, as in an earlier dimension,`);
    symbols.set(symbol, value);
    // The minimum that PyTorch writes is often only what it needed to look at, so it is no reason to refuse.
    const most = ranges.get(symbol)?.max ?? Infinity;
    if (value > most) refuse(`at most ${most * times}`);
  }
}

function fixedSize(path: string, name: string, dim: number, size: number, given: number): UserError {
  const advice = dim === 0
    ? `set --batch-size ${size} with as many samples as that divides, or export it again with ` +
      `dynamic_shapes={"${name}": {0: torch.export.Dim("batch")}}`
    : "export it again with dynamic_shapes";
  const what = dim === 0 ? `batches of ${size}` : `${size} in dimension ${dim} of ${name}`;
  return new UserError("usage", `${path}: was exported for ${what}, and is given ${given}: ${advice}.`);
}

export function checkFixedBatch(
  path: string,
  input: string,
  fixed: number,
  run: { batch: number; samples: readonly number[] },
): void {
  if (run.batch !== fixed) throw fixedSize(path, input, 0, fixed, run.batch);
  const short = run.samples.find((count) => count % fixed !== 0);
  if (short !== undefined) throw fixedSize(path, input, 0, fixed, short % fixed);
}

/** These are odd but no faults: exported with model.eval(), or random in evaluation. */
export function warningsOf({ path, program }: Archive): string[] {
  return [
    ...frozen(path, program),
    ...surrogateWarnings(path, program),
    ...drawnInEvaluation({ path, program }),
    ...unreadInputs(path, program),
  ];
}

/** torch.export takes one tensor that was given twice, as for f(x, x), for the last of its inputs wherever it is read. */
function unreadInputs(
  path: string,
  { inputs, inputNames, nodes, outputs, tensors }: ExportedProgram,
): string[] {
  const read = new Set([...nodes.flatMap(given), ...outputs.flatMap(({ value }) => valueNames(value))]);
  const form = (name: string) => {
    const { dtype, sizes } = tensors.get(name) ?? {};
    return `${dtype} ${sizes}`;
  };
  const users = inputs.flatMap((input) => input.kind === "user" ? valueNames(input.value) : []);
  const label = (name: string) => inputNames[users.indexOf(name)] || name;
  return users.filter((name) => !read.has(name)).flatMap((name) => {
    const twin = users.find((other) => read.has(other) && form(other) === form(name));
    return twin === undefined ? [] : [
      `Warning: ${path} never reads its input ${label(name)}, and ${
        label(twin)
      } has the same form: where one example ` +
      "tensor was given for both, torch.export takes the one for the other. Export it again with a tensor for each.",
    ];
  });
}

/** The data makes these odd: inputs that were sparse, and outputs much wider than its classes. */
export const dataWarnings = (
  path: string,
  { inputs, loss, prediction }: Signature,
  facts?: Facts,
): string[] => [
  ...sparseWarnings(path, inputs),
  ...(facts && !loss ? widthWarning(path, prediction, facts) : []),
];

/**
 * Predictions depend on what evaluation draws; a loss alone that does is the same in every evaluation. libtorch's
 * schema shows that an operation draws: without libtorch, as for `inspect`, there is no note.
 */
export function drawnInEvaluation({ path, program }: Pick<Archive, "path" | "program">): string[] {
  if (!libtorchIsOpen()) return [];
  const places = new Set(
    drawnPredictions(program).map((node) => {
      const place = sourceLineOf(node), name = node.target.replace("torch.ops.", "");
      return place === "" ? name : `${name} (${place})`;
    }),
  );
  return [...places].map((place) =>
    `Warning: ${path} draws random numbers in evaluation, too: ${place}. Its predictions depend on them, and they on the seed and ` +
    "the sample alone; where only training is to draw, use torch.nn.Dropout, or torchvision's StochasticDepth."
  );
}

function frozen(path: string, program: ExportedProgram): string[] {
  const flag = (target: RegExp, names: readonly string[], on: boolean) =>
    program.nodes.filter((node) =>
      target.test(node.target) &&
      node.inputs.some(({ name, value }) =>
        names.includes(name) && value.kind === "number" && (value.value !== 0) === on
      )
    );
  const norms = flag(/\.batch_norm\./, ["training"], false);
  const drops = flag(/\.(feature_|alpha_)?dropout_?\./, ["train"], false);
  if (norms.length + drops.length === 0) return [];
  const parts = [
    ...(norms.length > 0 ? [`batch norm is frozen in ${norms.length} places`] : []),
    ...(drops.length > 0 ? [`dropout is off in ${drops.length}`] : []),
  ];
  const first = sourceLineOf([...norms, ...drops][0]);
  return [
    `Warning: ${path} was exported in evaluation mode: ${parts.join(", and ")}` +
    `${
      first === "" ? "" : ` (${first})`
    }. To train all of it, call model.train() before torch.export.export.`,
  ];
}

// Finds weights that no gradient reaches, since all ways from them lead through steps (a comparison, sign, round).
// Spiking networks and quantised ones give such steps a gradient of their own by a torch.autograd.Function, and
// torch.export writes its forward alone.

/** The gradient of these is zero. */
const STEP =
  /^torch\.ops\.aten\.(gt|ge|lt|le|eq|ne|greater|greater_equal|less|less_equal|not_equal|heaviside|sign|sgn|round|floor|ceil|trunc|fix)_?\./;
/** The user stops gradients by detach, and whole numbers have none. */
const STOP = /^torch\.ops\.aten\.(detach|argmax|argmin|argsort|one_hot)_?\./;
const VIEW =
  /^torch\.ops\.aten\.(select|slice|view|reshape|flatten|unflatten|transpose|permute|t|squeeze|unsqueeze|expand|narrow|diagonal|alias)\./;
const IN_PLACE = /[a-z0-9]_\.\w+$/;

/** Weights that learn nothing, with the steps that stop their gradients. */
function stoppedBySteps(
  program: ExportedProgram,
): { readonly weights: string[]; readonly steps: GraphNode[] } {
  const outputs = program.outputs.filter(({ kind }) => kind === "user" || kind === "loss").flatMap((
    { value },
  ) => valueNames(value));
  const makers = makersOf(program), learns = reached(makers, outputs, (node) => !STEP.test(node.target));
  const looks = reached(makers, outputs, () => true);
  const stopped = program.inputs.filter((input) =>
    input.kind === "parameter" && program.tensors.get(input.name)?.requiresGrad !== false &&
    looks.has(input.name) && !learns.has(input.name)
  );
  const names = stopped.flatMap((input) => "name" in input ? [input.name] : []);
  if (names.length === 0) return { weights: [], steps: [] };
  const steps = program.nodes.filter((node) =>
    STEP.test(node.target) && node.outputs.flatMap(valueNames).some((name) => learns.has(name)) &&
    names.some((name) => reached(makers, given(node), () => true).has(name))
  );
  return { weights: stopped.flatMap((input) => "of" in input ? [input.of] : []), steps };
}

const given = ({ inputs }: GraphNode): string[] => inputs.flatMap(({ value }) => valueNames(value));

/** By its name, the nodes that a value comes from: the one that makes it, and those that write to it. */
function makersOf({ nodes }: ExportedProgram): ReadonlyMap<string, readonly GraphNode[]> {
  const makers = new Map<string, GraphNode[]>();
  const add = (name: string, node: GraphNode) => void makers.set(name, [...makers.get(name) ?? [], node]);
  for (const node of nodes) {
    for (const name of node.outputs.flatMap(valueNames)) add(name, node);
    if (!IN_PLACE.test(node.target)) continue;
    for (let name: string | undefined = given(node)[0]; name !== undefined;) {
      const view: GraphNode | undefined = makers.get(name)?.[0];
      add(name, node);
      name = view && VIEW.test(view.target) ? given(view)[0] : undefined;
    }
  }
  return makers;
}

/** The names that gradients of these come to, through the nodes that let them through. */
function reached(
  makers: ReadonlyMap<string, readonly GraphNode[]>,
  from: readonly string[],
  through: (node: GraphNode) => boolean,
): ReadonlySet<string> {
  const found = new Set(from), left = [...from];
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    for (const node of makers.get(name) ?? []) {
      if (node.mode?.grad === false || STOP.test(node.target) || !through(node)) continue;
      for (const next of given(node)) {
        if (!found.has(next)) left.push(next);
        found.add(next);
      }
    }
  }
  return found;
}

/** A warning, or none. */
function surrogateWarnings(path: string, program: ExportedProgram): string[] {
  const { weights, steps } = stoppedBySteps(program);
  if (weights.length === 0) return [];
  const [first] = steps, place = first ? sourceLineOf(first) : "";
  const more = weights.length > 3 ? ` and ${weights.length - 3} more` : "";
  const what = first ? first.target.replace("torch.ops.", "") : "a step";
  return [
    `Warning: ${path}: no gradient reaches ${
      weights.slice(0, 3).join(", ")
    }${more}, since the gradient of ${what} is zero${
      place === "" ? "" : ` (${place})`
    }. torch.export writes the forward of a torch.autograd.Function without its backward: where such a one gives the step a ` +
    "gradient (a surrogate, straight through), write step.detach() + (soft - soft.detach()) instead: it has the gradient of soft.",
  ];
}
