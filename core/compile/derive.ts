// Gradients of a graph, as more of the same graph.
import { broadcastShapes, Builder, sameShape, withRefs } from "./builder.ts";
import { type Graph, type Node, type Ref, withNodes } from "./graph.ts";
import { argumentGradients } from "./rules.ts";
import { argsOf } from "./uses.ts";

/**
 * The gradients of `of` for each of `wrt`, null where nothing leads there. It can be asked again for what it gave.
 * `seed` is the gradient of `of` itself.
 */
export function gradients(b: Builder, of: Ref, seed: Ref, wrt: readonly Ref[]): (Ref | null)[] {
  const reached = reachedFrom(b, wrt, of);
  const back = new Map<Ref, Ref>([[of, seed]]);
  const add = (to: Ref, g: Ref) => {
    const before = back.get(to);
    back.set(to, before === undefined ? g : b.pointwise("add", before, g));
  };
  const results = new Map<Ref, (Ref | null)[]>();
  for (let y = of; y >= 0; y--) {
    const g = back.get(y), node = b.node(y), more = results.get(y);
    if (!reached[y] || g === undefined && more === undefined) continue;
    if (node.op === "result") {
      const call = results.get(node.args[0]) ?? [];
      call[node.index] = g!;
      results.set(node.args[0], call);
      continue;
    }
    const all = more ?? [];
    all[0] = g ?? null;
    const args = argsOf(node);
    argumentGradients(b, y, all, (r) => reached[r]).forEach((own, i) => {
      const to = args[i];
      if (own !== null && reached[to]) add(to, summedTo(b, own, to));
    });
  }
  return wrt.map((r) => back.get(r) ?? null);
}

/** True for what depends on one of these, and not only through a stop or by whole numbers. */
function reachedFrom(b: Builder, wrt: readonly Ref[], to: Ref): boolean[] {
  const reached: boolean[] = [];
  for (let r = 0; r <= to; r++) {
    const node = b.node(r);
    const by = node.op !== "stop" && (node.kind === "f32" || node.op === "call");
    reached[r] = wrt.includes(r) || by && argsOf(node).some((a) => reached[a]);
  }
  return reached;
}

/** A stretched value gets the sum of its copies' gradients. */
function summedTo(b: Builder, g: Ref, to: Ref): Ref {
  const shape = b.shape(to), given = b.shape(g);
  const whole = broadcastShapes([given, shape]);
  const wide = sameShape(given, whole) ? g : b.expand(g, whole);
  const ahead = whole.length - shape.length;
  const dims = whole.flatMap((size, d) => size !== 1 && (d < ahead || shape[d - ahead] === 1) ? [d] : []);
  return b.reshape(b.sum(wide, dims), shape);
}

export interface DeriveOptions {
  /** The gradient begins with a 0-dim tensor, the micro-batch's share, and not with 1. */
  readonly weighted: boolean;
}

/** The gradients of the loss for the arena's parameters, `shapes`; what nothing needs is left out. */
export function derive(graph: Graph, parameters: number, { weighted }: DeriveOptions): Graph {
  const b = new Builder(graph.exact ? "faithful" : "free");
  const { output, effects, writes = [] } = graph;
  const roots = [output, graph.loss, ...effects, ...writes.map(({ ref }) => ref)];
  const { moved, blocks } = copyInto(b, graph, roots, false);
  const loss = moved.get(graph.loss)!;
  const seed = weighted ? b.tensor({ from: "weight" }, [], "f32") : b.number(1);
  const wrt = parametersOf(b, parameters);
  const known = wrt.filter((r) => r !== null);
  const found = gradients(b, loss, b.reshape(seed, b.shape(loss)), known);
  const given = wrt.map((r) => r === null ? null : found[known.indexOf(r)]);
  const whole = {
    ...graph,
    nodes: b.nodes,
    output: moved.get(output)!,
    loss,
    gradients: given,
    effects: effects.map((r) => moved.get(r)!),
    writes: writes.map(({ ref, held }) => ({ ref: moved.get(ref)!, held })),
    blocks,
  };
  return pruned(whole);
}

function parametersOf(b: Builder, count: number): (Ref | null)[] {
  const refs = new Array<Ref | null>(count).fill(null);
  b.nodes.forEach((node, r) => {
    if (node.op === "tensor" && node.origin.from === "parameter") refs[node.origin.index] = r;
  });
  return refs;
}

/** Without what nothing needs, and without stops. */
export const pruned = (graph: Graph): Graph => rebuilt(graph, () => null);

/** Writes a node of the old graph in another way; `to` finds what its arguments have become. */
export type Replace = (b: Builder, node: Node, r: Ref, to: (r: Ref) => Ref) => Ref | null;

/** The same graph, with other values where `replace` gives some. */
export function rebuilt(graph: Graph, replace: Replace): Graph {
  const b = new Builder(graph.exact ? "exact" : "free");
  const { output, loss, gradients, effects, writes = [] } = graph;
  const { moved, blocks } = copyInto(
    b,
    graph,
    [output, loss, ...gradients.filter((r) => r !== null), ...effects, ...writes.map(({ ref }) => ref)],
    true,
    replace,
  );
  return { ...withNodes(graph, b.nodes, (r) => moved.get(r)!), blocks };
}

interface Copied {
  readonly moved: ReadonlyMap<Ref, Ref>;
  /** As the graph's own: of a value that two blocks have, the first one. */
  readonly blocks: readonly (number | undefined)[];
}

/** Builds these values and what they are made of once more. */
function copyInto(
  b: Builder,
  { nodes, blocks = [] }: Graph,
  roots: readonly Ref[],
  unstopped: boolean,
  replace: Replace = () => null,
): Copied {
  const needed = new Set<Ref>(roots);
  nodes.forEach((node, r) => {
    if (node.op === "tensor" && node.origin.from === "parameter") needed.add(r); // for its shape
  });
  const moved = new Map<Ref, Ref>(), now: (number | undefined)[] = [];
  for (let r = nodes.length - 1; r >= 0; r--) {
    if (needed.has(r)) { for (const a of argsOf(nodes[r])) needed.add(a); }
  }
  for (const r of [...needed].sort((a, b) => a - b)) {
    const to = (a: Ref) => moved.get(a)!;
    moved.set(r, replace(b, nodes[r], r, to) ?? copied(b, nodes[r], to, unstopped));
    while (now.length < b.nodes.length) now.push(blocks[r]);
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
      return b.gemm(to(node.args[0]), to(node.args[1]), node.transposeA, node.transposeB);
    case "reshape":
      return b.reshape(to(node.args[0]), node.shape);
    case "expand":
      return b.expand(to(node.args[0]), node.shape);
    case "permute":
      return b.permute(to(node.args[0]), node.dims);
    case "slice":
      return b.slice(to(node.args[0]), node.dim, node.start, node.end);
    case "embed":
      return b.embed(to(node.args[0]), node.dim, node.start, node.shape[node.dim]);
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
      return b.pointwise(node.op, ...node.args.map(to));
  }
}
