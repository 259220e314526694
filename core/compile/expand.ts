// In fast plans: calls that simple ops do better than libtorch, written as simple ops.
import type { Builder } from "./builder.ts";
import { type Call, nameOfCall } from "./call_rules.ts";
import { rebuilt } from "./derive.ts";
import type { Graph, Ref } from "./graph.ts";
import { smallConvolution, smallConvolutionBackward } from "./convs.ts";

/** The call's results in order, as far as they are wanted; null where it stays. `ref` finds an argument. */
type Expansion = (b: Builder, call: Call, ref: (argument: number) => Ref) => readonly (Ref | null)[] | null;

const EXPANSIONS: Readonly<Record<string, Expansion>> = {
  convolution: (b, call, ref) => {
    const made = smallConvolution(b, call, ref);
    return made === null ? null : [made];
  },
  convolution_backward: smallConvolutionBackward,
};

export function expanded(graph: Graph): Graph {
  const known = graph.nodes.some((node) =>
    node.op === "call" && Object.hasOwn(EXPANSIONS, nameOfCall(node.schema))
  );
  if (!known) return graph;
  const made = new Map<Ref, readonly (Ref | null)[]>();
  return rebuilt(graph, (b, node, r, to) => {
    if (node.op === "result") return made.get(node.args[0])?.[node.index] ?? null;
    if (node.op !== "call") return null;
    const name = nameOfCall(node.schema);
    const results = Object.hasOwn(EXPANSIONS, name)
      ? EXPANSIONS[name](b, node, (i) => to((node.values[i] as { ref: Ref }).ref))
      : null;
    if (results === null) return null;
    made.set(r, results);
    return results[0] ?? b.number(0); // nobody reads it
  });
}
