// Mixed precision in a plan: numbers of bf16 or f16 are f32 that were rounded to it. A product takes rounded operands, adds up in
// f32 and is rounded once, as libtorch's products in half precision are.
import type { Builder } from "../builder.ts";
import { roundedTo } from "../fold.ts";
import type { HalfType, Ref } from "../graph.ts";

/** Autocast rounds the operands of these, biases included. */
export const ROUNDS_OPERANDS = new RegExp(
  "^(linear|matmul|mm|bmm|mv|dot|addmm|addbmm|baddbmm|addmv|einsum|conv\\w*|_?convolution\\w*|scaled_dot_product_attention)$",
);

/** These hand their arguments on, number by number. */
const KEEPING: ReadonlySet<string> = new Set([
  ...["reshape", "expand", "permute", "slice", "embed", "cat", "stop", "neg", "abs", "max", "min"],
]);

export const rounded = (b: Builder, x: Ref, half: HalfType): Ref =>
  isRounded(b, x, half) ? x : b.pointwise(half, x);

/** True where rounding would change nothing. */
function isRounded(b: Builder, x: Ref, half: HalfType): boolean {
  const node = b.node(x);
  if (node.op === half) return true;
  if (node.op === "number") return roundedTo(half, node.value) === node.value;
  if (node.op === "where") return node.args.slice(1).every((arg) => isRounded(b, arg, half));
  return KEEPING.has(node.op) && "args" in node && node.args.every((arg) => isRounded(b, arg, half));
}
