// In fast plans: calls that simple ops do better than libtorch, written as simple ops.
import {
  batchNorm,
  batchNormBackward,
  batchNormOfGpu,
  batchNormOfGpuBackward,
  layerNorm,
  layerNormBackward,
  movesStatistics,
} from "./norms.ts";
import { type Builder, refsIn } from "./builder.ts";
import { type Call, nameOfCall } from "./call_rules.ts";
import { rebuilt } from "./derive.ts";
import type { Graph, Node, Ref } from "./graph.ts";
import { smallConvolution, smallConvolutionBackward } from "./convs.ts";
import { argsOf } from "./uses.ts";

/** Its results in order, as far as they are wanted. */
type Results = readonly (Ref | null)[];

/** `ref` finds an argument. Null where the call stays; `alone`: nobody else reads its running statistics. */
type Expansion = (
  b: Builder,
  call: Call,
  ref: (argument: number) => Ref,
  alone: () => boolean,
) => Results | null;

/** Its results 3 and 4 are what the running statistics become, arguments 3 and 4. */
const NORM = "_native_batch_norm_legit_functional";

const EXPANSIONS: Readonly<Record<string, Expansion>> = {
  convolution: (b, call, ref) => {
    const made = smallConvolution(b, call, ref);
    return made === null ? null : [made];
  },
  convolution_backward: smallConvolutionBackward,
  native_layer_norm: layerNorm,
  native_layer_norm_backward: layerNormBackward,
  native_batch_norm: batchNorm,
  [NORM]: batchNorm,
  native_batch_norm_backward: batchNormBackward,
};

/** A GPU's libtorch has one kernel for what would be several of ours. With gradient checkpointing statistics must not move twice. */
const { convolution: _, convolution_backward: _backward, ...ON_GPU_TWICE } = EXPANSIONS;
const ON_GPU: typeof EXPANSIONS = {
  ...ON_GPU_TWICE,
  [NORM]: (b, call, ref, alone) => (alone() ? batchNormOfGpu(b, call, ref) : null) ?? batchNorm(b, call, ref),
  native_batch_norm_backward: (b, call, ref) =>
    batchNormOfGpuBackward(b, call, ref) ?? batchNormBackward(b, call, ref),
};

export type ExpandedFor = "cpu" | "gpu" | "gpu, computed twice";
const BY_PLACE: Readonly<Record<ExpandedFor, typeof EXPANSIONS>> = {
  cpu: EXPANSIONS,
  gpu: ON_GPU,
  "gpu, computed twice": ON_GPU_TWICE,
};

export function expanded(graph: Graph, where: ExpandedFor = "cpu"): Graph {
  const expansions = BY_PLACE[where];
  const known = graph.nodes.some((node) =>
    node.op === "call" && Object.hasOwn(EXPANSIONS, nameOfCall(node.schema))
  );
  if (!known) return graph;
  const made = new Map<Ref, Results>(), inPlace = new Map<Ref, Ref>();
  const whole = rebuilt(graph, (b, node, r, to) => {
    if (node.op === "result") return made.get(node.args[0])?.[node.index] ?? null;
    if (node.op !== "call") return null;
    const name = nameOfCall(node.schema);
    const refOf = (i: number) => to((node.values[i] as { ref: Ref }).ref);
    const results = Object.hasOwn(expansions, name)
      ? expansions[name](b, node, refOf, () => movesAlone(graph, r, node))
      : null;
    if (results === null) return null;
    made.set(r, results);
    if (name === NORM && movesStatistics(b.node(results[0]!))) inPlace.set(r, results[0]!);
    return results[0] ?? b.number(0); // nobody reads it
  });
  if (inPlace.size === 0) return whole;
  // These calls write by themselves what was to be written at the end.
  const { nodes, writes = [] } = graph;
  const moved = writes.map(({ ref }) => inPlace.has(argsOf(nodes[ref])[0]));
  return {
    ...whole,
    effects: [...whole.effects, ...inPlace.values()],
    writes: whole.writes?.filter((_, i) => !moved[i]),
  };
}

/** Nobody but this norm reads its running statistics, before it moves them or afterwards. */
function movesAlone({ nodes, writes = [] }: Graph, norm: Ref, { values }: Call): boolean {
  const before = refsIn(values.slice(3, 5));
  const after = [3, 4].map((index) => nodes.findIndex((one) => isResult(one, norm, index)));
  const reads = (node: Node, ref: Ref) =>
    ref !== norm && !isGradient(node) &&
    argsOf(node).some((arg) => before.includes(arg) || after.includes(arg));
  const goesBack = (ref: Ref, held: number) => {
    const home = nodes[before[after.indexOf(ref)]];
    return home?.op === "tensor" && home.origin.from === "held" && home.origin.index === held;
  };
  return !nodes.some(reads) && writes.every(({ ref, held }) => !after.includes(ref) || goesBack(ref, held));
}

const isResult = (node: Node, call: Ref, index: number): boolean =>
  node.op === "result" && node.args[0] === call && node.index === index;

/** It takes the batch's own statistics. */
const isGradient = (node: Node): boolean =>
  node.op === "call" && nameOfCall(node.schema) === "native_batch_norm_backward" && node.values[7] === true;
