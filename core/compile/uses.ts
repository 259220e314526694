// Who needs which value of a graph.
import type { Graph, Node, Ref } from "./graph.ts";

export const argsOf = (node: Node): readonly Ref[] => "args" in node ? node.args : [];

/** The values that a step's results need. */
export function liveIn({ nodes, output, loss, gradients, effects, writes = [] }: Graph): Set<Ref> {
  const live = new Set<Ref>();
  const todo = [output, loss, ...effects, ...gradients.filter((ref) => ref !== null)];
  for (const { ref } of writes) todo.push(ref);
  // A parameter without a gradient is needed for its shape.
  nodes.forEach((node, ref) => {
    if (node.op === "tensor" && node.origin.from === "parameter") todo.push(ref);
  });
  while (todo.length > 0) {
    const ref = todo.pop()!;
    if (live.has(ref)) continue;
    live.add(ref);
    todo.push(...argsOf(nodes[ref]));
  }
  return live;
}

/** How often each value is read. */
export function usesIn(
  { nodes, output, loss, gradients, writes = [] }: Graph,
  live: ReadonlySet<Ref>,
): Map<Ref, number> {
  const uses = new Map<Ref, number>();
  const use = (ref: Ref) => uses.set(ref, (uses.get(ref) ?? 0) + 1);
  nodes.forEach((node, ref) => live.has(ref) && argsOf(node).forEach(use));
  for (const ref of [output, loss, ...gradients, ...writes.map(({ ref }) => ref)]) if (ref !== null) use(ref);
  return uses;
}
