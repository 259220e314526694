// AdamW, Adam, SGD and LAMB, the choice among them, and the moving average of weights.
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Config } from "../settings/settings.ts";
import type { Arena } from "./gradients/arena.ts";
import { add, constant, fill_, longLivedZeros, scalar, scale, sub, zeros } from "../../ffi/make.ts";
import {
  clone,
  copy_,
  div,
  fusedAdam_,
  fusedAdamW_,
  fusedSgd_,
  gt,
  lerp_,
  logicalAnd,
  mul,
  sqrt,
  square,
  sum,
  where,
} from "../../ffi/ops.ts";

/** Changes weights by their gradients. */
export interface Optimizer {
  /** As training.optimizer.type names it. */
  readonly type: string;
  /** Updates the parameters from the gradient arena. */
  step(learningRate: number): void;
  /** Steps taken: bias correction counts them. */
  steps: number;
  /** Per-parameter state by PyTorch's names (exp_avg, momentum_buffer, ...), in the arena's order. */
  readonly slots: ReadonlyMap<string, readonly Tensor[]>;
  /** PyTorch's param_groups entry, but for lr and params. */
  readonly options: Readonly<Record<string, number | boolean | readonly number[] | null>>;
}

/** The settings of training.optimizer. */
export type OptimizerSettings = Config["training"]["optimizer"];

/** An optimizer for this arena's parameters: AdamW, Adam, SGD or LAMB. */
export function createOptimizer(settings: OptimizerSettings, arena: Arena): Optimizer {
  switch (settings.type) {
    case "adamw":
    case "adam":
      return adam(settings, arena);
    case "sgd":
      return sgd(settings, arena);
    case "lamb":
      return lamb(settings, arena);
  }
}

// One call over per-parameter views: the CPU kernel has a vector body and a scalar tail, so only views of
// PyTorch's own lengths give the bits of torch.optim.AdamW(fused=True).

function adam(s: OptimizerSettings, arena: Arena): Optimizer {
  const { parameters, gradients } = arena;
  const device = arena.flat.device;
  const first = arena.viewsOf(keep(longLivedZeros(arena.flat.shape, { device })));
  const second = arena.viewsOf(keep(longLivedZeros(arena.flat.shape, { device })));
  const count = keep(zeros([], { device }));
  const counts = parameters.map(() => count);
  const update = s.type === "adamw" ? fusedAdamW_ : fusedAdam_;
  const { beta1, beta2, weight_decay, eps } = s;
  return {
    type: s.type,
    steps: 0,
    slots: new Map([["exp_avg", first], ["exp_avg_sq", second]]),
    options: { betas: [beta1, beta2], eps, weight_decay, amsgrad: false, maximize: false, fused: true },
    step(lr) {
      fill_(count, ++this.steps);
      update(
        parameters,
        gradients,
        first,
        second,
        [],
        counts,
        lr,
        beta1,
        beta2,
        weight_decay,
        eps,
        false,
        false,
      );
    },
  };
}

function sgd(s: OptimizerSettings, arena: Arena): Optimizer {
  const { parameters, gradients } = arena;
  const { momentum, nesterov, weight_decay } = s;
  const velocity = momentum > 0
    ? arena.viewsOf(keep(longLivedZeros(arena.flat.shape, { device: arena.flat.device })))
    : [];
  return {
    type: "sgd",
    steps: 0,
    slots: momentum > 0 ? new Map([["momentum_buffer", velocity]]) : new Map(),
    options: { momentum, dampening: 0, weight_decay, nesterov, maximize: false, fused: true },
    step(lr) {
      const isFirst = this.steps++ === 0; // the first velocity is the gradient itself
      fusedSgd_(parameters, gradients, velocity, weight_decay, momentum, lr, 0, nesterov, false, isFirst);
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
