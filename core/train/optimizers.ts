// AdamW, Adam, SGD and LAMB, the choice among all optimizers, and the moving average of weights. Others are in files of their own.
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Config } from "../settings/settings.ts";
import type { Module } from "../models/nn/module.ts";
import type { Arena } from "./gradients/arena.ts";
import { lion } from "./optimizers/lion.ts";
import { muon } from "./optimizers/muon.ts";
import { scheduleFree } from "./optimizers/schedule_free.ts";
import { add, constant, fill_, longLivedZeros, scalar, scale, sub, zeros } from "../../ffi/make.ts";
import {
  clone,
  copy_,
  div,
  fusedAdam_,
  fusedAdamByTensor_,
  fusedAdamW_,
  fusedAdamWByTensor_,
  fusedSgd_,
  fusedSgdByTensor_,
  gt,
  lerp_,
  logicalAnd,
  mul,
  sqrt,
  square,
  sum,
  where,
} from "../../ffi/ops.ts";

/**
 * The gradient's norm, on the device, and the longest one that is left as it is.
 * @internal
 */
export interface Clip {
  readonly norm: Tensor;
  readonly limit: number;
}

/** Changes weights by their gradients. */
export interface Optimizer {
  /** As training.optimizer.type names it. */
  readonly type: string;
  /**
   * Updates the parameters from the gradient arena. `found` is for an optimizer with `onDevice`: where it is 1 on
   * the device, because a gradient is not finite, the device leaves the step out.
   */
  step(learningRate: number, found?: Tensor | null, clip?: Clip | null): void;
  /** The update clips the gradient itself. */
  readonly clips?: boolean;
  /** For an optimizer whose kernels read rate and count on the device. */
  readonly onDevice?: DeviceUpdate;
  /** Steps taken: bias correction counts them. */
  steps: number;
  /** Per-parameter state by PyTorch's names (exp_avg, momentum_buffer, ...), in the arena's order. */
  readonly slots: ReadonlyMap<string, readonly Tensor[]>;
  /** The slots in order, each as one vector that is laid out as the arena. */
  readonly state?: readonly Tensor[];
  /** The weights that are evaluated and saved beside the trained ones, where the optimizer averages by itself. */
  readonly averages?: Ema;
  /** Present where parameters have rates or beginnings of their own. */
  readonly groups?: ParameterGroups;
  /** Counts one more step, which somebody else takes; returns how many there are then. */
  advance?(): number;
  /** PyTorch's param_groups entry, but for lr and params. */
  readonly options: Readonly<Record<string, number | boolean | readonly number[] | null>>;
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
  /** Steps that each group has taken. */
  steps: readonly number[];
  /** From now on all groups are updated, or the waiting ones are not. */
  wait(on: boolean): void;
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

/** An optimizer for this arena's parameters, which are of the modules below `root`. */
export function createOptimizer(
  settings: OptimizerSettings,
  arena: Arena,
  root: Module | null = null,
): Optimizer {
  switch (settings.type) {
    case "adamw":
    case "adam":
      return adam(settings, arena);
    case "sgd":
      return sgd(settings, arena);
    case "lamb":
      return lamb(settings, arena);
    case "lion":
      return lion(settings, arena);
    case "muon":
      return muon(settings, arena, root);
    case "schedule_free":
      return scheduleFree(settings, arena);
  }
}

/** A step on the device counts up, unless a gradient was found that is not finite. */
const countUp = (count: Tensor, found: Tensor | null): void =>
  scope(() => {
    const one = constant(1, "f32", count.device);
    copy_(count, add(count, found === null ? one : sub(one, found)));
  });

/** A GPU's kernels take the rate as f32 where it comes from the device: both ways have the same bits. */
const rateFor = (device: Device, lr: number): number => device === "cpu" ? lr : Math.fround(lr);

// One call over per-parameter views: the CPU kernel has a vector body and a scalar tail, so only views of
// PyTorch's own lengths give the bits of torch.optim.AdamW(fused=True).

function adam(s: OptimizerSettings, arena: Arena): Optimizer {
  const { parameters, gradients } = arena;
  const device = arena.flat.device;
  const state = [0, 1].map(() => keep(longLivedZeros(arena.flat.shape, { device })));
  const [first, second] = state.map((slot) => arena.viewsOf(slot));
  const count = keep(zeros([], { device }));
  const counts = parameters.map(() => count);
  const [update, updateByTensor] = s.type === "adamw"
    ? [fusedAdamW_, fusedAdamWByTensor_]
    : [fusedAdam_, fusedAdamByTensor_];
  const { beta1, beta2, weight_decay: decay, eps } = s;
  const lists = [parameters, gradients, first, second, [], counts] as const;
  const rest = [beta1, beta2, decay, eps, false, false, null] as const;
  const rate = keep(scalar(NaN, "f32", device));
  let steps = 0;
  return {
    type: s.type,
    get steps() {
      return steps;
    },
    set steps(taken) {
      fill_(count, steps = taken);
    },
    slots: new Map([["exp_avg", first], ["exp_avg_sq", second]]),
    state,
    advance: () => ++steps,
    options: {
      betas: [beta1, beta2],
      eps,
      weight_decay: decay,
      amsgrad: false,
      maximize: false,
      fused: true,
    },
    step(lr, found = null) {
      steps++;
      if (found === null) fill_(count, steps);
      else countUp(count, found);
      update(...lists, rateFor(device, lr), ...rest, found);
    },
    onDevice: {
      rate,
      queue(found) {
        countUp(count, found);
        updateByTensor(...lists, rate, ...rest, found);
      },
      begin: () => void steps++,
      takeBack: () => void steps--,
    },
  };
}

function sgd(s: OptimizerSettings, arena: Arena): Optimizer {
  const { parameters, gradients } = arena;
  const { momentum, nesterov, weight_decay: decay } = s;
  const device = arena.flat.device;
  const state = momentum > 0 ? [keep(longLivedZeros(arena.flat.shape, { device }))] : [];
  const [velocity = []] = state.map((slot) => arena.viewsOf(slot));
  const rate = keep(scalar(NaN, "f32", device));
  let steps = 0;
  return {
    type: "sgd",
    get steps() {
      return steps;
    },
    set steps(taken) {
      steps = taken;
    },
    slots: momentum > 0 ? new Map([["momentum_buffer", velocity]]) : new Map(),
    state,
    advance: () => ++steps,
    options: { momentum, dampening: 0, weight_decay: decay, nesterov, maximize: false, fused: true },
    step(lr, found = null) {
      const isFirst = steps++ === 0; // the first velocity is the gradient itself
      const now = rateFor(device, lr);
      fusedSgd_(
        parameters,
        gradients,
        velocity,
        decay,
        momentum,
        now,
        0,
        nesterov,
        false,
        isFirst,
        null,
        found,
      );
    },
    onDevice: {
      rate,
      // A velocity of zeros becomes the gradient itself without being called the first one.
      queue: (found) =>
        fusedSgdByTensor_(
          ...[
            parameters,
            gradients,
            velocity,
            decay,
            momentum,
            rate,
            0,
            nesterov,
            false,
            false,
            null,
          ] as const,
          found,
        ),
      begin: () => void steps++,
      takeBack: () => void steps--,
    },
  };
}

// LAMB (You et al. 2020): Adam's direction, scaled per parameter by |weight| / |direction|.

function lamb(s: OptimizerSettings, arena: Arena): Optimizer {
  const { flat, gradient } = arena;
  const device = flat.device;
  const first = keep(longLivedZeros(flat.shape, { device }));
  const second = keep(longLivedZeros(flat.shape, { device }));
  const direction = keep(longLivedZeros(flat.shape, { device }));
  // Views without a graph: the parameters themselves may not be changed now.
  const weights = arena.viewsOf(flat), directions = arena.viewsOf(direction);
  const c = (value: number) => constant(value, "f32", device);
  const { beta1, beta2, weight_decay, eps } = s;
  return {
    type: "lamb",
    steps: 0,
    slots: new Map([["exp_avg", arena.viewsOf(first)], ["exp_avg_sq", arena.viewsOf(second)]]),
    options: { betas: [beta1, beta2], eps, weight_decay },
    step(lr) {
      const t = ++this.steps;
      scope(() => {
        lerp_(first, gradient, c(1 - beta1));
        lerp_(second, square(gradient), c(1 - beta2));
        const firstHat = div(first, scalar(1 - beta1 ** t, "f32", device));
        const secondHat = div(second, scalar(1 - beta2 ** t, "f32", device));
        const adamStep = div(firstHat, add(sqrt(secondHat), c(eps)));
        copy_(direction, add(adamStep, scale(flat, weight_decay)));
      });
      for (let i = 0; i < weights.length; i++) {
        const p = weights[i], u = directions[i];
        scope(() => copy_(p, sub(p, mul(u, trustRatio(p, u)), lr)));
      }
    },
  };

  /** A parameter that is all zeros must be able to leave zero. */
  function trustRatio(p: Tensor, u: Tensor): Tensor {
    const weight = norm(p), step = norm(u);
    return where(logicalAnd(gt(weight, c(0)), gt(step, c(0))), div(weight, step), c(1));
  }
}

const norm = (t: Tensor): Tensor => sqrt(sum(square(t)));

/** @internal */
export interface Ema {
  /** It is laid out as the arena. */
  readonly average: Tensor;
  update(): void;
  /** Exchanges trained and averaged weights: once before an evaluation, once after. */
  swap(): void;
  reset(): void;
}

export function createEma(arena: Arena, decay: number): Ema {
  const average = keep(scope(() => clone(arena.flat)));
  const weight = constant(1 - decay, "f32", arena.flat.device);
  return {
    average,
    update: () => void lerp_(average, arena.flat, weight),
    swap: () =>
      scope(() => {
        const trained = clone(arena.flat);
        copy_(arena.flat, average);
        copy_(average, trained);
      }),
    reset: () => void copy_(average, arena.flat),
  };
}
