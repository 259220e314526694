// Gradient checkpointing in a graph: backward reads a block's values from a second computation of them, which begins when
// it comes to that block. So only what passes from block to block lives from forward to backward.
import { refsIn, withRefs } from "./builder.ts";
import { type Graph, type Node, type Ref, withNodes } from "./graph.ts";
import { argsOf } from "./uses.ts";

const VIEWS: ReadonlySet<string> = new Set(["reshape", "expand", "permute", "slice", "result"]);

/** The same values and gradients. */
export function recomputed(graph: Graph): Graph {
  const { nodes, blocks = [] } = graph;
  const last = blocks.reduce<number>((most, block) => Math.max(most, block ?? 0), 0);
  const saved = savedForBackward(graph);
  const made: Node[] = [], now: Ref[] = [];
  const again = new Map<Ref, Ref>(), begun = new Set<number>();
  const push = (node: Node): Ref => made.push(node) - 1;
  const second = (ref: Ref): Ref => {
    const block = blocks[ref], node = nodes[ref];
    if (block === undefined || block === last || saved.has(ref) || !("args" in node)) return now[ref];
    const known = again.get(ref);
    if (known !== undefined) return known;
    begun.add(block);
    const copy = push({ ...moved(node, second), recomputedAt: begun.size });
    again.set(ref, copy);
    return copy;
  };
  nodes.forEach((node, ref) => {
    const forward = blocks[ref] !== undefined || !("args" in node);
    const own = moved(node, forward ? (arg) => now[arg] : second);
    const memory = saved.has(ref) && node.kind === "f32" && "args" in node && !VIEWS.has(node.op);
    now[ref] = push(forward ? memory ? { ...own, saved: true } : own : { ...own, recomputedAt: begun.size });
  });
  return withNodes(graph, made, (ref) => now[ref]);
}

/** Values that a later block reads, and those that they are views of. */
function savedForBackward({ nodes, blocks = [] }: Graph): Set<Ref> {
  const saved = new Set<Ref>();
  nodes.forEach((node, ref) => {
    const own = blocks[ref];
    if (own === undefined) return;
    for (const arg of argsOf(node)) if ((blocks[arg] ?? own) < own) saved.add(arg);
  });
  for (const ref of [...saved].sort((a, b) => b - a)) {
    for (let at = ref; VIEWS.has(nodes[at].op);) saved.add(at = argsOf(nodes[at])[0]);
  }
  return saved;
}

function moved(node: Node, to: (ref: Ref) => Ref): Node {
  if (!("args" in node)) return node;
  if (node.op !== "call") return { ...node, args: node.args.map(to) } as Node;
  const values = withRefs(node.values, to);
  return { ...node, values, args: refsIn(values) };
}
