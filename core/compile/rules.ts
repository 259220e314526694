// Gradients of simple ops, each in simple ops: so a gradient has gradients too. A rule gives one value for each
// argument, or null; what was stretched is summed up again elsewhere (derive.ts).
import type { Builder } from "./builder.ts";
import type { Node, Pointwise, Ref } from "./graph.ts";
import { callGradients } from "./call_rules.ts";

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
export function argumentGradients(
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
      return [b.expand(g, b.shape(node.args[0]))];
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
      return [b.embed(g, node.dim, node.start, b.shape(node.args[0])[node.dim])];
    case "embed":
      return [b.slice(g, node.dim, node.start, node.start + b.shape(node.args[0])[node.dim])];
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

/** A matrix that was turned lies column by column, and libtorch computes its gradient so, too. */
function ofTensors(b: Builder, g: Ref, x: Ref, z: Ref): Gradients {
  const turn = (r: Ref): Ref => {
    const rank = b.shape(r).length;
    return b.permute(r, b.shape(r).map((_, d) => d < rank - 2 ? d : 2 * rank - 3 - d));
  };
  const byColumns = (r: Ref) => b.node(r).op === "permute" && b.shape(r).length === 2;
  return [
    byColumns(x) ? turn(b.gemm(z, turn(g))) : b.gemm(g, turn(z)),
    byColumns(z) ? turn(b.gemm(turn(g), x)) : b.gemm(turn(x), g),
  ];
}
