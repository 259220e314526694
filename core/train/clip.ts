// Gradient norm and clipping on the arena. May import ffi, arena.
import { add, constant } from "../../ffi/make.ts";
import { div, dot, minimum, mul_, sqrt, square, stack, sum } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { Arena } from "./arena.ts";

/** The 2-norm of the whole gradient, as a 0-dim tensor. Padding between views is zero and does not count. */
export function gradientNorm(arena: Arena): Tensor {
  return scope(() => {
    if (!arena.direct) return sqrt(dot(arena.gradient, arena.gradient));
    return sqrt(sum(stack(arena.gradients.map((g) => sum(square(g))))));
  });
}

/** Scales the gradient down to `limit` where it is longer, as torch.nn.utils.clip_grad_norm_ does, on the device. */
export function clip(gradient: Tensor, norm: Tensor, limit: number): void {
  scope(() => {
    const device = gradient.device;
    const factor = div(constant(limit, "f32", device), add(norm, constant(1e-6, "f32", device)));
    mul_(gradient, minimum(factor, constant(1, "f32", device)));
  });
}
