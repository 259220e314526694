// Mixed precision on a GPU: numbers that were rounded to half precision lie so in memory, and libtorch's products and
// convolutions take them so and give such. For the loops of groups they are f32, which loses nothing.
import { refsIn, withRefs } from "../builder.ts";
import { roundedTo } from "../fold.ts";
import {
  type Graph,
  type HalfType,
  isHalf,
  nameOfCall,
  type Node,
  type Ref,
  VIEWS,
  withNodes,
} from "../graph.ts";
import { argsOf, liveIn } from "../uses.ts";
import { count } from "../access.ts";

/** The weights lie in one vector, each from its start on. */
export interface HalfWeights {
  readonly starts: readonly number[];
  readonly elements: number;
  /** The model's output is wanted in this type. */
  readonly output?: HalfType;
}

/** libtorch adds the bias to a product before it rounds it. */
const LINEAR = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor";

/** These hand their arguments on, number by number; of `where` the condition is none. */
const KEEPING: ReadonlySet<string> = new Set([
  ...[
    "reshape",
    "expand",
    "permute",
    "slice",
    "embed",
    "cat",
    "copy",
    "stop",
    "neg",
    "abs",
    "max",
    "min",
    "where",
  ],
]);
const handedOn = (node: Node): readonly Ref[] => node.op === "where" ? argsOf(node).slice(1) : argsOf(node);
/** So do these calls, in their first result. */
const KEEPING_CALLS: ReadonlySet<string> = new Set(["max_pool2d_with_indices", "max_pool3d_with_indices"]);

/** Statistics and weights of a norm stay f32: these of its arguments and results are of half precision. */
const MIXED: Readonly<
  Record<string, { readonly args: readonly number[]; readonly results: readonly number[] }>
> = {
  _batch_norm_with_update: { args: [0], results: [0] },
  batch_norm_backward: { args: [0, 1], results: [0] },
  native_batch_norm: { args: [0], results: [0] },
  _native_batch_norm_legit_functional: { args: [0], results: [0] },
  native_batch_norm_backward: { args: [0, 1], results: [0] },
};
/** Autocast has these in half precision, whatever becomes of the result. */
const ALWAYS = /^(convolution|_scaled_dot_product_|_flash_attention_)/;

type View = Extract<Node, { op: "reshape" | "permute" }>;

export function halved(graph: Graph, weights: HalfWeights | null = null): Graph {
  return graph.nodes.some(({ op }) => isHalf(op)) ? new Halver(graph, weights).run() : graph;
}

class Halver {
  readonly #nodes: Node[] = [];
  readonly #now: Ref[] = [];
  readonly #users: Ref[][];
  /** Results that lie elsewhere, as f32. */
  readonly #results: ReadonlySet<Ref>;
  readonly #gradients: ReadonlySet<Ref>;
  readonly #wide = new Map<Ref, Ref>();
  /** All weights in one piece. */
  readonly #whole = new Map<HalfType, Ref>();
  readonly #casts: number;

  constructor(readonly graph: Graph, readonly weights: HalfWeights | null) {
    const { nodes, output, loss, gradients, writes = [] } = graph, live = liveIn(graph);
    this.#users = nodes.map(() => []);
    nodes.forEach((node, ref) => {
      if (live.has(ref)) { for (const arg of new Set(argsOf(node))) this.#users[arg].push(ref); }
    });
    const wide = weights?.output === undefined ? [output] : [];
    this.#results = new Set([...wide, loss, ...writes.map(({ ref }) => ref)]);
    this.#gradients = new Set(gradients.filter((ref) => ref !== null));
    this.#casts = nodes.filter((node, ref) => live.has(ref) && this.#weightOf(node) !== null).length;
  }

  run(): Graph {
    this.graph.nodes.forEach((node, ref) => this.#now[ref] = this.#take(node, ref));
    const { output } = this.graph,
      wanted = this.weights?.output,
      { half, shape, kind } = this.#nodes[this.#now[output]];
    if (wanted !== undefined && half !== wanted) {
      this.#now[output] = this.#add({ op: wanted, args: [this.#now[output]], shape, kind, half: wanted });
    }
    return withNodes(this.graph, this.#nodes, (ref) => this.#now[ref]);
  }

  #add(node: Node): Ref {
    return this.#nodes.push(node) - 1;
  }
  /** With what it hands on. */
  #kept(node: Node): Ref {
    const half = KEEPING.has(node.op) ? this.#common(handedOn(node)) : null;
    return this.#add(half === null ? node : { ...node, half });
  }

  #take(node: Node, ref: Ref): Ref {
    const own = this.#moved(node);
    if (isHalf(node.op)) return this.#rounded(node, node.op, ref);
    switch (node.op) {
      case "gemm":
        return this.#gemm(own as Node & { op: "gemm" }, ref);
      case "add":
        return this.#biased(node as Node & { args: readonly Ref[] }, ref) ?? this.#add(own);
      case "call":
        return this.#call(own as Node & { op: "call" }, ref);
      case "result":
        return this.#add({ ...own, half: this.#halfOfResult(own as Node & { op: "result" }) });
      case "reshape":
      case "permute":
        return this.#viewed(own as View);
      default:
        return this.#kept(own);
    }
  }

  /** Roundings between two views are gone, and so one of the views is. */
  #viewed(node: View): Ref {
    const [arg] = node.args, source = this.#nodes[arg];
    if (node.op === "reshape") {
      const [from, { shape }] = source.op === "reshape"
        ? [source.args[0], this.#nodes[source.args[0]]]
        : [arg, source];
      return String(shape) === String(node.shape) ? from : this.#kept({ ...node, args: [from] });
    }
    if (source.op !== "permute") return this.#kept(node);
    const dims = node.dims.map((dim) => source.dims[dim]);
    if (dims.every((dim, i) => dim === i)) return source.args[0];
    return this.#kept({ ...node, args: source.args, dims });
  }

  #moved(node: Node): Node {
    if (!("args" in node)) return node;
    const args = node.args.map((arg) => this.#now[arg]);
    if (node.op === "call") return { ...node, args, values: withRefs(node.values, (arg) => this.#now[arg]) };
    return { ...node, args } as Node;
  }

  /** The type in which these numbers are no others; null for f32. */
  #halfOf(ref: Ref): HalfType | null {
    return this.#nodes[ref].half ?? null;
  }
  #isNumberOf(ref: Ref, half: HalfType): boolean {
    const node = this.#nodes[ref];
    return node.op === "number" && Object.is(roundedTo(half, node.value), node.value);
  }
  #common(refs: readonly Ref[]): HalfType | null {
    const half = refs.map((ref) => this.#halfOf(ref)).find((one) => one !== null) ?? null;
    if (half === null) return null;
    return refs.every((ref) => this.#halfOf(ref) === half || this.#isNumberOf(ref, half)) ? half : null;
  }

  /** Everybody who reads this value rounds it to this type before anything else is done with it; null where not. */
  #ends(ref: Ref): HalfType | null {
    if (this.#results.has(ref) || this.#gradients.has(ref)) return null;
    const ends = this.#users[ref].flatMap((user): (HalfType | null)[] => {
      const { op } = this.graph.nodes[user];
      if (op === "result") return [];
      return [isHalf(op) ? op : VIEWS.has(op) ? this.#ends(user) : null];
    });
    return ends.length > 0 && ends.every((one) => one === ends[0]) ? ends[0] : null;
  }

  #rounded(node: Node, half: HalfType, ref: Ref): Ref {
    const [arg] = argsOf(node), now = this.#now[arg], { shape, kind } = node;
    if (this.#halfOf(now) === half) return now;
    if (this.#isOnlyGradient(ref) && this.#isSummed(arg, half)) return now; // its sums are f32, and so is the gradient
    const index = this.#weightOf(node);
    if (index !== null && this.#casts > 1) {
      const start = this.weights!.starts[index], whole = this.#wholeOf(half);
      const elements = count(shape);
      const part = this.#add({
        ...{
          op: "slice",
          args: [whole],
          dim: 0,
          start,
          end: start + elements,
          shape: [elements],
          kind,
          half,
        },
      });
      return shape.length === 1 ? part : this.#add({ op: "reshape", args: [part], shape, kind, half });
    }
    const at = this.#results.has(ref) || this.#gradients.has(ref) ? {} : { half };
    return this.#add({ op: half, args: [now], shape, kind, ...at });
  }

  /** The weight that a node rounds, or null. */
  #weightOf(node: Node): number | null {
    if (!isHalf(node.op) || this.weights === null) return null;
    const from = this.graph.nodes[argsOf(node)[0]];
    return from.op === "tensor" && from.origin.from === "parameter" ? from.origin.index : null;
  }
  /** One loop rounds all weights. */
  #wholeOf(half: HalfType): Ref {
    const known = this.#whole.get(half);
    if (known !== undefined) return known;
    const shape = [this.weights!.elements], kind = "f32" as const;
    const flat = this.#add({ op: "tensor", origin: { from: "weights" }, shape, kind });
    const whole = this.#add({ op: half, args: [flat], shape, kind, half, saved: true });
    this.#whole.set(half, whole);
    return whole;
  }

  #isOnlyGradient(ref: Ref): boolean {
    if (this.#results.has(ref)) return false;
    const users = this.#users[ref];
    if (this.#gradients.has(ref)) return users.length === 0;
    return users.length > 0 &&
      users.every((user) => VIEWS.has(this.graph.nodes[user].op) && this.#isOnlyGradient(user));
  }
  /** A product, or a bias's sum, which in fp16 is rounded all the same: that it overflows is seen by the scaler. */
  #isSummed(ref: Ref, half: HalfType): boolean {
    const node = this.graph.nodes[ref];
    if (this.#users[ref].length !== 1) return false;
    if (VIEWS.has(node.op)) return this.#isSummed(argsOf(node)[0], half);
    return node.op === "gemm" || node.op === "sum" && half === "bf16";
  }

  #gemm(node: Node & { op: "gemm" }, ref: Ref): Ref {
    const half = this.#common(node.args);
    if (half === null) {
      return this.#add({
        ...node,
        args: node.args.map((arg) => this.#asWide(arg)) as [Ref, Ref],
      });
    }
    const rounds = this.#ends(ref) === half && !this.#becomesGradient(ref);
    return this.#add(rounds ? { ...node, half } : node);
  }
  /** All that is done with a product is that a weight's gradient is rounded, which it is not here. */
  #becomesGradient(ref: Ref): boolean {
    const users = this.#users[ref];
    return users.length === 1 &&
      (isHalf(this.graph.nodes[users[0]].op)
        ? this.#isOnlyGradient(users[0])
        : this.#becomesGradient(users[0]));
  }

  /** add(x w^T, bias) that is rounded: one call of libtorch's. */
  #biased({ args, shape, kind }: Node & { args: readonly Ref[] }, ref: Ref): Ref | null {
    const half = this.#ends(ref);
    if (half === null || shape.length !== 2) return null;
    const at = args.findIndex((arg) => this.graph.nodes[arg].op === "gemm"),
      gemm = args[at],
      bias = args[1 - at];
    if (at < 0 || this.#users[gemm].length > 1 || this.#results.has(gemm)) return null;
    const { args: [x, w], transposeA, transposeB } = this.graph.nodes[gemm] as Node & { op: "gemm" };
    if (transposeA || !transposeB) return null;
    const refs = [x, w, bias].map((one) => this.#now[one]), { shape: wide } = this.#nodes[refs[2]];
    if (this.#common(refs) !== half || wide.length !== 1 || wide[0] !== shape[1]) return null;
    const values = refs.map((one) => ({ ref: one }));
    return this.#add({ op: "call", schema: LINEAR, values, args: refs, shape, kind, half });
  }

  #call(node: Node & { op: "call" }, ref: Ref): Ref {
    const name = nameOfCall(node.schema), mixed = Object.hasOwn(MIXED, name) ? MIXED[name] : null;
    const values = mixed ? mixed.args.map((i) => node.values[i]) : node.values;
    const numbers = refsIn(values).filter((arg) => this.#nodes[arg].kind === "f32");
    const half = this.#common(numbers);
    const results = [ref, ...this.#users[ref].filter((user) => this.graph.nodes[user].op === "result")];
    const rounds = () =>
      results.every((one) => {
        const result = this.graph.nodes[one];
        if (mixed && !mixed.results.includes(result.op === "result" ? result.index : 0)) return true;
        return result.kind !== "f32" || this.#users[one].every((user) =>
          this.graph.nodes[user].op === "result"
        ) ||
          this.#ends(one) === half;
      });
    if (half !== null && (ALWAYS.test(name) || KEEPING_CALLS.has(name) || rounds())) {
      const kept = new Set(mixed ? numbers : node.args);
      const to = (arg: Ref) => kept.has(arg) ? arg : this.#asWide(arg);
      const half_ = this.#results.has(ref) || node.kind !== "f32" ? {} : { half };
      return this.#add({ ...node, ...half_, args: node.args.map(to), values: withRefs(node.values, to) });
    }
    const to = (arg: Ref) => this.#asWide(arg);
    return this.#add({ ...node, args: node.args.map(to), values: withRefs(node.values, to) });
  }
  #halfOfResult({ args: [call], index, kind }: Node & { op: "result" }): HalfType | undefined {
    const { schema, half } = this.#nodes[call] as Node & { op: "call" }, name = nameOfCall(schema);
    if (kind !== "f32") return undefined;
    return Object.hasOwn(MIXED, name) && !MIXED[name].results.includes(index) ? undefined : half;
  }

  /** The same numbers as f32 in memory, for an op that takes no others. */
  #asWide(ref: Ref): Ref {
    const { half, shape, kind } = this.#nodes[ref];
    if (half === undefined) return ref;
    const known = this.#wide.get(ref);
    if (known !== undefined) return known;
    const wide = this.#add({ op: "copy", args: [ref], shape, kind });
    this.#wide.set(ref, wide);
    return wide;
  }
}
