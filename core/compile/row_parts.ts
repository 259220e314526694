// A loss that was added up over parts of the rows: the head of a language model, whose logits are made part by part. On a
// GPU it is one sum over all rows again: a plan reads rows where they lie, and its logits take less memory in half
// precision. On a CPU parts stay parts, and each goes back before the next one (derive.ts).
import type { Builder } from "./builder.ts";
import { type Graph, type Node, POINTWISE, type Pointwise, type Ref } from "./graph.ts";
import { argsOf } from "./uses.ts";

/** How the values of the parts, one for each, become one value. */
type Joined =
  /** The same value for all parts. */
  | { readonly as: "same"; readonly ref: Ref }
  /** Their rows one behind the other. */
  | { readonly as: "rows"; readonly ref: Ref }
  /** Their sum. */
  | { readonly as: "sum"; readonly ref: Ref };

/** `loss` itself, where it is no such sum or its parts are unlike each other. */
export function withoutRowParts(b: Builder, loss: Ref): Ref {
  const terms = termsOf(b.nodes, loss);
  const joined = terms.length > 1 ? new Joiner(b).join(terms) : null;
  return joined?.as === "sum" ? joined.ref : loss;
}

/** A term of the loss that reads these rows of the output, and no others. */
export interface RowPart {
  readonly term: Ref;
  readonly rows: Ref;
}

/** In their order; none where the loss is no sum over parts of the output's rows that follow each other. */
export function rowPartsOf({ nodes, loss, output }: Pick<Graph, "nodes" | "loss" | "output">): RowPart[] {
  const terms = termsOf(nodes, loss);
  if (terms.length === 1) return [];
  const parts = terms.flatMap((term) => {
    const rows = rowsUnder(nodes, term, output);
    return rows === null ? [] : [{ term, rows }];
  });
  let from = 0;
  const follow = parts.every(({ rows }) => {
    const { start, end } = nodes[rows] as SliceNode, follows = start === from;
    from = end;
    return follows;
  });
  return parts.length === terms.length && follow && from === nodes[output].shape[0] ? parts : [];
}

/** The only rows of `output` that this value is made of, and it of nothing else of the output; else null. */
function rowsUnder(nodes: readonly Node[], term: Ref, output: Ref): Ref | null {
  const todo = [term], seen = new Set<Ref>();
  let found: Ref | null = null;
  while (todo.length > 0) {
    const ref = todo.pop()!, node = nodes[ref];
    if (seen.has(ref)) continue;
    seen.add(ref);
    if (ref === output) return null;
    if (node.op === "slice" && node.args[0] === output && node.dim === 0) {
      if (found !== null) return null;
      found = ref;
    } else if (ref > output) todo.push(...argsOf(node)); // what came before is no part of the output's
  }
  return found;
}

function termsOf(nodes: readonly Node[], ref: Ref): Ref[] {
  const terms: Ref[] = [];
  for (let at = ref;;) {
    const node = nodes[at];
    if (node.op !== "add") return [at, ...terms];
    terms.unshift(node.args[1]);
    at = node.args[0];
  }
}

class Joiner {
  readonly #known = new Map<string, Joined | null>();

  constructor(readonly b: Builder) {}

  /** Null where parts are made in different ways, or rows of one part depend on each other. */
  join(parts: readonly Ref[]): Joined | null {
    const [first] = parts;
    if (parts.every((ref) => ref === first)) return { as: "same", ref: first };
    const key = String(parts);
    let joined = this.#known.get(key);
    if (joined === undefined) this.#known.set(key, joined = this.#made(parts.map((ref) => this.b.node(ref))));
    return joined;
  }

  #made(nodes: readonly Node[]): Joined | null {
    const [first] = nodes, { b } = this;
    if (nodes.some(({ op, kind }) => op !== first.op || kind !== first.kind)) return null;
    if (first.op in POINTWISE) return this.#pointwise(nodes as readonly PointwiseNode[]);
    switch (first.op) {
      case "slice":
        return this.#slice(nodes as readonly SliceNode[]);
      case "gemm": {
        const all = nodes as readonly (typeof first)[];
        const [x, y] = [0, 1].map((i) => this.join(all.map(({ args }) => args[i])));
        if (x?.as !== "rows" || y?.as !== "same" || first.transposeA || first.shape.length > 2) return null;
        if (all.some(({ transposeB }) => transposeB !== first.transposeB)) return null;
        return { as: "rows", ref: b.gemm(x.ref, y.ref, false, first.transposeB) };
      }
      case "sum":
      case "amax": {
        const all = nodes as readonly (typeof first)[];
        const x = this.join(all.map(({ args }) => args[0]));
        if (x?.as !== "rows" || all.some(({ dims }) => String(dims) !== String(first.dims))) return null;
        if (!first.dims.includes(0)) return { as: "rows", ref: b[first.op](x.ref, first.dims) };
        return first.op === "sum" ? { as: "sum", ref: b.sum(x.ref, first.dims) } : null;
      }
      case "reshape":
        return this.#reshape(nodes);
      case "expand": {
        const x = this.join(nodes.map((node) => (node as typeof first).args[0]));
        if (x?.as !== "rows" || b.shape(x.ref).length !== first.shape.length) return null;
        return { as: "rows", ref: b.expand(x.ref, first.shape.with(0, b.shape(x.ref)[0])) };
      }
      case "stop": {
        const x = this.join(nodes.map((node) => (node as typeof first).args[0]));
        return x && { ...x, ref: b.stop(x.ref) };
      }
      default:
        return null;
    }
  }

  /** Parts of one value, one behind the other. */
  #slice(nodes: readonly SliceNode[]): Joined | null {
    const [{ args: [source], dim, start }] = nodes, { end } = nodes.at(-1)!;
    const follow = nodes.every((node, i) =>
      node.args[0] === source && node.dim === 0 && (i === 0 || node.start === nodes[i - 1].end)
    );
    return dim === 0 && follow ? { as: "rows", ref: this.b.slice(source, 0, start, end) } : null;
  }

  #pointwise(nodes: readonly PointwiseNode[]): Joined | null {
    const { b } = this, [{ op, args, shape }] = nodes;
    const joined = args.map((_, i) => this.join(nodes.map((node) => node.args[i])));
    if (joined.includes(null)) return null;
    const all = joined as readonly Joined[];
    const made = (as: Joined["as"]) => ({ as, ref: b.pointwise(op, ...all.map(({ ref }) => ref)) });
    if (all.some(({ as }) => as === "sum")) return keepsSums(op, all) ? made("sum") : null;
    const fits = all.every(({ as, ref }) => {
      const own = b.shape(ref), whole = own.length === shape.length;
      return as === "rows" ? whole : !whole || own[0] === 1;
    });
    return fits ? made("rows") : null;
  }

  /** Each row keeps its numbers. */
  #reshape(nodes: readonly Node[]): Joined | null {
    const { b } = this, all = nodes as readonly (Node & { readonly op: "reshape" })[];
    const x = this.join(all.map(({ args }) => args[0]));
    if (x === null || x.as === "same") return null;
    const [{ shape }] = all;
    if (x.as === "sum") return { as: "sum", ref: b.reshape(x.ref, shape) };
    if (all.some(({ args, shape }) => shape[0] !== b.shape(args[0])[0])) return null;
    return { as: "rows", ref: b.reshape(x.ref, shape.with(0, b.shape(x.ref)[0])) };
  }
}

type PointwiseNode = Node & { readonly op: Pointwise };
type SliceNode = Node & { readonly op: "slice" };

/** The op of sums is the sum of the op's results. */
function keepsSums(op: Pointwise, [x, y]: readonly Joined[]): boolean {
  switch (op) {
    case "neg":
      return true;
    case "add":
    case "sub":
      return x.as === "sum" && y.as === "sum";
    case "mul":
      return x.as === "sum" ? y.as === "same" : x.as === "same" && y.as === "sum";
    case "div":
      return x.as === "sum" && y.as === "same";
    default:
      return false;
  }
}
