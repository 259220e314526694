// A bias's gradient is a sum over rows, often of a value that was given fewer dimensions for a product. Here it is a sum over the
// dimensions in which the value was made, so that the loop that makes it can sum it up, too.
import { withRefs } from "../builder.ts";
import { type Graph, type Node, type Ref, withNodes } from "../graph.ts";

export function sumOriginalRows(graph: Graph): Graph {
  const nodes: Node[] = [], now: Ref[] = [];
  const add = (node: Node): Ref => nodes.push(node) - 1;
  const moved = (node: Node): Node => {
    if (!("args" in node)) return node;
    const own = { ...node, args: node.args.map((arg) => now[arg]) } as Node;
    return own.op === "call" ? { ...own, values: withRefs(own.values, (arg) => now[arg]) } : own;
  };
  graph.nodes.forEach((node, ref) => {
    const source = sourceOf(graph, node);
    if (source === null) {
      now[ref] = add(moved(node));
      return;
    }
    const { shape: made } = graph.nodes[source], rows = made.length - 1, { kind, shape } = node;
    const dims = Array.from({ length: rows }, (_, dim) => dim);
    const kept = [...dims.map(() => 1), made[rows]];
    const sum = add({ op: "sum", args: [now[source]], dims, shape: kept, kind });
    now[ref] = add({ op: "reshape", args: [sum], shape, kind });
  });
  return withNodes(graph, nodes, (ref) => now[ref]);
}

/** A sum over all rows may be one of a value that was given fewer dimensions: that value, else null. */
function sourceOf({ nodes }: Graph, node: Node): Ref | null {
  if (node.op !== "sum") return null;
  const view = nodes[node.args[0]];
  if (view.op !== "reshape" || view.shape.length !== 2 || String(node.dims) !== "0") return null;
  const [source] = view.args, { shape } = nodes[source];
  return shape.length > 2 && shape.at(-1) === view.shape[1] ? source : null;
}
