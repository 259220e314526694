// Optimizers that go through the weights one by one, with the bits of torch.optim's single-tensor form: its own operations in its
// own order. These give a number the same bits wherever it lies in a vector, so the arena is gone through in pieces that stay in
// the processor's cache.
import { noGrad } from "../../../ffi/autograd.ts";
import { threads } from "../../../ffi/context.ts";
import { fill_, scalar, sub, tensor } from "../../../ffi/make.ts";
import { copy_, foreachAddcdiv_, foreachAddcmul_, narrow, neg } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Moved } from "../../checkpoint/training_state.ts";
import type { Arena } from "../arena.ts";
import { type Optimizer, type OptimizerSettings, type Piece, type Traits, zerosAs } from "./optimizer.ts";

/** Changes weights and state in place. */
type Update = (weights: Tensor, gradient: Tensor, ...state: Tensor[]) => void;

/** Such an optimizer consists of this. */
export interface Rule {
  readonly type: OptimizerSettings["type"];
  readonly slots: readonly string[];
  readonly maximize: boolean;
  readonly options: Optimizer["options"];
  readonly numbers?: Record<string, number>;
  /** Comes before the first step; gives what each slot begins with, where that is not 0. */
  begin?(rate: number): readonly number[];
  /** A schedule moves its momentum and weight decay. */
  readonly moves?: true;
  /** The numbers of a step are computed once, for all weights. */
  update(rate: number, step: number, moved: Moved): Update;
}

/** An update of one weight reads no other, and no rank or group needs to know of the rest. */
export const elementwise = (
  slots: readonly string[],
  bytesPerWeight: Traits["bytesPerWeight"] = () => 4 * slots.length,
  refuses?: Traits["refuses"],
): Traits => ({
  ...{ slots, bytesPerWeight, refuses },
  ...{ wholeGradient: false, perElement: true, shardable: true, compiled: null },
});

export function openElementwise(arena: Arena, rule: Rule): Optimizer {
  const vectors = rule.slots.map(() => zerosAs(arena)), views = vectors.map((slot) => arena.viewsOf(slot));
  const pieces = piecesOf(arena, vectors, views);
  let moved: Moved = {};
  return {
    type: rule.type,
    steps: 0,
    slots: new Map(rule.slots.map((name, i) => [name, views[i]])),
    options: { ...rule.options, maximize: rule.maximize },
    ...(rule.numbers && { numbers: rule.numbers }),
    ...(rule.moves && { move: (to: Moved) => void (moved = to) }),
    step(rate) {
      noGrad(() =>
        scope(() => {
          if (this.steps === 0) rule.begin?.(rate).forEach((value, i) => fill_(vectors[i], value));
          const update = rule.update(rate, ++this.steps, moved);
          for (const { weights, gradient, state } of pieces) {
            scope(() => update(weights, rule.maximize ? neg(gradient()) : gradient(), ...state));
          }
        })
      );
    },
  };
}

/**
 * So many numbers a thread: six vectors of them fit into a core's share of the last cache. With fewer, calls cost more than memory
 * does, a third of the time at a quarter of them.
 */
const GRAIN = 131_072;

/** A piece for each parameter. */
export const inParts = (arena: Arena, views: readonly (readonly Tensor[])[]): readonly Piece[] =>
  arena.parameters.map((weights, i) => ({
    ...{ name: arena.names[i], weights },
    state: views.map((slot) => slot[i]),
    gradient: () => arena.gradients[i], // a direct arena has others in each step
  }));

export function piecesOf(
  arena: Arena,
  vectors: readonly Tensor[],
  views: readonly (readonly Tensor[])[],
): readonly Piece[] {
  const { flat, gradient, memory, direct } = arena;
  const isWhole = !direct && memory[0] === gradient && flat.numel === gradient.numel;
  if (!isWhole) return inParts(arena, views);
  const length = flat.device === "cpu" ? GRAIN * threads() : flat.numel;
  return Array.from({ length: Math.ceil(flat.numel / length) }, (_, i) => {
    const count = Math.min(length, flat.numel - i * length);
    const cut = (vector: Tensor) => keep(scope(() => narrow(vector, 0, i * length, count)));
    const own = cut(gradient);
    return { weights: cut(flat), state: vectors.map(cut), gradient: () => own };
  });
}

// The verbs that the rules are made of, each with the bits of torch's one call.

/** A factor of the two below, which round it to their own type; it belongs to its scope. */
export const factor = (value: number): Tensor => tensor(Float64Array.of(value));

/** t += factor * a * b. */
export const addProduct_ = (t: Tensor, a: Tensor, b: Tensor, factor: Tensor): void =>
  foreachAddcmul_([t], [a], [b], factor);

/** t += factor * a / b. */
export const addQuotient_ = (t: Tensor, a: Tensor, b: Tensor, factor: Tensor): void =>
  foreachAddcdiv_([t], [a], [b], factor);

/** weights -= rate * direction. */
export const descend_ = (weights: Tensor, direction: Tensor, rate: number): void =>
  void copy_(weights, sub(weights, direction, rate));

/** The gradient with that of the weights' squares (L2), as most of torch.optim has weight decay. */
export const withDecay = (gradient: Tensor, weights: Tensor, decay: number): Tensor =>
  decay === 0 ? gradient : sub(gradient, weights, -decay);

/** Numbers as tensors beside the weights, of their type. */
export const numbersOn = ({ flat: { dtype, device } }: Arena) => (value: number): Tensor =>
  scalar(value, dtype, device);
