// Parameters live in one flat buffer, their gradients in another; each parameter and its .grad is a view. So
// clipping, averaging, saving and (later) reducing touch one big tensor. Where nothing wants the gradient as a whole,
// it has no buffer: autograd's own tensors go to the optimizer, which saves two passes over memory a step.
import {
  type GradSlot,
  gradSlotOf,
  hasGrad,
  noGrad,
  requireGrad,
  setGradSlot,
  takeGrad,
} from "../../ffi/autograd.ts";
import {
  allTrue,
  clone,
  copy_,
  detach,
  dot,
  isfinite,
  linalgMatrixNorm,
  narrow,
  permute,
  reshape,
  split,
  sqrt,
  square,
  stack,
  sum,
  view,
  zerosLike,
} from "../../ffi/ops.ts";
import { longLivedZeros } from "../../ffi/make.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";

/** All parameters of a model in one piece of memory, and their gradients in another. */
export interface Arena {
  /** The parameters' names in the state dict. */
  readonly names: readonly string[];
  /** The model's own tensors, which now lie in the arena. */
  readonly parameters: readonly Tensor[];
  /** One per parameter. In a direct arena: this step's, between takeGradients and the end of its scope. */
  readonly gradients: readonly Tensor[];
  /** All parameters as one vector, with gaps for alignment. */
  readonly flat: Tensor;
  /** The first element of each parameter in it. */
  readonly starts: readonly number[];
  /** All gradients; without elements in a direct arena. */
  readonly gradient: Tensor;
  /** The memory of all gradients, in few tensors: the buffer, or the parts of it that are this rank's. */
  readonly memory: readonly Tensor[];
  /** True when gradients are taken from autograd after each backward (takeGradients) instead of added up here. */
  readonly direct: boolean;
  /** The numbers of the parameters as the model has them, where they lie in another order here. */
  readonly order?: readonly number[];
  /** A CPU adds up a gradient's squares as PyTorch does: in the order in which the script's weights lie in memory. */
  readonly sumsAsTorch?: { readonly channelsLast: boolean };
  /** Views of another flat buffer at the same places: for optimizer state and averages. */
  viewsOf(flat: Tensor): Tensor[];
}

/** Every view begins on a multiple of 64 bytes, where vector code likes it. */
const ALIGN = 16;

export function alignedStarts(counts: readonly number[], align = ALIGN): { starts: number[]; total: number } {
  const starts: number[] = [];
  let total = 0;
  for (const count of counts) {
    starts.push(total);
    total += Math.ceil(count / align) * align;
  }
  return { starts, total };
}

/**
 * So many zeros that other ranks see too, where there are some to be had.
 * @internal
 */
export type Shared = (elements: number) => Tensor | null;

/** Moves the parameters into an arena on `device`, whose length `multiple` divides; modules keep their references. */
export function packParameters(
  named: Iterable<readonly [string, Tensor]>,
  device: Device,
  direct = false,
  multiple = 1,
  shared: Shared = () => null,
): Arena {
  const entries = [...named], dtype = entries[0]?.[1].dtype ?? "f32";
  const shapes = entries.map(([, p]) => p.shape);
  const counts = entries.map(([, p]) => p.numel);
  const { starts, total: taken } = alignedStarts(counts), total = Math.ceil(taken / multiple) * multiple;
  const flat = keep(longLivedZeros([total], { dtype, device }));
  const gradient = keep(
    (direct || dtype !== "f32" ? null : shared(total)) ??
      longLivedZeros([direct ? 0 : total], { dtype, device }),
  );
  const viewsOf = (buffer: Tensor) =>
    shapes.map((shape, i) => keep(scope(() => view(narrow(buffer, 0, starts[i], counts[i]), shape))));
  const gradients = direct ? [] : viewsOf(gradient);
  viewsOf(flat).forEach((place, i) => {
    const parameter = entries[i][1];
    noGrad(() => copy_(place, parameter));
    parameter.replaceWith(detach(place));
    place.free();
    requireGrad(parameter);
    if (!direct) setGradSlot(parameter, gradients[i]);
  });
  return {
    names: entries.map(([name]) => name),
    parameters: entries.map(([, p]) => p),
    gradients,
    flat,
    starts,
    gradient,
    memory: [gradient],
    direct,
    viewsOf,
  };
}

/** For a direct arena: this backward's gradients, in the caller's scope. A parameter that was not reached has zeros. */
export function takeGradients(arena: Arena): void {
  const slots = slotsOf(arena);
  const gradients = arena.gradients as Tensor[];
  for (let i = 0; i < slots.length; i++) {
    gradients[i] = hasGrad(slots[i]) ? takeGrad(slots[i]) : zerosLike(arena.parameters[i]);
  }
}

const slots = new WeakMap<Arena, GradSlot[]>();

function slotsOf(arena: Arena): GradSlot[] {
  let found = slots.get(arena);
  if (!found) slots.set(arena, found = arena.parameters.map(gradSlotOf));
  return found;
}

/** Weights and an average of them, say. */
export const exchange = (a: Tensor, b: Tensor): void =>
  scope(() => {
    const before = clone(a);
    copy_(a, b);
    copy_(b, before);
  });

// Norm and clipping of the gradient, and the first gradient that is not finite.

/** Padding between views is zero and does not count. On a CPU it has the bits of torch.nn.utils.get_total_norm. */
export function gradientNorm(arena: Arena): Tensor {
  return scope(() => {
    const { memory, flat, direct, gradients, sumsAsTorch } = arena;
    if (flat.device !== "cpu" || !isWhole(arena)) {
      const squares = direct
        ? gradients.map((g) => sum(square(g)))
        : piecesOf(memory, flat).map((piece) => dot(piece, piece));
      return sqrt(sum(stack(squares)));
    }
    return rowNorm(
      stack(inOrder(arena).map((g) => sumsAsTorch ? torchNorm(g, sumsAsTorch) : tensorNorm(g))),
    );
  });
}

/** A rank that owns parts of buckets has no parameter's gradient as a whole. */
const isWhole = ({ direct, memory, gradient }: Arena): boolean =>
  direct || memory.length === 1 && memory[0] === gradient;

const inOrder = ({ order, gradients }: Arena): readonly Tensor[] =>
  order ? order.map((i) => gradients[i]) : gradients;

/** The norm of the gradient is that of these vectors' row norms; null where it is something else. Their memory stays. */
export function normVectors(arena: Arena): readonly Tensor[] | null {
  const { flat, direct, sumsAsTorch } = arena;
  if (flat.device !== "cpu" || flat.dtype !== "f32" || direct || !isWhole(arena)) return null;
  const isRow = (g: Tensor) => sumsAsTorch ? !turns(g, sumsAsTorch) : g.numel <= LONG;
  return inOrder(arena).every(isRow) ? inOrder(arena) : null;
}

const asVector = (g: Tensor): Tensor => reshape(g, [-1]);

/** As libtorch takes it of a tensor that is one row. */
export const rowNorm = (t: Tensor): Tensor => linalgMatrixNorm(reshape(t, [1, -1]), "fro", [-2, -1]);

/**
 * On a CPU one f32 sum of ten million squares is wrong in the fourth digit, so what is longer than libtorch's norm is right
 * for is taken in pieces. Pieces of this size are good to 3e-7, larger ones to 1e-6 only. A GPU adds in blocks by itself.
 */
const PIECE = 16_384, LONG = 65_536;

const tensorNorm = (g: Tensor): Tensor =>
  g.numel > LONG && g.dtype === "f32"
    ? sqrt(sum(stack(split(asVector(g), PIECE).map((piece) => dot(piece, piece)))))
    : rowNorm(g);

type SumsAsTorch = NonNullable<Arena["sumsAsTorch"]>;
const turns = (g: Tensor, { channelsLast }: SumsAsTorch): boolean => channelsLast && g.shape.length === 4;
const torchNorm = (g: Tensor, sums: SumsAsTorch): Tensor =>
  rowNorm(turns(g, sums) ? permute(g, CHANNELS_LAST) : g);

const CHANNELS_LAST = [0, 2, 3, 1];

const pieces = new WeakMap<Arena["memory"], readonly Tensor[]>();

function piecesOf(memory: Arena["memory"], { device }: Tensor): readonly Tensor[] {
  let found = pieces.get(memory);
  if (!found) {
    found = device === "cpu"
      ? scope(() => memory.flatMap((part) => split(part, PIECE)).map((piece) => keep(piece)))
      : memory;
    pieces.set(memory, found);
  }
  return found;
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
