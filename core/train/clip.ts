// Gradient norm and clipping on the arena. May import ffi, arena.
import { add, constant } from "../../ffi/make.ts";
import { div, dot, minimum, mul_, split, sqrt, square, stack, sum } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Arena } from "./arena.ts";

/** The 2-norm of the whole gradient, as a 0-dim tensor. Padding between views is zero and does not count. */
export function gradientNorm(arena: Arena): Tensor {
  return scope(() => {
    if (!arena.direct) return sqrt(sum(stack(piecesOf(arena).map((piece) => dot(piece, piece)))));
    return sqrt(sum(stack(arena.gradients.map((g) => sum(square(g))))));
  });
}

/**
 * On a CPU the sum of some ten million squares in one go is wrong in the fourth digit, because 32-bit numbers are added to
 * a few sums that have grown large. A GPU adds in blocks by itself.
 */
const PIECE = 65_536;

const pieces = new WeakMap<Arena, readonly Tensor[]>();

function piecesOf(arena: Arena): readonly Tensor[] {
  let found = pieces.get(arena);
  if (!found) {
    const { gradient } = arena;
    found = gradient.device === "cpu" && gradient.numel > 0
      ? scope(() => split(gradient, PIECE).map((piece) => keep(piece)))
      : [gradient];
    pieces.set(arena, found);
  }
  return found;
}

/** Scales the gradient down to `limit` where it is longer, as torch.nn.utils.clip_grad_norm_ does, on the device. */
export function clip(gradient: Tensor, norm: Tensor, limit: number): void {
  scope(() => {
    const device = gradient.device;
    const factor = div(constant(limit, "f32", device), add(norm, constant(1e-6, "f32", device)));
    mul_(gradient, minimum(factor, constant(1, "f32", device)));
  });
}
