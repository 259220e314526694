// Gradients of a graph, as more of the same graph.
import { broadcastShapes, Builder, sameShape } from "./builder.ts";
import { Num } from "../../ffi/scalar.ts";
import { type Graph, hasGradients, type Node, type Pointwise, type Ref } from "./graph.ts";
import { argsOf } from "./uses.ts";
import { callGradients } from "./call_rules.ts";
import { copyInto, rebuilt } from "./rebuild.ts";
import { type RowPart, rowPartsOf } from "./row_parts.ts";

/**
 * The gradients of `of` for each of `wrt`, null where nothing leads there. It can be asked again for what it gave.
 * `seed` is the gradient of `of` itself. Nothing goes back behind `end`.
 */
export function gradients(
  b: Builder,
  of: Ref,
  seed: Ref,
  wrt: readonly Ref[],
  end: Ref | null = null,
): (Ref | null)[] {
  const reached = reachedFrom(b, wrt, of);
  const back = new Map<Ref, Ref>([[of, seed]]);
  const add = (to: Ref, g: Ref) => {
    const before = back.get(to);
    back.set(
      to,
      before === undefined ? g : b.kind(g) === "f32" ? b.pointwise("add", before, g) : sumOf(b, before, g),
    );
  };
  const results = new Map<Ref, (Ref | null)[]>();
  for (let y = of; y >= 0; y--) {
    const g = back.get(y), node = b.node(y), more = results.get(y);
    if (!reached[y] || y === end || g === undefined && more === undefined) continue;
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
    const by = node.op !== "stop" && (hasGradients(node.kind) || node.op === "call");
    reached[r] = wrt.includes(r) || by && argsOf(node).some((a) => reached[a]);
  }
  return reached;
}

const sumOf = (b: Builder, x: Ref, y: Ref): Ref =>
  b.call(
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    [{ ref: x }, { ref: y }, new Num(1, "int")],
    b.shape(x),
    b.kind(x),
  );

/** A stretched value gets the sum of its copies' gradients. */
function summedTo(b: Builder, g: Ref, to: Ref): Ref {
  const shape = b.shape(to), given = b.shape(g);
  const whole = broadcastShapes([given, shape]);
  const wide = sameShape(given, whole) ? g : b.expand(g, whole);
  const ahead = whole.length - shape.length;
  const dims = whole.flatMap((size, d) => size !== 1 && (d < ahead || shape[d - ahead] === 1) ? [d] : []);
  const sum = b.kind(wide) === "f32" || dims.length === 0 ? b.sum(wide, dims) : b.call(
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    [{ ref: wide }, dims, true, null],
    whole.map((size, d) => dims.includes(d) ? 1 : size),
    b.kind(wide),
  );
  return b.reshape(sum, shape);
}

interface DeriveOptions {
  /** The gradient begins with a 0-dim tensor, the micro-batch's share, and not with 1. */
  readonly weighted: boolean;
  /** Gradients are added to what is there. Those that are sums of many terms have it as their first one: `Graph.sums`. */
  readonly adds?: boolean;
}

/** The gradients of the loss for the arena's parameters, `shapes`; what nothing needs is left out. */
export function derive(graph: Graph, parameters: number, { weighted, adds = false }: DeriveOptions): Graph {
  const b = new Builder(graph.exact ? "faithful" : "free", graph.imagesLast);
  const { output, effects, writes = [] } = graph;
  const roots = [output, graph.loss, ...effects, ...writes.map(({ ref }) => ref)];
  const rowParts = rowPartsOf(graph),
    seed = () => weighted ? b.tensor({ from: "weight" }, [], "f32") : b.number(1);
  const back = new PartsBack(b, rowParts, seed, parameters, adds);
  const { moved, blocks } = copyInto(b, graph, roots, false, { behind: back.behind });
  const loss = moved.get(graph.loss)!;
  b.learning = false;
  const wrt = parametersOf(b, parameters);
  const known = wrt.filter((r) => r !== null);
  const found = rowParts.length > 0
    ? back.throughBody(moved.get(output)!, known)
    : gradients(b, loss, b.reshape(seed(), b.shape(loss)), known);
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
    ...(adds && { sums: new Set(wrt.flatMap((r, i) => r !== null && back.sums.has(r) ? [i] : [])) }),
  };
  return pruned(whole);
}

/**
 * Backward of a loss that is added up over parts of the rows: each part goes back before the next one is computed, so that
 * one part's logits are in memory at a time, and a weight's gradients are added up in the order of the parts.
 */
class PartsBack {
  /** By parameter: its gradient from the parts so far. */
  readonly sums = new Map<Ref, Ref>();
  /** The gradients of each part's rows. */
  readonly #rows: Ref[] = [];

  constructor(
    readonly b: Builder,
    readonly parts: readonly RowPart[],
    readonly seed: () => Ref,
    readonly parameters: number,
    readonly adds: boolean,
  ) {}

  behind = (r: Ref, to: (r: Ref) => Ref): void => {
    const { b, sums } = this, part = this.parts[this.#rows.length];
    if (r !== part?.term) return;
    const wrt = parametersOf(b, this.parameters), known = wrt.filter((p) => p !== null), rows = to(part.rows);
    b.learning = false;
    const seed = b.reshape(this.seed(), b.shape(to(r)));
    const [own, ...found] = gradients(b, to(r), seed, [rows, ...known], rows);
    this.#rows.push(own!);
    known.forEach((p, i) => {
      const g = found[i], before = sums.get(p) ?? (this.adds ? this.#there(p, wrt.indexOf(p)) : null);
      if (g !== null) sums.set(p, before === null ? g : b.copy(b.pointwise("add", before, g)));
    });
    b.learning = true; // the next part goes forward
  };

  #there(p: Ref, index: number): Ref {
    return this.b.tensor({ from: "gradient", index }, this.b.shape(p), this.b.kind(p));
  }

  /** The gradients of all parameters, when the last part has gone back. */
  throughBody(output: Ref, known: readonly Ref[]): (Ref | null)[] {
    const { b, sums } = this, found = gradients(b, output, b.cat(this.#rows, 0), known);
    return known.map((p, i) => {
      const sum = sums.get(p) ?? null, own = found[i];
      return sum === null || own === null ? sum ?? own : b.pointwise("add", sum, own);
    });
  }
}

/** Without what nothing needs, and without stops. */
const pruned = (graph: Graph): Graph => rebuilt(graph, () => null);

function parametersOf(b: Builder, count: number): (Ref | null)[] {
  const refs = new Array<Ref | null>(count).fill(null);
  b.nodes.forEach((node, r) => {
    if (node.op === "tensor" && node.origin.from === "parameter") refs[node.origin.index] = r;
  });
  return refs;
}

// Gradients of simple ops, each in simple ops: so a gradient has gradients too. A rule gives one value for each
// argument, or null; what was stretched is summed up again elsewhere (derive.ts).

type Gradients = readonly (Ref | null)[];

/** `y` is the op's own result, `g` the gradient that comes back to it. */
type PointwiseRule = (b: Builder, g: Ref, y: Ref, ...args: Ref[]) => Gradients;

const TWO_BY_ROOT_PI = 2 / Math.sqrt(Math.PI);

const NONE: PointwiseRule = (_b, _g, _y, ...args) => args.map(() => null);

const RULES: Readonly<Record<Pointwise, PointwiseRule>> = {
  neg: (b, g) => [b.pointwise("neg", g)],
  abs: (b, g, _, x) => [b.pointwise("mul", g, b.pointwise("sign", x))],
  sign: NONE,
  floor: NONE,
  bf16: (b, g) => [b.pointwise("bf16", g)],
  f16: (b, g) => [b.pointwise("f16", g)],
  float: NONE,
  sqrt: (b, g, y) => [b.pointwise("div", g, b.pointwise("mul", y, b.number(2)))],
  rsqrt: (b, g, y) => {
    const cube = b.pointwise("mul", b.pointwise("mul", y, y), y);
    return [b.pointwise("mul", b.pointwise("mul", g, b.number(-0.5)), cube)];
  },
  reciprocal: (b, g, y) => [b.pointwise("mul", b.pointwise("neg", g), b.pointwise("mul", y, y))],
  exp: (b, g, y) => [b.pointwise("mul", g, y)],
  expm1: (b, g, y) => [b.pointwise("mul", g, b.pointwise("add", y, b.number(1)))],
  log: (b, g, _, x) => [b.pointwise("div", g, x)],
  log1p: (b, g, _, x) => [b.pointwise("div", g, b.pointwise("add", x, b.number(1)))],
  tanh: (b, g, y) =>
    b.way !== "free"
      ? [b.pointwise("tanhBackward", g, y)]
      : [b.pointwise("mul", g, b.pointwise("sub", b.number(1), b.pointwise("mul", y, y)))],
  sigmoid: (b, g, y) => [
    b.pointwise("mul", b.pointwise("mul", g, b.pointwise("sub", b.number(1), y)), y),
  ],
  erf: (b, g, _, x) => {
    const bell = b.pointwise("exp", b.pointwise("neg", b.pointwise("mul", x, x)));
    return [b.pointwise("mul", g, b.pointwise("mul", b.number(TWO_BY_ROOT_PI), bell))];
  },
  sin: (b, g, _, x) => [b.pointwise("mul", g, b.pointwise("cos", x))],
  cos: (b, g, _, x) => [b.pointwise("mul", b.pointwise("neg", g), b.pointwise("sin", x))],
  add: (_b, g) => [g, g],
  sub: (b, g) => [g, b.pointwise("neg", g)],
  mul: (b, g, _, x, z) => [b.pointwise("mul", g, z), b.pointwise("mul", g, x)],
  div: (b, g, y, _x, z) => [
    b.pointwise("div", g, z),
    b.pointwise("mul", b.pointwise("neg", g), b.pointwise("div", y, z)),
  ],
  pow: (b, g, y, x, n) => {
    if (b.way === "faithful" && b.numberOf(n) === 2) {
      return [b.pointwise("mul", g, b.pointwise("mul", n, x)), null];
    }
    const zero = b.number(0);
    const less = b.pointwise("pow", x, b.pointwise("sub", n, b.number(1)));
    const byBase = b.pointwise("mul", g, b.pointwise("mul", n, less));
    const constant = b.pointwise("and", b.pointwise("eq", x, zero), b.pointwise("ge", n, zero));
    const byPower = b.pointwise("mul", g, b.pointwise("mul", y, b.pointwise("log", x)));
    return [
      b.pointwise("where", b.pointwise("eq", n, zero), zero, byBase),
      b.pointwise("where", constant, zero, byPower),
    ];
  },
  tanhBackward: (b, g, _, of, y) => [
    b.pointwise("tanhBackward", g, y),
    b.pointwise("mul", g, b.pointwise("mul", b.pointwise("mul", b.number(-2), y), of)),
  ],
  max: (b, g, _, x, z) => chosen(b, g, "gt", x, z),
  min: (b, g, _, x, z) => chosen(b, g, "lt", x, z),
  lt: NONE,
  le: NONE,
  gt: NONE,
  ge: NONE,
  eq: NONE,
  ne: NONE,
  and: NONE,
  or: NONE,
  not: NONE,
  where: (b, g, y, c, p, q) => {
    const truth = ofResult(b, y, c, p, q);
    return [null, b.pointwise("where", truth, g, b.number(0)), b.pointwise("where", truth, b.number(0), g)];
  },
};

/** Equal ones share. */
function chosen(b: Builder, g: Ref, first: "gt" | "lt", x: Ref, z: Ref): Gradients {
  const half = b.pointwise("mul", g, b.number(0.5)), zero = b.number(0);
  const even = b.pointwise("eq", x, z);
  const part = (p: Ref, q: Ref) =>
    b.pointwise("where", even, half, b.pointwise("where", b.pointwise(first, p, q), g, zero));
  return [part(x, z), part(z, x)];
}

/** A relu's result tells where it was cut, as well as what went in: so only the result has to be kept. */
function ofResult(b: Builder, y: Ref, c: Ref, p: Ref, q: Ref): Ref {
  const truth = b.node(c);
  const cut = truth.op === "le" && truth.args[0] === q && b.numberOf(truth.args[1]) === 0 &&
    b.numberOf(p) === 0;
  return cut ? b.pointwise("le", y, b.number(0)) : c;
}

/** The gradients of a node's arguments from those that came back to its results: one, but for calls. */
function argumentGradients(
  b: Builder,
  y: Ref,
  back: readonly (Ref | null)[],
  wanted: (argument: Ref) => boolean,
): Gradients {
  const node = b.node(y);
  if (node.op === "call") return callGradients(b, y, node, back, wanted);
  const g = back[0]!;
  switch (node.op) {
    case "tensor":
    case "number":
    case "stop":
    case "result":
      return [];
    case "sum":
      return [b.spread(g, b.shape(node.args[0]))];
    case "amax":
      return [gradientOfAmax(b, y, g, node.args[0], node.dims)];
    case "gemm":
      return ofProduct(b, g, node);
    case "reshape":
      return [b.reshape(g, b.shape(node.args[0]))];
    case "expand":
    case "copy":
      return [g];
    case "permute":
      return [b.permute(g, node.dims.map((_, d) => node.dims.indexOf(d)))];
    case "slice":
      return [b.embed(g, node.dim, node.start, b.shape(node.args[0])[node.dim], b.way === "faithful")];
    case "embed":
      return [b.cropped(g, node.dim, node.start, node.start + b.shape(node.args[0])[node.dim])];
    case "cat": {
      let from = 0;
      return node.args.map((part) => {
        const to = from + b.shape(part)[node.dim];
        const own = b.slice(g, node.dim, from, to);
        from = to;
        return own;
      });
    }
    default:
      return RULES[node.op](b, g, y, ...node.args);
  }
}

/** As libtorch's amax: those that are equal to the greatest share. */
function gradientOfAmax(b: Builder, y: Ref, g: Ref, x: Ref, dims: readonly number[]): Ref {
  const places = b.pointwise("float", b.pointwise("eq", x, y));
  return b.pointwise("mul", b.pointwise("div", g, b.sum(places, dims)), places);
}

type Gemm = Extract<Node, { op: "gemm" }>;

function ofProduct(b: Builder, g: Ref, { args: [x, z], transposeA, transposeB }: Gemm): Gradients {
  if (b.way === "faithful" && !transposeA && !transposeB) return ofTensors(b, g, x, z);
  return [
    transposeA ? b.gemm(z, g, transposeB, true) : b.gemm(g, z, false, !transposeB),
    transposeB ? b.gemm(g, x, true, transposeA) : b.gemm(x, g, !transposeA, false),
  ];
}

/** libtorch computes the gradient of a matrix that lies column by column so, too. */
function ofTensors(b: Builder, g: Ref, x: Ref, z: Ref): Gradients {
  const turn = (r: Ref): Ref => {
    const rank = b.shape(r).length;
    return b.permute(r, b.shape(r).map((_, d) => d < rank - 2 ? d : 2 * rank - 3 - d));
  };
  return [
    b.byColumns(x) ? turn(b.gemm(z, turn(g))) : b.gemm(g, turn(z)),
    b.byColumns(z) ? turn(b.gemm(turn(g), x)) : b.gemm(turn(x), g),
  ];
}
