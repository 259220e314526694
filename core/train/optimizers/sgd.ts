// SGD with momentum and Nesterov by libtorch's fused kernel. May import ffi, arena.
import { fusedSgd_ } from "../../../ffi/ops.ts";
import { stayingZeros } from "../../../ffi/staying.ts";
import { keep } from "../../../ffi/tensor.ts";
import type { Arena } from "../arena.ts";
import type { Optimizer, OptimizerSettings } from "./optimizer.ts";

export function sgd(s: OptimizerSettings, arena: Arena): Optimizer {
  const { parameters, gradients } = arena;
  const { momentum, nesterov, weight_decay } = s;
  const velocity = momentum > 0
    ? arena.viewsOf(keep(stayingZeros(arena.flat.shape, { device: arena.flat.device })))
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
