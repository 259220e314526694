// Finds the activation that a graph ends in, and gives what stands before it: losses and predictions of classes
// apply softmax or sigmoid themselves, so a graph that has done it already would train on another loss.
import { UserError } from "../../base/errors.ts";
import type { Facts } from "../model.ts";
import { type ExportedProgram, type GraphNode, type GraphValue, sourceLineOf } from "./graph.ts";

export type OutputActivation = "sigmoid" | "softmax" | "log_softmax" | "log_sigmoid" | "hardsigmoid";

interface Ending {
  readonly activation: OutputActivation;
  readonly node: GraphNode;
  /** These follow it up to the output, and change types and shapes alone. */
  readonly behind: readonly GraphNode[];
}

const ACTIVATION =
  /^torch\.ops\.aten\.(?:special_)?_?(log_softmax|softmax|sigmoid|log_sigmoid|hardsigmoid)(_?)\./;
/** They keep the values, and the dimensions in their order. */
const SAME = /\.(contiguous|clone|alias|to|_to_copy|lift_fresh_copy)\./;
const RESHAPES = /\.(view|_unsafe_view|reshape|squeeze|unsqueeze|flatten)\./;

/** The activation whose values are this output; null where the graph ends in anything else. */
export function endingOf(program: ExportedProgram, output: string): Ending | null {
  const makers = new Map(
    program.nodes.flatMap((node) =>
      node.outputs.flatMap((made) => made.kind === "tensor" ? [[made.name, node] as const] : [])
    ),
  );
  const behind: GraphNode[] = [];
  for (let node = makers.get(output); node; node = makers.get(givenTo(node))) {
    const found = ACTIVATION.exec(node.target);
    if (found) return { activation: found[1] as OutputActivation, node, behind };
    if (!SAME.test(node.target) && !RESHAPES.test(node.target)) return null;
    behind.unshift(node);
  }
  return null;
}

const givenTo = ({ inputs: [first] }: GraphNode): string =>
  first?.value.kind === "tensor" ? first.value.name : "";

/** The loss would apply this activation again; `outputs` is 1 where a logit stands for two classes. */
export function isRepeated(
  program: ExportedProgram,
  { activation, node, behind }: Ending,
  { task }: Facts,
  outputs: number,
): boolean {
  if (task === "regression") return false;
  if (activation === "sigmoid") return outputs === 1;
  if (activation !== "softmax" || behind.some(({ target }) => RESHAPES.test(target))) return false;
  const rank = program.tensors.get(givenTo(node))?.sizes.length ?? 0;
  const dim = node.inputs.find(({ name }) => name === "dim")?.value;
  const at = dim?.kind === "number" ? (dim.value + rank) % rank : NaN;
  return at === (task === "language" ? rank - 1 : 1);
}

/** The program with the logits as this output: what follows the activation is done to them. */
export function withoutActivation(
  program: ExportedProgram,
  path: string,
  output: string,
  { activation, node, behind }: Ending,
): ExportedProgram {
  if (node.target.includes(`${activation}_.`)) throw inPlace(path, activation, node);
  const renamed = new Map([[nameOf(node), givenTo(node)]]);
  const rename = (value: GraphValue): GraphValue =>
    value.kind === "tensor" ? { ...value, name: renamed.get(value.name) ?? value.name } : value;
  const tensors = new Map(program.tensors);
  const again = new Map(behind.map((step) => {
    const inputs = step.inputs.map(({ name, value }) => ({ name, value: rename(value) }));
    const made = `${nameOf(step)}.logits`; // no name of the exporter's has a dot
    tensors.set(made, program.tensors.get(nameOf(step))!);
    renamed.set(nameOf(step), made);
    return [step, { ...step, inputs, outputs: [{ kind: "tensor", name: made }] } satisfies GraphNode];
  }));
  const nodes = program.nodes.flatMap((step) => again.has(step) ? [step, again.get(step)!] : [step]);
  const outputs = program.outputs.map((one) =>
    one.value.kind === "tensor" && one.value.name === output && one.kind === "user"
      ? { ...one, value: rename(one.value) }
      : one
  );
  return { ...program, tensors, outputs, nodes: withoutUnused(nodes, outputs, [node, ...behind]) };
}

const nameOf = ({ outputs: [made] }: GraphNode): string => made?.kind === "tensor" ? made.name : "";

/** Candidates that nothing takes any more are left out. */
function withoutUnused(
  nodes: readonly GraphNode[],
  outputs: ExportedProgram["outputs"],
  candidates: readonly GraphNode[],
): GraphNode[] {
  let left = [...nodes];
  for (const candidate of candidates.toReversed()) {
    const taken = [...left.flatMap(({ inputs }) => inputs), ...outputs].some(({ value }) =>
      value.kind === "tensor"
        ? value.name === nameOf(candidate)
        : value.kind === "tensors" && value.names.includes(nameOf(candidate))
    );
    if (!taken) left = left.filter((node) => node !== candidate);
  }
  return left;
}

function inPlace(path: string, activation: OutputActivation, node: GraphNode): UserError {
  const place = sourceLineOf(node);
  return new UserError(
    "usage",
    `${path} ends in ${activation}_${
      place === "" ? "" : ` (${place})`
    }, which the loss applies itself and which writes over ` +
      "what it would need: return what goes into it, and export the model again.",
  );
}
