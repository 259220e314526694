// What in a graph draws random numbers, and what becomes of it in evaluation: it is off, or what it is on average, or the user
// is told of it.
import type { Operator } from "../../../ffi/dispatch.ts";
import { fill_ } from "../../../ffi/make.ts";
import { emptyLike } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Node, Program } from "./graph.ts";

/** Those without a generator among their arguments, by the names of the operations that are not in place. */
const WITHOUT_GENERATOR = new Set(
  ("rand randn randint rand_like randn_like randint_like randperm dropout feature_dropout alpha_dropout " +
    "feature_alpha_dropout native_dropout bernoulli normal scaled_dot_product_attention " +
    "_scaled_dot_product_attention_math _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention " +
    "_scaled_dot_product_flash_attention_for_cpu lstm gru rnn_tanh rnn_relu").split(" "),
);

/** Whether an operation may draw from libtorch's generator. */
export const draws = (name: string, { schema }: Pick<Operator, "schema">): boolean =>
  WITHOUT_GENERATOR.has(name.replace(/_$/, "")) || schema.args.some(({ base }) => base === "Generator");

/** Those that evaluation turns off, by a flag or a share of theirs, or that it averages. */
const STILL_IN_EVALUATION = new Set(
  ("dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout rrelu scaled_dot_product_attention " +
    "_scaled_dot_product_attention_math _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention " +
    "_scaled_dot_product_flash_attention_for_cpu lstm gru rnn_tanh rnn_relu rrelu_with_noise_functional")
    .split(" "),
);

/** Of a node "torch.ops.aten.rand.default": "rand". */
const nameOf = ({ target }: Node): string => /^torch\.ops\.aten\.(\w+)/.exec(target)?.[1] ?? "";
const tensorIn = (node: Node, at: number): string => {
  const value = node.inputs[at]?.value;
  return value?.kind === "tensor" ? value.name : "";
};
const tensorOf = ({ outputs: [value] }: Node): string => value?.kind === "tensor" ? value.name : "";

/**
 * Stochastic depth as timm and transformers write it: floor(rand + share that is kept). By the name of what floor gives: the
 * share, which is what it is on average.
 */
export function keptShares({ nodes }: Pick<Program, "nodes">): Map<string, number> {
  const found = new Map<string, number>();
  const uses = new Map<string, Node[]>();
  for (const node of nodes) {
    for (const { value } of node.inputs) {
      if (value.kind === "tensor") uses.set(value.name, [...(uses.get(value.name) ?? []), node]);
    }
  }
  const only = (name: string): Node | undefined =>
    uses.get(name)?.length === 1 ? uses.get(name)![0] : undefined;
  for (const drawn of nodes) {
    if (!/^rand(_like)?$/.test(nameOf(drawn))) continue;
    const sum = only(tensorOf(drawn));
    if (!sum || !/^add_?$/.test(nameOf(sum)) || tensorIn(sum, 0) !== tensorOf(drawn)) continue;
    const share = sum.inputs[1]?.value, floor = only(tensorOf(sum));
    if (share?.kind !== "number" || share.value < 0 || share.value > 1 || sum.inputs.length > 2) continue;
    if (floor && /^floor_?$/.test(nameOf(floor))) found.set(tensorOf(floor), share.value);
  }
  return found;
}

type Call = (...args: unknown[]) => unknown;

/** What stands for a draw in evaluation; null where it is drawn there, too. */
export function averaged(name: string, overload: string, kept: number | undefined): Call | null {
  if (kept !== undefined) return (x) => fill_(emptyLike(x as Tensor), kept);
  // A share that is kept (stochastic depth).
  if (name === "bernoulli_" && overload === "float") return (x, p = 0.5) => fill_(x as Tensor, p as number);
  if (name === "bernoulli" && overload === "p") return (x, p) => fill_(emptyLike(x as Tensor), p as number);
  return null;
}

/** Nodes that evaluation draws in, too, each of which the user should know of. */
export function stillDrawing(program: Program, isDrawing: (node: Node) => boolean): Node[] {
  const kept = keptShares(program), depths = new Set<string>();
  for (const node of program.nodes) if (kept.has(tensorOf(node))) depths.add(tensorIn(node, 0));
  const feeds = (node: Node) =>
    program.nodes.some((next) => depths.has(tensorOf(next)) && tensorIn(next, 0) === tensorOf(node));
  return program.nodes.filter((node) => {
    const name = nameOf(node);
    if (name === "" || !isDrawing(node) || STILL_IN_EVALUATION.has(name.replace(/_$/, ""))) return false;
    const overload = node.target.split(".").at(-1)!;
    return averaged(name, overload, undefined) === null && !feeds(node);
  });
}
