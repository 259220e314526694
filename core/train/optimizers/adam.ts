// Adam and AdamW by libtorch's fused kernels. May import ffi, arena.
// One call over per-parameter views, not over the flat arena: the CPU kernel has a vector body and a scalar tail,
// so only views of PyTorch's own lengths give PyTorch's own bits (torch.optim.AdamW(fused=True)).
import { fill_, zeros } from "../../../ffi/make.ts";
import { fusedAdam_, fusedAdamW_ } from "../../../ffi/ops.ts";
import { stayingZeros } from "../../../ffi/staying.ts";
import { keep } from "../../../ffi/tensor.ts";
import type { Arena } from "../arena.ts";
import type { Optimizer, OptimizerSettings } from "./optimizer.ts";

export function adam(s: OptimizerSettings, arena: Arena): Optimizer {
  const { parameters, gradients } = arena;
  const device = arena.flat.device;
  const first = arena.viewsOf(keep(stayingZeros(arena.flat.shape, { device })));
  const second = arena.viewsOf(keep(stayingZeros(arena.flat.shape, { device })));
  // Every parameter has taken the same number of steps, so all share one counter.
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
