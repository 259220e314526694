// Rewrites a graph before it is fused: sums over loops that no group can go through become two, and what backward asks
// of a value before ReLU is asked of the value behind it, which is kept anyway.
import { withRefs } from "./builder.ts";
import { type Graph, type Node, type Ref, withNodes } from "./graph.ts";

export const simplify = (graph: Graph, exact: boolean): Graph => new Rewriter(graph, exact).run();

type Reduction = Node & { op: "sum" | "amax" };

class Rewriter {
  readonly #nodes: Node[] = [];
  readonly #now: Ref[] = [];
  /** The value behind ReLU, by the value before it. */
  readonly #relus = new Map<Ref, Ref>();

  constructor(readonly graph: Graph, readonly exact: boolean) {}

  run(): Graph {
    this.graph.nodes.forEach((node, ref) => this.#now[ref] = this.#take(node));
    return withNodes(this.graph, this.#nodes, (ref) => this.#now[ref]);
  }

  #add(node: Node): Ref {
    return this.#nodes.push(node) - 1;
  }

  #take(given: Node): Ref {
    const now = (ref: Ref) => this.#now[ref];
    const node = "args" in given ? { ...given, args: given.args.map(now) } as Node : given;
    if (node.op === "call") return this.#add({ ...node, values: withRefs(node.values, now) });
    if (node.op === "sum" || node.op === "amax") return this.#reduction(node as Reduction);
    if (node.op === "max") this.#noteRelu(node.args as readonly Ref[], this.#nodes.length);
    if (node.op === "add" && this.exact) {
      const squares = this.#ofSquares(node as Node & { args: readonly Ref[] });
      if (squares !== null) return squares;
    }
    if (node.op === "gt" || node.op === "le") return this.#gate(node as Node & { args: readonly Ref[] });
    return this.#add(node);
  }

  /** Sums over one place are none; first over the last loops, then over the first ones. */
  #reduction(node: Reduction): Ref {
    const { shape } = this.#nodes[node.args[0]];
    const dims = node.dims.filter((dim) => shape[dim] > 1);
    if (dims.length === 0) return this.#add({ ...node, op: "reshape" } as Node);
    const loops = shape.flatMap((size, i) => size > 1 ? [i] : []);
    const over = loops.map((dim) => dims.includes(dim));
    const first = over.indexOf(false), last = over.lastIndexOf(false);
    const leading = first > 0, trailing = last < loops.length - 1;
    const between = over.slice(Math.max(0, first), last + 1).includes(true);
    const ordered = this.exact && node.op === "sum"; // as libtorch adds
    if (ordered || first < 0 || !(leading && trailing) && !between) return this.#add(node);
    // The last run of loops that are summed goes first.
    const end = over.lastIndexOf(true);
    let begin = end;
    while (begin > 0 && over[begin - 1]) begin--;
    const now = loops.slice(begin, end + 1);
    if (!trailing) return this.#moved(node, loops, over);
    const half: Node = {
      ...node,
      dims: now,
      shape: shape.map((size, i) => now.includes(i) ? 1 : size),
    };
    const rest = dims.filter((dim) => !now.includes(dim));
    return this.#reduction({ ...node, args: [this.#add(half)], dims: rest });
  }

  /** Loops that are summed stand between others: they are moved to the end. */
  #moved(node: Reduction, loops: readonly number[], over: readonly boolean[]): Ref {
    const { shape, kind } = this.#nodes[node.args[0]];
    const summed = loops.filter((_, i) => over[i]);
    const order = [...shape.keys()].filter((dim) => !summed.includes(dim)).concat(summed);
    const turned = this.#add({
      op: "permute",
      args: [node.args[0]],
      dims: order,
      shape: order.map((dim) => shape[dim]),
      kind,
    });
    const kept = shape.length - summed.length;
    const sum = this.#add({
      ...node,
      args: [turned],
      dims: order.map((_, i) => i).slice(kept),
      shape: order.map((dim, i) => i < kept ? shape[dim] : 1),
    });
    return this.#add({ op: "reshape", args: [sum], shape: node.shape, kind });
  }

  /**
   * Backward of a mean of squares: libtorch's mse_loss takes 2 / n times the difference, and that times the micro-batch's
   * share. Derived it is the share divided by n, times the difference, twice.
   */
  #ofSquares({ args: [a, b], shape, kind }: Node & { args: readonly Ref[] }): Ref | null {
    const product = this.#nodes[a];
    if (a !== b || product.op !== "mul") return null;
    for (const [scale, miss] of [product.args, [...product.args].reverse()]) {
      const share = this.#unviewed(scale);
      if (share.op !== "div" || this.#nodes[miss].op !== "sub") continue;
      const [weight, count] = share.args.map((ref) => this.#unviewed(ref));
      if (weight.op !== "tensor" || weight.origin.from !== "weight" || count.op !== "number") continue;
      const number = this.#add({ op: "number", value: Math.fround(2 / count.value), shape: [], kind });
      const twice = this.#add({ op: "mul", args: [number, miss], shape, kind });
      return this.#add({ op: "mul", args: [twice, share.args[0]], shape, kind });
    }
    return null;
  }

  #unviewed(ref: Ref): Node {
    const node = this.#nodes[ref];
    return node.op === "expand" || node.op === "reshape" ? this.#unviewed(node.args[0]) : node;
  }

  #isZero(ref: Ref): boolean {
    let node = this.#nodes[ref];
    while (node.op === "expand" || node.op === "reshape") node = this.#nodes[node.args[0]];
    return node.op === "number" && node.value === 0;
  }

  #noteRelu([a, b]: readonly Ref[], behind: Ref): void {
    if (this.#isZero(b)) this.#relus.set(a, behind);
    else if (this.#isZero(a)) this.#relus.set(b, behind);
  }

  /** x > 0 where max(x, 0) > 0, and NaN is neither. */
  #gate(node: Node & { args: readonly Ref[] }): Ref {
    const [x, zero] = node.args, behind = this.#relus.get(x);
    const same = behind !== undefined && this.#isZero(zero) &&
      String(this.#nodes[behind].shape) === String(this.#nodes[x].shape);
    return this.#add(same ? { ...node, args: [behind, zero] } as Node : node);
  }
}
