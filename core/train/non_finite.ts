// Which parameter's gradient stopped being a number, for the sentence that ends a run. May import ffi, arena.
import { allTrue, isfinite } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";
import type { Arena } from "./arena.ts";

export function firstNonFinite(arena: Arena): string {
  // In a direct arena the gradients are gone by now; the weights they spoilt are not.
  const i = arena.direct
    ? -1
    : arena.gradients.findIndex((g) => scope(() => allTrue(isfinite(g)).item() === 0));
  if (i >= 0) return `the gradient of ${arena.names[i]}`;
  const p = arena.parameters.findIndex((w) => scope(() => allTrue(isfinite(w)).item() === 0));
  return p >= 0 ? arena.names[p] : "none among the gradients now";
}
