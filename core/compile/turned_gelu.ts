// gelu of a value that is turned. libtorch asks whether the tensor is contiguous: oneDNN computes it if it is, and a loop of
// libtorch's own, with other last bits, if it is not. Here a turned value is one that lies in rows, and a view of that.
import { permute } from "../../ffi/ops.ts";
import { callOf } from "../../ffi/operators.ts";
import { hostOps } from "../../ffi/tape.ts";
import type { Tensor } from "../../ffi/tensor.ts";

const FORWARD = "gelu(Tensor self, *, str approximate='none') -> Tensor";
export const GELU_BACKWARD =
  "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor";

/** Takes the values as they lie, and how they are turned before the op; its result lies as the first of them. */
const TURNED: Readonly<Record<string, string>> = {
  [FORWARD]: "turned_gelu(Tensor self, int[] order) -> Tensor",
  [GELU_BACKWARD]: "turned_gelu_backward(Tensor grad_output, Tensor self, int[] order) -> Tensor",
};

/** Says what is called in the place of an op; null where turning a value changes no bit. */
export function turnedGelu(
  schema: string,
  values: readonly unknown[],
  order: readonly number[],
): { readonly schema: string; readonly values: readonly unknown[] } | null {
  if (values.at(-1) !== "none" || !Object.hasOwn(TURNED, schema)) return null;
  return { schema: TURNED[schema], values: [...values.slice(0, -1), order] };
}

for (const [schema, turned] of Object.entries(TURNED)) {
  let op: ReturnType<typeof callOf> | undefined;
  hostOps.set(turned.slice(0, turned.indexOf("(")), (...given) => {
    const order = given.at(-1) as readonly number[], back = order.map((_, d) => order.indexOf(d));
    op ??= callOf(schema);
    const made = op(...(given.slice(0, -1) as Tensor[]).map((t) => permute(t, order)), "none");
    return [permute(made as Tensor, back)];
  });
}
