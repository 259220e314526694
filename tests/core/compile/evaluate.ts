// Computes a graph node by node with libtorch's own ops: what plans are compared with. Test helper.
import { compile } from "../../../ffi/aten.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { add, scalar, sub } from "../../../ffi/make.ts";
import * as ops from "../../../ffi/ops.ts";
import { parseSchema } from "../../../ffi/schema.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { liesByTokens } from "../../../core/compile/attentions.ts";
import type { Graph, Node, Ref, TensorOrigin } from "../../../core/compile/graph.ts";
import { callable } from "../../../core/compile/recorded_calls.ts";

const tanhBackward = compile(
  parseSchema("tanh_backward(Tensor grad_output, Tensor output) -> Tensor"),
  "aten",
) as (
  ...args: Tensor[]
) => Tensor;

const BINARY: Readonly<Record<string, (a: Tensor, b: Tensor) => Tensor>> = {
  mul: ops.mul,
  div: ops.div,
  pow: ops.pow,
  tanhBackward,
  max: ops.maximum,
  min: ops.minimum,
  lt: ops.lt,
  le: ops.le,
  gt: ops.gt,
  ge: ops.ge,
  eq: ops.eq,
  ne: ops.ne,
  and: ops.logicalAnd,
};

/** The values of these refs, in the caller's scope; `tensors` finds what comes from outside. */
export function evaluate(
  { nodes }: Pick<Graph, "nodes">,
  tensors: (origin: TensorOrigin) => Tensor,
  wanted: readonly Ref[],
): Tensor[] {
  return noGrad(() => {
    const values: Tensor[] = [], calls = new Map<Ref, Tensor[]>();
    nodes.forEach((_, r) => values[r] = valueOf(nodes, r, values, calls, tensors));
    return wanted.map((r) => values[r]);
  });
}

function valueOf(
  nodes: readonly Node[],
  r: Ref,
  values: readonly Tensor[],
  calls: Map<Ref, Tensor[]>,
  tensors: (origin: TensorOrigin) => Tensor,
): Tensor {
  const node = nodes[r], args = "args" in node ? node.args.map((a) => values[a]) : [];
  const [a, b, c] = args;
  switch (node.op) {
    case "tensor":
      return tensors(node.origin);
    case "number":
      return scalar(node.value, node.kind);
    case "add":
      return add(a, b);
    case "sub":
      return sub(a, b);
    case "float":
      return ops.toDtype(a, "f32");
    case "not":
      return ops.logicalNot(a);
    case "or":
      return ops.logicalNot(ops.logicalAnd(ops.logicalNot(a), ops.logicalNot(b)));
    case "where":
      return ops.where(a, b, c);
    case "sum":
      return ops.sumDim(a, node.dims, true);
    case "amax":
      return ops.amax(a, node.dims, true);
    case "gemm":
      return ops.matmul(
        node.transposeA ? ops.transpose(a, -1, -2) : a,
        node.transposeB ? ops.transpose(b, -1, -2) : b,
      );
    case "reshape":
      return ops.reshape(a, node.shape);
    case "expand":
      return ops.expand(a, node.shape);
    case "permute":
      return ops.permute(a, node.dims);
    case "slice":
      return ops.narrow(a, node.dim, node.start, node.end - node.start);
    case "embed": {
      const after = node.shape.length - 1 - node.dim, size = a.shape[node.dim];
      const pads = [...new Array(2 * after).fill(0), node.start, node.shape[node.dim] - node.start - size];
      return ops.pad(a, pads);
    }
    case "cat":
      return ops.cat(args, node.dim);
    case "call": {
      const made = callable(node.schema)(...given(node.values, values));
      calls.set(r, (Array.isArray(made) ? made : [made]) as Tensor[]);
      return laid(calls.get(r)![0], node, node.schema, 0);
    }
    case "result": {
      const { schema } = nodes[node.args[0]] as { schema: string };
      return laid(calls.get(node.args[0])![node.index], node, schema, node.index);
    }
    case "stop":
      return a;
    case "copy":
      return ops.contiguous(ops.clone(a));
    case "bf16":
    case "f16":
      return ops.toDtype(ops.toDtype(a, node.op), "f32");
    default:
      if (Object.hasOwn(BINARY, node.op)) return BINARY[node.op](a, b);
      return (ops as unknown as Record<string, (x: Tensor) => Tensor>)[node.op](a);
  }
}

/** [n, h, w, c] of [n, c, h, w], and [n, tokens, heads, width] of [n, heads, tokens, width]. */
const laid = (t: Tensor, { last }: { readonly last?: boolean }, schema: string, index: number): Tensor =>
  last ? ops.permute(t, [0, 2, 3, 1]) : liesByTokens(schema, index) ? ops.permute(t, [0, 2, 1, 3]) : t;

function given(args: readonly unknown[], values: readonly Tensor[]): unknown[] {
  return args.map((value) => {
    if (Array.isArray(value)) return given(value, values);
    return typeof value === "object" && value !== null && "ref" in value
      ? values[(value as { ref: Ref }).ref]
      : value;
  });
}
