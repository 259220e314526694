// An optimizer, and the traits by which the rest of a run knows one: nothing else decides by its name.
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { longLivedZeros } from "../../../ffi/make.ts";
import type { Module } from "../../models/nn/module.ts";
import type { JointState } from "../../checkpoint/optimizer_state.ts";
import type { Moved } from "../../checkpoint/training_state.ts";
import type { OPTIMIZER_READS } from "../../settings/sections/optimizer.ts";
import type { Config } from "../../settings/settings.ts";
import type { Arena } from "../arena.ts";

/**
 * The gradient's norm, on the device, and the longest one that is left as it is.
 * @internal
 */
export interface Clip {
  readonly norm: Tensor;
  readonly limit: number;
}

/**
 * Computes a step's loss again, as the closure that torch's scripts give to `step`: the same samples and random draws, and the
 * gradients of all ranks.
 * @internal
 */
export interface Closure {
  /** The arena has the gradients of this loss as the update begins. */
  readonly loss: number;
  /** With the weights as they are now: the loss, and gradients in the arena. The scope around it has their tensors. */
  again(): number;
  /** Ranks decide by the first one's number, so that where one of them evaluates again, all do. */
  read(number: Tensor): number;
}

/** Changes weights by their gradients. */
export interface Optimizer {
  /** As training.optimizer.type names it. */
  readonly type: string;
  /**
   * Updates the parameters from the gradient arena. `found` is for an optimizer with `onDevice`: where it is 1 on
   * the device, because a gradient is not finite, the device leaves the step out.
   */
  step(learningRate: number, found?: Tensor | null, clip?: Clip | null, closure?: Closure | null): void;
  /** Its step evaluates the batch again and is given a closure. */
  readonly evaluates?: true;
  /** From the next step on its momentum and weight decay are these; absent where its update has them as they were. */
  move?(to: Moved): void;
  /** The update clips the gradient itself. */
  readonly clips?: boolean;
  /** For an optimizer whose kernels read rate and count on the device. */
  readonly onDevice?: DeviceUpdate;
  /** Steps taken: bias correction counts them. */
  steps: number;
  /** Per-parameter state by PyTorch's names (exp_avg, momentum_buffer, ...), in the arena's order, unless it is `joint`. */
  readonly slots: ReadonlyMap<string, readonly Tensor[]>;
  /** Present where slots and numbers are of all parameters together. */
  readonly joint?: JointState;
  /**
   * State beside the slots that is the same for all parameters, by PyTorch's names: in a checkpoint each parameter has it as f32,
   * or the group, where `options` has such a name.
   */
  readonly numbers?: Record<string, number>;
  /** The slots in order, each as one vector that is laid out as the arena. */
  readonly state?: readonly Tensor[];
  /** The weights that are evaluated and saved beside the trained ones, where the optimizer averages by itself. */
  readonly averages?: Ema;
  /** Present where parameters have rates or beginnings of their own. */
  readonly groups?: ParameterGroups;
  /** The update of the user's own, where it goes number by number. */
  readonly own?: OwnUpdate;
  /** Counts one more step, which somebody else takes; returns how many there are then. */
  advance?(): number;
  /** PyTorch's param_groups entry, but for lr and params. */
  readonly options: Readonly<Record<string, number | boolean | string | readonly number[] | null>>;
}

/** @internal */
export interface OwnUpdate {
  /** Changes these weights, and what is kept of them, by the user's code. */
  run(piece: Piece, numbers: StepNumbers): void;
  /** Is asked first in each step, and answers true where it has updated all weights instead. */
  instead: ((numbers: StepNumbers) => boolean) | null;
}

/** Some of the weights, with their gradient and what is kept of them. @internal */
export interface Piece {
  /** The parameter's that it is. */
  readonly name?: string;
  readonly weights: Tensor;
  readonly state: readonly Tensor[];
  gradient(): Tensor;
}

/** @internal */
export interface StepNumbers {
  readonly step: number;
  readonly lr: number;
  readonly weightDecay: number;
}

/**
 * Groups of parameters that an optimizer updates alike.
 * @internal
 */
export interface ParameterGroups {
  /** The group of each parameter. */
  readonly of: readonly number[];
  /** Each group's learning rate is the run's times this. */
  readonly factors: readonly number[];
  /** Each group's own. */
  readonly options: readonly Optimizer["options"][];
  /** Each group's longest gradient; 0 leaves it alone. */
  readonly clipNorms: readonly number[];
  /** The optimizers of the groups, for a compiled update. */
  readonly parts?: readonly GroupPart[];
  /** Steps that each group has taken. */
  steps: readonly number[];
  /** Each group's own, where the optimizer has such. */
  readonly numbers?: readonly Record<string, number>[];
  /** From now on those groups are updated that begin with this epoch or before it. */
  begin(epoch: number): void;
  /** From now on those of this turn are updated; all of them for null. */
  turn(turn: number | null): void;
}

/** @internal */
export interface GroupPart {
  readonly factor: number;
  readonly settings: OptimizerSettings;
  readonly arena: Arena;
  readonly optimizer: Optimizer;
}

/** @internal */
export interface DeviceUpdate {
  /** The learning rate, f32. */
  readonly rate: Tensor;
  /** Queues an update that can run many times. */
  queue(found: Tensor | null, clip?: Clip | null): void;
  /** Comes before each run of it. */
  begin(): void;
  /** The last step was left out on the device. */
  takeBack(): void;
}

/** The settings of training.optimizer. */
export type OptimizerSettings = Config["training"]["optimizer"];

/** @internal */
export interface Ema {
  /** It is laid out as the arena. */
  readonly average: Tensor;
  update(): void;
  /** Exchanges trained and averaged weights: once before an evaluation, once after. */
  swap(): void;
  reset(): void;
}

/** @internal */
export interface Traits {
  /** Its state by PyTorch's names, in order; settings may leave some out. */
  readonly slots: readonly string[];
  /** Its update reads all gradients as one tensor (`arena.gradient`). */
  readonly wholeGradient: boolean;
  /** Its update of a parameter reads no other one, so that groups of them can have rates of their own. */
  readonly perElement: boolean;
  /** True where each rank can update a part of the weights (--zero 1), or what keeps them from it. */
  readonly shardable: true | string;
  /** A schedule can move its momentum and weight decay (`move`). */
  readonly moves?: true;
  /** The update as code is this loop of the compiler's, or made of its own ops; null where it runs op by op. */
  readonly compiled: "adam" | "sgd" | "own" | null;
  /** Its state and its average take so many bytes beside each weight. */
  bytesPerWeight(settings: OptimizerSettings): number;
  /** Settings that don't go together with it, as a sentence ends. */
  readonly refuses?: (training: Config["training"]) => string | null;
}

/** An optimizer of this name is given these settings. @internal */
export type SettingsRead<T extends OptimizerSettings["type"]> = Pick<
  OptimizerSettings,
  "type" | typeof OPTIMIZER_READS[T][number]
>;

/** An entry of the list of optimizers. @internal */
export interface OptimizerKind<T extends OptimizerSettings["type"] = OptimizerSettings["type"]> {
  readonly traits: Traits;
  /** `root` has the modules whose parameters lie in the arena. */
  open(settings: SettingsRead<T>, arena: Arena, root: Module | null): Optimizer;
}

/** A vector of zeros that is laid out as the arena. */
export const zerosAs = ({ flat }: Arena): Tensor => keep(longLivedZeros(flat.shape, flat));

/** State by its names. */
export const slotsOf = (
  { slots }: Pick<Traits, "slots">,
  ...state: readonly (readonly Tensor[])[]
): Map<string, readonly Tensor[]> => new Map(state.map((views, i) => [slots[i], views]));

/** A GPU's kernels take the rate as f32 where it comes from the device: both ways have the same bits. */
export const rateFor = (device: Tensor["device"], lr: number): number =>
  device === "cpu" ? lr : Math.fround(lr);
