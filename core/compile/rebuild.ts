// A graph built once more: the same values, or others in place of some.
import { Builder, withRefs } from "./builder.ts";
import { type Graph, type Node, type Ref, withNodes } from "./graph.ts";
import { argsOf } from "./uses.ts";

/** Writes a node of the old graph in another way; `to` finds what its arguments have become. */
type Replace = (b: Builder, node: Node, r: Ref, to: (r: Ref) => Ref) => Ref | null;

/** The same graph, with other values where `replace` gives some. */
export function rebuilt(graph: Graph, replace: Replace): Graph {
  const b = new Builder(graph.exact ? "exact" : "free", graph.imagesLast);
  const { output, loss, gradients, effects, writes = [] } = graph;
  const { moved, blocks } = copyInto(
    b,
    graph,
    [output, loss, ...gradients.filter((r) => r !== null), ...effects, ...writes.map(({ ref }) => ref)],
    true,
    { replace },
  );
  return { ...withNodes(graph, b.nodes, (r) => moved.get(r)!), blocks };
}

interface Copied {
  readonly moved: ReadonlyMap<Ref, Ref>;
  /** As the graph's own: of a value that two blocks have, the first one. */
  readonly blocks: readonly (number | undefined)[];
}

/** `behind` comes after each value, and may build more: no part of a block of the model. */
interface CopyOptions {
  readonly replace?: Replace;
  readonly behind?: (r: Ref, to: (r: Ref) => Ref) => void;
}

/** Builds these values and what they are made of once more. */
export function copyInto(
  b: Builder,
  { nodes, blocks = [] }: Graph,
  roots: readonly Ref[],
  unstopped: boolean,
  { replace = () => null, behind }: CopyOptions = {},
): Copied {
  const needed = new Set<Ref>(roots);
  nodes.forEach((node, r) => {
    if (node.op === "tensor" && node.origin.from === "parameter") needed.add(r); // for its shape
  });
  const moved = new Map<Ref, Ref>(), now: (number | undefined)[] = [];
  for (let r = nodes.length - 1; r >= 0; r--) {
    if (needed.has(r)) { for (const a of argsOf(nodes[r])) needed.add(a); }
  }
  const to = (a: Ref) => moved.get(a)!;
  for (const r of [...needed].sort((a, b) => a - b)) {
    moved.set(r, replace(b, nodes[r], r, to) ?? copied(b, nodes[r], to, unstopped));
    while (now.length < b.nodes.length) now.push(blocks[r]);
    behind?.(r, to);
    now.length = b.nodes.length;
  }
  return { moved, blocks: now };
}

function copied(b: Builder, node: Node, to: (r: Ref) => Ref, unstopped: boolean): Ref {
  switch (node.op) {
    case "tensor":
      return b.tensor(node.origin, node.shape, node.kind);
    case "number":
      return b.number(node.value, node.kind);
    case "sum":
      return b.sum(to(node.args[0]), node.dims);
    case "amax":
      return b.amax(to(node.args[0]), node.dims);
    case "gemm":
      return b.gemm(to(node.args[0]), to(node.args[1]), node.transposeA, node.transposeB, node.chain);
    case "reshape":
      return b.reshape(to(node.args[0]), node.shape);
    case "expand":
      return b.expand(to(node.args[0]), node.shape);
    case "permute":
      return b.permute(to(node.args[0]), node.dims);
    case "slice":
      return b.slice(to(node.args[0]), node.dim, node.start, node.end);
    case "embed":
      return b.embed(to(node.args[0]), node.dim, node.start, node.shape[node.dim], node.inRows);
    case "cat":
      return b.cat(node.args.map(to), node.dim);
    case "call":
      return b.call(node.schema, withRefs(node.values, to), node.shape, node.kind);
    case "result":
      return b.result(to(node.args[0]), node.index, node.shape, node.kind);
    case "copy":
      return b.copy(to(node.args[0]));
    case "stop":
      return unstopped ? to(node.args[0]) : b.stop(to(node.args[0]));
    default:
      return b.laidOut(node.op, node.args.map(to), node.inRows === true);
  }
}
