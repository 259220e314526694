// Rewrites a derived graph so that backward needs fewer of forward's values in memory: for fast plans, since it rounds
// elsewhere.
import { broadcastShapes, withRefs } from "./builder.ts";
import { type Graph, type Node, POINTWISE, type Ref, withNodes } from "./graph.ts";
import { argsOf, liveIn } from "./uses.ts";

/** A backward value that is a product's result times what forward knows. */
interface Slope {
  readonly root: Ref;
}

const SLOW: ReadonlySet<string> = new Set([
  "exp",
  "expm1",
  "log",
  "log1p",
  "tanh",
  "sigmoid",
  "erf",
  "sin",
  "cos",
  "pow",
]);

const isPointwise = (node: Node): node is Node & { readonly args: readonly Ref[] } => node.op in POINTWISE;
const isView = (node: Node): boolean => ["reshape", "expand", "permute", "slice"].includes(node.op);

/**
 * The gradient of gelu(x) is one that comes from behind times a slope that x and tanh(...) give. The slope is known as
 * soon as x is: with it neither of them is kept. And exp(x) / sum is kept by softmax, so exp(x) is that times the sum.
 */
export function savingLess(graph: Graph): Graph {
  return new Rewriter(graph).run();
}

class Rewriter {
  readonly #nodes: Node[] = [];
  readonly #now: Ref[] = [];
  readonly #users: Ref[][];
  readonly #results: ReadonlySet<Ref>;
  /** Forward knows them. */
  readonly #ahead: boolean[] = [];
  /** exp(x) as a product of two others, by its number in the old graph. */
  readonly #quotients = new Map<Ref, { readonly at: Ref; readonly quotient: Ref; readonly sum: Ref }>();

  constructor(readonly graph: Graph) {
    const { nodes, output, loss, gradients, effects } = graph;
    const live = liveIn(graph);
    this.#users = nodes.map(() => []);
    nodes.forEach((node, ref) => {
      if (live.has(ref)) { for (const arg of new Set(argsOf(node))) this.#users[arg].push(ref); }
    });
    const written = graph.writes?.map(({ ref }) => ref) ?? [];
    this.#results = new Set([
      ...[output, loss, ...effects, ...written],
      ...gradients.filter((ref) => ref !== null),
    ]);
    nodes.forEach((node, ref) => {
      const args = argsOf(node);
      this.#ahead[ref] = ref <= loss ||
        (isPointwise(node) || node.op === "number" || isView(node)) && args.every((arg) => this.#ahead[arg]);
      if (node.op === "div") this.#noteQuotient(ref, node.args as readonly Ref[]);
    });
  }

  run(): Graph {
    const slopes = this.#slopes();
    this.graph.nodes.forEach((node, ref) => {
      const slope = slopes.get(ref);
      if (slope) {
        const factor = this.#slope(ref, slope.root)!;
        this.#nodes[factor] = { ...this.#nodes[factor], saved: true };
        this.#now[ref] = this.#add({ ...node, op: "mul", args: [this.#now[slope.root], factor] } as Node);
      } else this.#now[ref] = this.#add(this.#copied(node, ref));
    });
    return withNodes(this.graph, this.#nodes, (ref) => this.#now[ref]);
  }

  #add(node: Node): Ref {
    return this.#nodes.push(node) - 1;
  }
  #node(ref: Ref): Node {
    return this.graph.nodes[ref];
  }

  // exp(x) / sum(exp(x)).

  #noteQuotient(at: Ref, [exp, divisor]: readonly Ref[]): void {
    let sum = divisor;
    while (isView(this.#node(sum))) sum = argsOf(this.#node(sum))[0];
    const { op } = this.#node(sum);
    if (this.#node(exp).op !== "exp" || op !== "sum" || argsOf(this.#node(sum))[0] !== exp) return;
    this.#quotients.set(exp, { at, quotient: at, sum: divisor });
  }
  #copied(node: Node, ref: Ref): Node {
    if (!("args" in node)) return node;
    const args = node.args.map((arg) => {
      const found = this.#quotients.get(arg);
      if (!found || ref <= found.at || !isPointwise(node)) return this.#now[arg];
      const { shape, kind } = this.#node(arg);
      return this.#add({ op: "mul", args: [this.#now[found.quotient], this.#now[found.sum]], shape, kind });
    });
    if (node.op === "call") return { ...node, args, values: withRefs(node.values, (arg) => this.#now[arg]) };
    return { ...node, args } as Node;
  }

  // Slopes.

  /** The ends of chains that begin at a product of backward's and are linear in it. */
  #slopes(): Map<Ref, Slope> {
    const roots = new Map<Ref, Ref>(), chains = new Map<Ref, Ref[]>();
    this.graph.nodes.forEach((node, ref) => {
      const root = this.#rootOf(ref, node, roots);
      if (root === null) return;
      roots.set(ref, root);
      if (!chains.has(root)) chains.set(root, []);
      chains.get(root)!.push(ref);
    });
    const found = new Map<Ref, Slope>();
    for (const [root, chain] of chains) {
      const members = new Set([root, ...chain]);
      const isEnd = (ref: Ref) =>
        this.#results.has(ref) || this.#users[ref].some((user) => !members.has(user));
      const ends = [root, ...chain].filter((ref) => this.#users[ref].length > 0 && isEnd(ref));
      if (ends.length === 1 && ends[0] !== root && this.#pays(ends[0], root)) found.set(ends[0], { root });
    }
    return found;
  }

  #rootOf(ref: Ref, node: Node, roots: ReadonlyMap<Ref, Ref>): Ref | null {
    if (!isPointwise(node) || this.#ahead[ref]) return null;
    const root = (arg: Ref) => roots.get(arg) ?? (this.#isProduct(arg) ? arg : null);
    const [a, b] = node.args;
    const same = (one: Ref) => String(this.#node(one).shape) === String(node.shape);
    switch (node.op) {
      case "neg":
        return root(a);
      case "add":
      case "sub":
        return root(a) === root(b) && same(a) && same(b) ? root(a) : null;
      case "mul":
        if (this.#ahead[a] && same(b)) return root(b);
        return this.#ahead[b] && same(a) ? root(a) : null;
      case "div":
        return this.#ahead[b] && same(a) ? root(a) : null;
      default:
        return null;
    }
  }
  #isProduct(ref: Ref): boolean {
    const node = this.#node(ref);
    if (this.#ahead[ref]) return false;
    return node.op === "gemm" || node.op === "reshape" && this.#isProduct(node.args[0]);
  }

  /** The slope is of something slow that nobody else wants from memory. */
  #pays(end: Ref, root: Ref): boolean {
    const todo = [end], seen = new Set<Ref>([root]);
    let pays = false;
    while (todo.length > 0) {
      const ref = todo.pop()!, node = this.#node(ref);
      if (seen.has(ref)) continue;
      seen.add(ref);
      if (!isPointwise(node)) continue;
      if (SLOW.has(node.op)) {
        if (this.#isReadFromMemory(ref)) return false;
        pays = true;
      }
      todo.push(...node.args);
    }
    return pays && String(this.#shapeOfSlope(end, root)) === String(this.#node(end).shape);
  }
  #isReadFromMemory(ref: Ref): boolean {
    return this.#results.has(ref) || this.#users[ref].some((user) => {
      const node = this.#node(user);
      return isView(node) ? this.#isReadFromMemory(user) : !isPointwise(node);
    });
  }
  #shapeOfSlope(ref: Ref, root: Ref): readonly number[] {
    if (ref === root) return [];
    if (this.#ahead[ref]) return this.#node(ref).shape;
    return broadcastShapes(argsOf(this.#node(ref)).map((arg) => this.#shapeOfSlope(arg, root)));
  }

  /** The chain with 1 in the root's place; null is that 1. */
  #slope(ref: Ref, root: Ref): Ref | null {
    if (ref === root) return null;
    if (this.#ahead[ref]) return this.#now[ref];
    const node = this.#node(ref), args = argsOf(node).map((arg) => this.#slope(arg, root));
    if (node.op === "mul" && args.includes(null)) return args[0] ?? args[1];
    const whole = args.map((arg) => arg ?? this.#add({ op: "number", value: 1, shape: [], kind: "f32" }));
    const shape = broadcastShapes(whole.map((arg) => this.#nodes[arg].shape));
    return this.#add({ ...node, args: whole, shape } as Node);
  }
}
