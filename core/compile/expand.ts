// In fast plans: calls that simple ops do better than libtorch, written as simple ops.
import {
  batchNorm,
  batchNormBackward,
  batchNormOfGpu,
  batchNormOfGpuBackward,
  layerNorm,
  layerNormBackward,
  type Written,
} from "./norms.ts";
import type { Builder } from "./builder.ts";
import { type Call, nameOfCall } from "./call_rules.ts";
import { rebuilt } from "./derive.ts";
import type { Graph, Node, Ref } from "./graph.ts";
import { smallConvolution, smallConvolutionBackward } from "./convs.ts";

/** Its results in order, as far as they are wanted, and what it writes to held tensors; null where the call stays. */
interface Made {
  readonly results: readonly (Ref | null)[];
  readonly written?: readonly Written[];
}

/** `ref` finds an argument. */
type Expansion = (b: Builder, call: Call, ref: (argument: number) => Ref) => Made | null;

const orNull = (results: Made["results"] | null): Made | null => results && { results };

const EXPANSIONS: Readonly<Record<string, Expansion>> = {
  convolution: (b, call, ref) => {
    const made = smallConvolution(b, call, ref);
    return made === null ? null : { results: [made] };
  },
  convolution_backward: (...call) => orNull(smallConvolutionBackward(...call)),
  native_layer_norm: (...call) => ({ results: layerNorm(...call) }),
  native_layer_norm_backward: (...call) => ({ results: layerNormBackward(...call) }),
  native_batch_norm: batchNorm,
  native_batch_norm_backward: (...call) => orNull(batchNormBackward(...call)),
};

/** A GPU's libtorch has one kernel for what would be several of ours. With gradient checkpointing statistics must not move twice. */
const { convolution: _, convolution_backward: _backward, ...ON_GPU_TWICE } = EXPANSIONS;
const ON_GPU: typeof EXPANSIONS = {
  ...ON_GPU_TWICE,
  native_batch_norm: (...call) => orNull(batchNormOfGpu(...call)) ?? batchNorm(...call),
  native_batch_norm_backward: (...call) =>
    orNull(batchNormOfGpuBackward(...call)) ?? orNull(batchNormBackward(...call)),
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
  const made = new Map<Ref, Made["results"]>(), written: Written[] = [];
  const whole = rebuilt(graph, (b, node, r, to) => {
    if (node.op === "result") return made.get(node.args[0])?.[node.index] ?? null;
    if (node.op !== "call") return null;
    const name = nameOfCall(node.schema);
    const found = Object.hasOwn(expansions, name)
      ? expansions[name](b, node, (i) => to((node.values[i] as { ref: Ref }).ref))
      : null;
    if (found === null) return null;
    made.set(r, found.results);
    written.push(...found.written ?? []);
    return found.results[0] ?? b.number(0); // nobody reads it
  });
  const writes = written.map(({ to, value }) => {
    const { origin } = whole.nodes[to] as Extract<Node, { op: "tensor" }>;
    if (origin.from !== "held") throw new Error("internal: statistics that are not held.");
    return { ref: value, held: origin.index };
  });
  return { ...whole, writes: [...whole.writes ?? [], ...writes] };
}
