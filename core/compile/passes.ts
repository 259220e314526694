// The rewrites of a graph before it is fused, in order: each gives a graph with the same results.
import type { FuseOptions } from "./draft.ts";
import { halved } from "./cuda/halves.ts";
import { expanded } from "./expand.ts";
import { savingLess } from "./saved_values.ts";
import { arranged } from "./layouts.ts";
import { simplify } from "./simplify.ts";
import { withWholeNumbers } from "./whole_numbers.ts";
import { refsIn, withRefs } from "./builder.ts";
import { argsOf } from "./uses.ts";
import { type Graph, type Node, type Ref, withNodes } from "./graph.ts";

interface Pass {
  readonly name: string;
  readonly when: (options: FuseOptions) => boolean;
  readonly rewrite: (graph: Graph, options: FuseOptions) => Graph;
}

const fast = ({ exact }: FuseOptions) => !exact;
const onGpu = ({ libraryProducts }: FuseOptions) => libraryProducts === true;

const PASSES: readonly Pass[] = [
  {
    name: "whole numbers in memory are libtorch's",
    when: () => true,
    rewrite: withWholeNumbers,
  },
  {
    name: "calls that simple ops do better",
    when: () => true,
    rewrite: expanded,
  },
  {
    name: "blocks that backward computes once more",
    when: ({ recomputes }) => recomputes === true,
    rewrite: recomputed,
  },
  {
    name: "images channels last",
    when: () => true,
    rewrite: (graph, o) => arranged(graph, fast(o) && !onGpu(o)),
  },
  {
    name: "sums and rounding",
    when: () => true,
    rewrite: (graph, { exact }) => simplify(graph, exact),
  },
  {
    name: "what backward reads of forward",
    when: fast,
    rewrite: savingLess,
  },
  {
    name: "half precision",
    when: ({ halves }) => halves !== undefined,
    rewrite: (graph, { halves }) => halved(graph, halves!),
  },
  {
    name: "sums over the rows of what was turned",
    when: onGpu,
    rewrite: sumOriginalRows,
  },
];

export const rewritten = (graph: Graph, options: FuseOptions): Graph =>
  PASSES.filter(({ when }) => when(options)).reduce((now, { rewrite }) => rewrite(now, options), graph);

// Gradient checkpointing in a graph: backward reads a block's values from a second computation of them, which begins when
// it comes to that block. So only what passes from block to block lives from forward to backward.

const VIEWS: ReadonlySet<string> = new Set(["reshape", "expand", "permute", "slice", "result"]);

/** The same values and gradients. */
function recomputed(graph: Graph): Graph {
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

// A bias's gradient is a sum over rows, often of a value that was given fewer dimensions for a product. Here it is a sum over the
// dimensions in which the value was made, so that the loop that makes it can sum it up, too.

function sumOriginalRows(graph: Graph): Graph {
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
