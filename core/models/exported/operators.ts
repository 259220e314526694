// From a node's target to what runs it.
import { type Operator, operator } from "../../../ffi/dispatch.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { guardOf, refusedName, refusedSchema } from "./admitted.ts";
import { Unfit } from "./arguments.ts";
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

/** What inline.ts takes apart before anything is planned. */
const PUT_INLINE = new Set(["higher_order.wrap_with_set_grad_enabled", "higher_order.wrap_with_autocast"]);

const CONTROL = new Set(["cond", "map", "map_impl", "while_loop", "scan", "associative_scan"]);

/** Of "torch.ops.aten.add.Tensor": namespace, name and overload; null for what is no operation on tensors. */
function partsOf(target: string): { namespace: string; name: string; overload: string } | null {
  const found = /^torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?$/.exec(target);
  if (!found) return null;
  const [, namespace, name, overload = "default"] = found;
  return { namespace, name, overload: overload === "default" ? "" : overload };
}

/** Why no graph may hold this node, whatever libtorch is there; "" where that is no reason to refuse it. */
export function refusedTarget(target: string): string {
  if (numberFunction(target)) return "";
  const parts = partsOf(target);
  if (!parts) return "this is no operation on tensors that is known here";
  const { namespace, name, overload } = parts;
  const short = `${namespace}.${name}`;
  if (CHECKS.has(short) || Object.hasOwn(SIZES, short) || PUT_INLINE.has(short)) return "";
  if (namespace !== "higher_order") return refusedName(namespace, name, overload);
  return CONTROL.has(name)
    ? "control flow inside the graph is not supported: write it with torch.where, or as a fixed loop"
    : "an operation on whole functions is not supported: leave it out of forward";
}

export function resolve(target: string): Resolved {
  const python = numberFunction(target);
  if (python) return { kind: "numbers", run: python as (...args: never[]) => number };
  const parts = partsOf(target);
  const short = parts ? `${parts.namespace}.${parts.name}` : "";
  if (CHECKS.has(short)) return { kind: "nothing" };
  if (Object.hasOwn(SIZES, short)) {
    return { kind: "numbers", run: SIZES[short] as (...args: never[]) => number };
  }
  const found = parts?.namespace === "aten" ? operator(`aten::${parts.name}`, parts.overload) : null;
  if (parts?.namespace === "aten" && found === null) {
    return { kind: "missing", why: "this libtorch has no such operation: a newer one may have it" };
  }
  const why = refusedTarget(target) || (found ? refusedSchema(found.schema) || found.reason : UNKNOWN);
  return why === "" ? { kind: "op", op: guarded(found!), name: parts!.name } : { kind: "missing", why };
}

function guarded(op: Operator): Operator {
  const guard = guardOf(op.schema), { call } = op;
  if (guard === null || call === null) return op;
  return {
    ...op,
    call(...args) {
      const why = guard(...args as never[]);
      if (why !== "") throw new Unfit(why);
      return call(...args);
    },
  };
}

const UNKNOWN = "an operation on whole functions is not supported: leave it out of forward";
