// Kernels write f32 alone. Where whole numbers or truth values have to lie in memory, since a call takes them or they are put
// together, libtorch computes them; kernels that only read through an expression of them still compute it in registers.
import { Num } from "../../ffi/scalar.ts";
import { type Builder, numelOf, withRefs } from "./builder.ts";
import { rebuilt } from "./rebuild.ts";
import type { Graph, Kind, Node, Ref } from "./graph.ts";

const of = (r: Ref) => ({ ref: r });

/** libtorch's op for each simple op that gives truth values. */
const SCHEMAS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ["lt", "le", "gt", "ge", "eq", "ne"].map((
      op,
    ) => [op, `${op}.Tensor(Tensor self, Tensor other) -> Tensor`]),
  ),
  and: "logical_and(Tensor self, Tensor other) -> Tensor",
  or: "logical_or(Tensor self, Tensor other) -> Tensor",
  not: "logical_not(Tensor self) -> Tensor",
  where: "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
};

const FULL = "full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, " +
  "Device? device=None, bool? pin_memory=None) -> Tensor";
const CLONE = "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor";
const PAD = "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor";

const PUT_TOGETHER: ReadonlySet<string> = new Set(["cat", "embed", "copy"]);

/** The same graph, in which no call takes a whole number or a truth value that a kernel would have to write. */
export function withWholeNumbers(graph: Graph): Graph {
  const { nodes } = graph;
  const touched = nodes.some((node) =>
    node.kind !== "f32" && (PUT_TOGETHER.has(node.op) || node.op === "reshape") ||
    node.op === "call" && node.args.some((arg) => nodes[arg].kind !== "f32" && !isThere(nodes[arg]))
  );
  if (!touched) return graph;
  const known = new Map<Ref, Ref>();
  return rebuilt(graph, (b, node, _r, to) => {
    const settle = (r: Ref): Ref => settled(b, to(r), known);
    if (node.op === "call") {
      return b.call(node.schema, withRefs(node.values, settle), node.shape, node.kind);
    }
    if (node.kind === "f32") return null;
    if (PUT_TOGETHER.has(node.op)) return put(b, node, (node as { args: readonly Ref[] }).args.map(settle));
    if (node.op !== "reshape" || keepsOrder(b, node.shape, to(node.args[0]))) return null;
    return b.reshape(inOrder(b, settle(node.args[0])), node.shape);
  });
}

const isThere = ({ op }: Node): boolean => op === "tensor" || op === "call" || op === "result";

/** The value where a call finds it: libtorch's, or a view of it. */
function settled(b: Builder, r: Ref, known: Map<Ref, Ref>): Ref {
  const node = b.node(r);
  if (node.kind === "f32" || isThere(node)) return r;
  let made = known.get(r);
  if (made === undefined) known.set(r, made = computed(b, r, node, (arg) => settled(b, arg, known)));
  return made;
}

function computed(b: Builder, r: Ref, node: Node, to: (r: Ref) => Ref): Ref {
  switch (node.op) {
    case "number":
      return b.call(
        FULL,
        [[], new Num(node.value, node.kind === "bool" ? "bool" : "int"), node.kind, null, null, null],
        [],
        node.kind,
      );
    case "reshape": {
      const source = to(node.args[0]);
      return b.reshape(keepsOrder(b, node.shape, source) ? source : inOrder(b, source), node.shape);
    }
    case "expand":
      return b.expand(to(node.args[0]), node.shape);
    case "permute":
      return b.permute(to(node.args[0]), node.dims);
    case "slice":
      return b.slice(to(node.args[0]), node.dim, node.start, node.end);
    case "cat":
    case "embed":
    case "copy":
      return put(b, node, node.args.map(to));
  }
  const schema = SCHEMAS[node.op], args = "args" in node ? node.args.map(to) : [];
  if (schema === undefined) throw new Error(`internal: value ${r} of ${node.kind} is a ${node.op}.`);
  return b.call(schema, args.map(of), node.shape, node.kind);
}

/** A view that only has other dimensions of size 1, or one of what lies in its own order. */
function keepsOrder(b: Builder, shape: readonly number[], source: Ref): boolean {
  const longer = (sizes: readonly number[]) => String(sizes.filter((size) => size > 1));
  return isThere(b.node(source)) || longer(shape) === longer(b.shape(source)) ||
    numelOf(shape) === 1;
}

const inOrder = (b: Builder, r: Ref): Ref =>
  isThere(b.node(r)) ? r : b.call(CLONE, [of(r), "contiguous"], b.shape(r), b.kind(r));

function put(b: Builder, node: Node, args: readonly Ref[]): Ref {
  const kind: Kind = node.kind;
  if (node.op === "cat") {
    return b.call("cat(Tensor[] tensors, int dim=0) -> Tensor", [args.map(of), node.dim], node.shape, kind);
  }
  if (node.op === "embed") {
    const behind = node.shape.length - 1 - node.dim, size = b.shape(args[0])[node.dim];
    const pads = [...new Array(2 * behind).fill(0), node.start, node.shape[node.dim] - node.start - size];
    return b.call(PAD, [of(args[0]), pads, new Num(0, "int")], node.shape, kind);
  }
  return b.call(CLONE, [of(args[0]), "contiguous"], node.shape, kind);
}
