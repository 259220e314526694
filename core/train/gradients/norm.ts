// Norm and clipping of the gradient, and the first gradient that is not finite.
import { add, constant } from "../../../ffi/make.ts";
import {
  allTrue,
  div,
  dot,
  isfinite,
  minimum,
  mul_,
  split,
  sqrt,
  square,
  stack,
  sum,
} from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Arena } from "./arena.ts";

/** Padding between views is zero and does not count. */
export function gradientNorm(arena: Arena): Tensor {
  return scope(() => {
    if (!arena.direct) return sqrt(sum(stack(piecesOf(arena).map((piece) => dot(piece, piece)))));
    return sqrt(sum(stack(arena.gradients.map((g) => sum(square(g))))));
  });
}

/**
 * On a CPU one f32 sum of ten million squares is wrong in the fourth digit. Pieces of this size are good to
 * 3e-7, larger ones to 1e-6 only. A GPU adds in blocks by itself.
 */
const PIECE = 16_384;

const pieces = new WeakMap<Arena, readonly Tensor[]>();

function piecesOf(arena: Arena): readonly Tensor[] {
  let found = pieces.get(arena);
  if (!found) {
    const { memory, flat } = arena;
    found = flat.device === "cpu"
      ? scope(() => memory.flatMap((part) => split(part, PIECE)).map((piece) => keep(piece)))
      : memory;
    pieces.set(arena, found);
  }
  return found;
}

/** The same as torch.nn.utils.clip_grad_norm_, without waiting for the device. */
export function clip(gradients: readonly Tensor[], norm: Tensor, limit: number): void {
  scope(() => {
    const { device } = norm;
    const factor = div(constant(limit, "f32", device), add(norm, constant(1e-6, "f32", device)));
    const scale = minimum(factor, constant(1, "f32", device));
    for (const gradient of gradients) mul_(gradient, scale);
  });
}

export function firstNonFinite(arena: Arena): { parameter: string; of: "gradient" | "weight" } | null {
  // A direct arena has lost its gradients by now; the spoilt weights are still there.
  const i = arena.direct
    ? -1
    : arena.gradients.findIndex((g) => scope(() => allTrue(isfinite(g)).item() === 0));
  if (i >= 0) return { parameter: arena.names[i], of: "gradient" };
  const p = arena.parameters.findIndex((w) => scope(() => allTrue(isfinite(w)).item() === 0));
  return p >= 0 ? { parameter: arena.names[p], of: "weight" } : null;
}

export const textOfNonFinite = (found: ReturnType<typeof firstNonFinite>): string =>
  found === null
    ? "none among the gradients now"
    : found.of === "gradient"
    ? `the gradient of ${found.parameter}`
    : found.parameter;
