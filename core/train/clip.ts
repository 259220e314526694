// Gradient norm and clipping on the arena. May import ffi.
import { add, constant } from "../../ffi/make.ts";
import { div, dot, minimum, mul_, sqrt } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";

/** The 2-norm of the whole gradient, as a 0-dim tensor. Padding between views is zero and does not count. */
export const gradientNorm = (gradient: Tensor): Tensor => scope(() => sqrt(dot(gradient, gradient)));

/** Scales the gradient down to `limit` where it is longer, as torch.nn.utils.clip_grad_norm_ does, on the device. */
export function clip(gradient: Tensor, norm: Tensor, limit: number): void {
  scope(() => {
    const device = gradient.device;
    const factor = div(constant(limit, "f32", device), add(norm, constant(1e-6, "f32", device)));
    mul_(gradient, minimum(factor, constant(1, "f32", device)));
  });
}
