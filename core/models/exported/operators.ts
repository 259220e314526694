// From a node's target to what runs it. May import ffi, graph (types), numbers.
import { type Operator, operator } from "../../../ffi/dispatch.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { numberFunction } from "./numbers.ts";

export type Resolved =
  | { readonly kind: "op"; readonly op: Operator; readonly name: string }
  /** Takes what its inputs are, in their order: numbers, or one tensor and numbers. */
  | { readonly kind: "numbers"; readonly run: (...args: never[]) => number }
  | { readonly kind: "nothing" }
  | { readonly kind: "missing"; readonly why: string };

/** What was true when the graph was exported, said again: there is nothing to do. */
const CHECKS = new Set([
  "aten._assert_scalar",
  "aten._assert_tensor_metadata",
  "aten._assert_async",
  "aten.sym_constrain_range",
  "aten.sym_constrain_range_for_size",
  "aten._functional_sym_constrain_range",
]);

const SIZES: Readonly<Record<string, (t: Tensor, dim?: number) => number>> = {
  "aten.sym_size": (t, dim = 0) => t.shape.at(dim)!,
  "aten.sym_stride": (t, dim = 0) => t.strides.at(dim)!,
  "aten.sym_numel": (t) => t.numel,
  "aten.item": (t) => t.item(),
  "aten._local_scalar_dense": (t) => t.item(),
};

const CONTROL = new Set(["cond", "map", "map_impl", "while_loop", "scan", "associative_scan"]);

export function resolve(target: string): Resolved {
  const python = numberFunction(target);
  if (python) return { kind: "numbers", run: python as (...args: never[]) => number };
  const found = /^torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?$/.exec(target);
  if (!found) return { kind: "missing", why: "this is no operation on tensors that is known here" };
  const [, namespace, name, overload = "default"] = found;
  const short = `${namespace}.${name}`;
  if (CHECKS.has(short)) return { kind: "nothing" };
  if (Object.hasOwn(SIZES, short)) {
    return { kind: "numbers", run: SIZES[short] as (...args: never[]) => number };
  }
  if (namespace === "higher_order") {
    return {
      kind: "missing",
      why: CONTROL.has(name)
        ? "control flow inside the graph is not supported: write it with torch.where, or as a fixed loop"
        : "an operation on whole functions is not supported: leave it out of forward",
    };
  }
  const op = operator(`${namespace}::${name}`, overload === "default" ? "" : overload);
  if (op === null) {
    return {
      kind: "missing",
      why: namespace === "aten"
        ? "this libtorch has no such operation: a newer one may have it"
        : `"${namespace}" is no part of libtorch: a custom operation needs its own library, so write it with PyTorch's`,
    };
  }
  if (op.call === null) return { kind: "missing", why: op.reason };
  return { kind: "op", op, name };
}
