// Optimizers as one loop over all parameters: for `fast`, since libtorch's own go parameter by parameter and round the
// last few numbers of each elsewhere.
import type { GroupKernel, Instruction, Operand, StridedAccess } from "./kernel.ts";

/** Weights that lie in one piece: the slots of them, of their gradients, and of the numbers of the step. */
export interface WeightPiece {
  readonly elements: number;
  /** The place of its first one in the tensor of the weights, and of the gradient; 0 by default. */
  readonly first?: number;
  readonly weights: number;
  readonly gradient: number;
  /** The slots of the optimizer's state in order, and the piece's first element there. */
  readonly state: readonly number[];
  readonly offset: number;
  readonly numbers: number;
  /** Where those of the piece's group begin in them; on a GPU, the place of its count. */
  readonly own: number;
  /** The learning rate of the group is the run's times this. The host has it in the numbers, and a GPU in its code. */
  readonly factor: number;
}

/** The loops read these settings of training.optimizer. */
export interface UpdateSettings {
  readonly type: string;
  readonly beta1: number;
  readonly beta2: number;
  readonly eps: number;
  readonly weight_decay: number;
  readonly momentum: number;
  readonly nesterov: boolean;
}

/** An optimizer's update. */
export interface UpdateLoop {
  /** The loop over a piece of the arena; on a GPU it finds rate and count on the device. */
  kernel(settings: UpdateSettings, piece: WeightPiece, onDevice: OnDevice | null): GroupKernel;
  /** Puts what a step's loop reads into the numbers that it is given. */
  begin(settings: UpdateSettings): (given: Float32Array, rate: number, step: number) => void;
}

/** Places among a group's numbers, which change from step to step. */
const RATE = 0, SHRINK = 1, ROOT = 2;
export const UPDATE_NUMBERS = 3;

/**
 * In their place on a GPU, since a captured step takes none from the host: the learning rate, the longest gradient, and from
 * COUNTS on each group's count of steps.
 */
export const LEARNING_RATE = 0, LONGEST = 1, COUNTS = 2;

/** On a GPU. The slots of 0-dim tensors: 1 where the step is left out, and the gradient's norm, which LONGEST clips. */
export interface OnDevice {
  readonly found: number;
  readonly norm: number;
}

export class Loop {
  readonly instructions: Instruction[] = [];
  readonly stores: { readonly value: Operand; readonly to: StridedAccess }[] = [];

  constructor(readonly piece: WeightPiece) {}

  load = (slot: number): Operand => this.#add({ op: "load", from: this.#access(slot) });
  /** A number of the step, the same for all elements. */
  given = (place: number): Operand =>
    this.#add({ op: "load", from: { slot: this.piece.numbers, offset: place, strides: [0], kind: "f32" } });
  /** The group's own. */
  ofGroup = (place: number): Operand => this.given(this.piece.own + place);
  /** The group's learning rate, on a GPU. */
  rate(): Operand {
    const { factor } = this.piece, rate = this.given(LEARNING_RATE);
    return factor === 1 ? rate : this.op("mul", rate, this.number(factor));
  }
  number = (value: number): Operand => this.#add({ op: "number", value });
  op = (op: string, ...args: Operand[]): Operand => this.#add({ op, args });
  store(value: Operand, slot: number): void {
    this.stores.push({ value, to: this.#access(slot) });
  }
  #access(slot: number): StridedAccess {
    const { state, offset, first = 0 } = this.piece;
    return { slot, offset: state.includes(slot) ? offset : first, strides: [1], kind: "f32" };
  }
  #add(one: Instruction): Operand {
    return this.instructions.push(one) - 1;
  }

  /** A tensor of one number. */
  only = (slot: number): Operand =>
    this.#add({ op: "load", from: { slot, offset: 0, strides: [0], kind: "f32" } });

  /** The gradient, shortened where it is too long. */
  clipped(gradient: Operand, { norm }: OnDevice): Operand {
    const room = this.op("add", this.only(norm), this.number(1e-6));
    const factor = this.op("min", this.op("div", this.given(LONGEST), room), this.number(1));
    return this.op("mul", gradient, factor);
  }

  /** The value goes there, unless the step is left out. */
  storeUnless(found: number, value: Operand, before: Operand, slot: number): void {
    const left = this.op("gt", this.only(found), this.number(0));
    this.store(this.op("where", left, before, value), slot);
  }

  /** 1 - beta^count, to the last bits. */
  corrected(beta: number): Operand {
    const power = this.op("mul", this.ofGroup(0), this.number(Math.log(beta)));
    return this.op("neg", this.op("expm1", power));
  }

  kernel(name: string): GroupKernel {
    const stage = { instructions: this.instructions, stores: this.stores, reductions: [] };
    return { kernel: "group", name, sizes: [this.piece.elements], stages: [stage] };
  }
}

/**
 * RATE is -rate / (1 - beta1^t), SHRINK 1 - rate * decay, ROOT one over the root of 1 - beta2^t. On a GPU they are
 * computed of rate and count.
 */
function adamKernel(
  { type, beta1, beta2, eps, weight_decay: decay }: UpdateSettings,
  piece: WeightPiece,
  onDevice: OnDevice | null,
): GroupKernel {
  const loop = new Loop(piece), { op, number } = loop, [mean, squares] = piece.state;
  const counted = onDevice !== null, decoupled = type === "adamw";
  const before = loop.load(piece.weights);
  let weight = before, gradient = loop.load(piece.gradient);
  if (onDevice) gradient = loop.clipped(gradient, onDevice);
  const first = loop.load(mean), second = loop.load(squares);
  const rate = counted ? op("div", op("neg", loop.rate()), loop.corrected(beta1)) : loop.ofGroup(RATE);
  const root = counted ? op("rsqrt", loop.corrected(beta2)) : loop.ofGroup(ROOT);
  const shrink = () =>
    counted ? op("sub", number(1), op("mul", loop.rate(), number(decay))) : loop.ofGroup(SHRINK);
  if (decay !== 0) {
    if (decoupled) weight = op("mul", weight, shrink());
    else gradient = op("fma", weight, number(decay), gradient);
  }
  const nextMean = op("fma", number(1 - beta1), op("sub", gradient, first), first);
  const own = op("mul", number(1 - beta2), gradient);
  const nextSquares = op("fma", own, gradient, op("mul", second, number(beta2)));
  const under = op("fma", op("sqrt", nextSquares), root, number(eps));
  const put = (value: Operand, old: Operand, slot: number) =>
    onDevice ? loop.storeUnless(onDevice.found, value, old, slot) : loop.store(value, slot);
  put(nextMean, first, mean);
  put(nextSquares, second, squares);
  put(op("add", weight, op("div", op("mul", rate, nextMean), under)), before, piece.weights);
  return loop.kernel(decoupled ? "adamw" : "adam");
}

/** Counts one more step of each group, unless it is left out. */
export function countKernel(numbers: number, { found }: OnDevice, groups: number): GroupKernel {
  const place: StridedAccess = { slot: numbers, offset: COUNTS, strides: [1], kind: "f32" };
  const instructions: Instruction[] = [
    { op: "load", from: place },
    { op: "number", value: 1 },
    { op: "load", from: { slot: found, offset: 0, strides: [0], kind: "f32" } },
    { op: "sub", args: [1, 2] },
    { op: "add", args: [0, 3] },
  ];
  const stage = { instructions, stores: [{ value: 4, to: place }], reductions: [] };
  return { kernel: "group", name: "count", sizes: [groups], stages: [stage] };
}

/** RATE is -rate. */
function sgdKernel(
  { momentum, nesterov, weight_decay: decay }: UpdateSettings,
  piece: WeightPiece,
  onDevice: OnDevice | null,
): GroupKernel {
  const loop = new Loop(piece), { op, number } = loop, [mean] = piece.state;
  const weight = loop.load(piece.weights);
  let step = loop.load(piece.gradient);
  if (onDevice) step = loop.clipped(step, onDevice);
  const put = (value: Operand, old: Operand, slot: number) =>
    onDevice ? loop.storeUnless(onDevice.found, value, old, slot) : loop.store(value, slot);
  if (decay !== 0) step = op("fma", weight, number(decay), step);
  if (momentum > 0) {
    const before = loop.load(mean), velocity = op("fma", number(momentum), before, step);
    put(velocity, before, mean);
    step = nesterov ? op("fma", number(momentum), velocity, step) : velocity;
  }
  const rate = onDevice ? op("neg", loop.rate()) : loop.ofGroup(RATE);
  put(op("fma", rate, step, weight), weight, piece.weights);
  return loop.kernel("sgd");
}

/** By the trait of the optimizers that have one. */
export const UPDATE_LOOPS: Readonly<Record<"adam" | "sgd", UpdateLoop>> = {
  adam: {
    kernel: adamKernel,
    begin: ({ beta1, beta2, weight_decay }) => (given, rate, step) => {
      given[RATE] = -rate / (1 - beta1 ** step);
      given[SHRINK] = 1 - rate * weight_decay;
      given[ROOT] = 1 / Math.sqrt(1 - beta2 ** step);
    },
  },
  sgd: {
    kernel: sgdKernel,
    begin: () => (given, rate) => {
      given[RATE] = -rate;
    },
  },
};
