// Optimizers as one loop over all parameters: for `fast`, since libtorch's own go parameter by parameter and round the
// last few numbers of each elsewhere.
import type { GroupKernel, Instruction, Operand } from "./kernel.ts";

/** Slots of the parameters, their gradients, the optimizer's state in order, and numbers of the step. */
export const FLAT = 0, GRADIENT = 1, STATE = 2;

/** AdamW's, and Adam's where weight decay is part of the gradient. */
export interface AdamNumbers {
  readonly beta1: number;
  readonly beta2: number;
  readonly eps: number;
  readonly decay: number;
  readonly decoupled: boolean;
}

/** Places in the tensor of numbers, which change from step to step. */
export const RATE = 0, SHRINK = 1, ROOT = 2;
export const NUMBERS = 3;

class Loop {
  readonly instructions: Instruction[] = [];
  readonly stores: { readonly value: Operand; readonly slot: number }[] = [];

  constructor(readonly elements: number, readonly numbersSlot: number) {}

  load = (slot: number): Operand =>
    this.#add({ op: "load", from: { slot, offset: 0, strides: [1], kind: "f32" } });
  /** A number of the step, the same for all elements. */
  given = (place: number): Operand =>
    this.#add({ op: "load", from: { slot: this.numbersSlot, offset: place, strides: [0], kind: "f32" } });
  number = (value: number): Operand => this.#add({ op: "number", value });
  op = (op: string, ...args: Operand[]): Operand => this.#add({ op, args });
  store(value: Operand, slot: number): void {
    this.stores.push({ value, slot });
  }
  #add(one: Instruction): Operand {
    return this.instructions.push(one) - 1;
  }

  kernel(name: string): GroupKernel {
    const stores = this.stores.map(({ value, slot }) => ({
      value,
      to: { slot, offset: 0, strides: [1], kind: "f32" as const },
    }));
    const stage = { instructions: this.instructions, stores, reductions: [] };
    return { kernel: "group", name, sizes: [this.elements], stages: [stage] };
  }
}

/** RATE is -rate / (1 - beta1^t), SHRINK 1 - rate * decay, ROOT the root of 1 - beta2^t. */
export function adamKernel(
  elements: number,
  { beta1, beta2, eps, decay, decoupled }: AdamNumbers,
): GroupKernel {
  const loop = new Loop(elements, STATE + 2), { op, number } = loop;
  let weight = loop.load(FLAT), gradient = loop.load(GRADIENT);
  const first = loop.load(STATE), second = loop.load(STATE + 1);
  if (decay !== 0) {
    if (decoupled) weight = op("mul", weight, loop.given(SHRINK));
    else gradient = op("fma", weight, number(decay), gradient);
  }
  const mean = op("fma", number(1 - beta1), op("sub", gradient, first), first);
  const own = op("mul", number(1 - beta2), gradient);
  const squares = op("fma", own, gradient, op("mul", second, number(beta2)));
  const under = op("add", op("div", op("sqrt", squares), loop.given(ROOT)), number(eps));
  loop.store(mean, STATE);
  loop.store(squares, STATE + 1);
  loop.store(op("add", weight, op("div", op("mul", loop.given(RATE), mean), under)), FLAT);
  return loop.kernel(decoupled ? "adamw" : "adam");
}

/** RATE is -rate. */
export function sgdKernel(
  elements: number,
  { momentum, nesterov, decay }: {
    readonly momentum: number;
    readonly nesterov: boolean;
    readonly decay: number;
  },
): GroupKernel {
  const loop = new Loop(elements, momentum > 0 ? STATE + 1 : STATE), { op, number } = loop;
  const weight = loop.load(FLAT);
  let step = loop.load(GRADIENT);
  if (decay !== 0) step = op("fma", weight, number(decay), step);
  if (momentum > 0) {
    const velocity = op("fma", number(momentum), loop.load(STATE), step);
    loop.store(velocity, STATE);
    step = nesterov ? op("fma", number(momentum), velocity, step) : velocity;
  }
  loop.store(op("fma", loop.given(RATE), step, weight), FLAT);
  return loop.kernel("sgd");
}
