// LoRA in an exported program: its layers are ops, so what an adapter adds stands in the weight that they are given. The sums
// are those of adapters beside layers, and so are names and gradients.
import { add, longLivedUninitialised, longLivedZeros, scale } from "../../../ffi/make.ts";
import { mm, reshape } from "../../../ffi/ops.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { checkPatterns, matcher } from "../../base/patterns.ts";
import { kaimingUniform } from "../nn/init.ts";
import { type LoraOptions, refuseGrouped } from "../nn/lora.ts";
import type { ExportedProgram, GraphNode } from "./graph.ts";

/** The weight that stands in the graph for a parameter of this name. */
export interface LowRank {
  readonly weight: string;
  /** peft's names and what they stand for. */
  readonly named: readonly (readonly [string, Tensor])[];
  effective(weight: Tensor): Tensor;
}

interface Layer {
  readonly name: string;
  readonly weight: string;
  readonly groups: number;
}

/** Adapters for the layers that the options choose, beside these weights. */
export function lowRankWeights(
  path: string,
  program: ExportedProgram,
  weights: ReadonlyMap<string, Tensor>,
  { rank, alpha, dropout, only, butLast }: LoraOptions,
): LowRank[] {
  if (dropout > 0) {
    throw new UserError(
      "usage",
      `--lora-dropout drops inputs of layers, and the exported program ${path} has ops in their place: leave it out.`,
    );
  }
  const all = layersIn(program), fitting = all.filter(({ groups }) => groups === 1);
  refuseGrouped(all, only);
  checkPatterns("--lora-for", only, fitting.map(({ name }) => name));
  const patterned = matcher(only), last = all.at(-1);
  const chosen = fitting.filter((layer) =>
    only.length > 0 ? patterned(layer.name) : !(butLast && layer === last)
  );
  if (chosen.length === 0) {
    throw new UserError(
      "usage",
      `--lora-rank finds no linear layer and no convolution of one group beside the head in ${path}: train without it.`,
    );
  }
  return chosen.map(({ name, weight }) =>
    lowRank(name, weight, weights.get(weight)!.shape, rank, alpha / rank)
  );
}

function lowRank(
  name: string,
  weight: string,
  shape: readonly number[],
  rank: number,
  factor: number,
): LowRank {
  const [out, ...row] = shape, ones = row.slice(1).map(() => 1);
  const down = keep(kaimingUniform(longLivedUninitialised([rank, ...row])));
  const up = keep(longLivedZeros([out, rank, ...ones])); // it adds nothing before it has learnt
  return {
    weight,
    named: [[`${name}.lora_A.weight`, down], [`${name}.lora_B.weight`, up]],
    effective(own) {
      const product = mm(reshape(up, [out, rank]), reshape(down, [rank, -1]));
      return add(own, scale(reshape(product, own.shape), factor));
    },
  };
}

/** Parameters that are weights of linear layers and convolutions, in the order in which the graph uses them. */
function layersIn({ nodes, inputs }: ExportedProgram): Layer[] {
  const parameters = new Map(inputs.flatMap((i) => i.kind === "parameter" ? [[i.name, i.of] as const] : []));
  const turned = new Map<string, string>();
  const layers = new Map<string, Layer>();
  for (const node of nodes) {
    const [output] = node.outputs;
    if (/\.(t|permute|transpose)\./.test(node.target) && output?.kind === "tensor") {
      const source = parameters.get(tensorNamed(node, "self"));
      if (source !== undefined) turned.set(output.name, source);
    }
    const weight = /\.(linear|conv[123]d|convolution)\./.test(node.target)
      ? parameters.get(tensorNamed(node, "weight"))
      : /\.(mm|addmm)\./.test(node.target)
      ? turned.get(tensorNamed(node, "mat2"))
      : undefined;
    const [, name] = /^(.+)\.(?:weight|in_proj_weight)$/.exec(weight ?? "") ?? [];
    if (weight === undefined || name === undefined || numberNamed(node, "transposed") === 1) continue;
    if (!layers.has(weight)) layers.set(weight, { name, weight, groups: numberNamed(node, "groups") || 1 });
  }
  return [...layers.values()];
}

const valueNamed = ({ inputs }: GraphNode, name: string) =>
  inputs.find((input) => input.name === name)?.value;

function tensorNamed(node: GraphNode, name: string): string {
  const value = valueNamed(node, name);
  return value?.kind === "tensor" ? value.name : "";
}

function numberNamed(node: GraphNode, name: string): number {
  const value = valueNamed(node, name);
  return value?.kind === "number" ? value.value : 0;
}
