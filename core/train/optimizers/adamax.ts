// Adamax (Kingma and Ba 2015): Adam whose second moment is the largest gradient, which it slowly forgets.
import { add } from "../../../ffi/make.ts";
import { abs, copy_, lerp_, maximum, mul_ } from "../../../ffi/ops.ts";
import { addQuotient_, elementwise, factor, numbersOn, openElementwise, withDecay } from "./elementwise.ts";
import type { OptimizerKind } from "./optimizer.ts";

const SLOTS = ["exp_avg", "exp_inf"];

export const adamax: OptimizerKind<"adamax"> = {
  traits: { ...elementwise(SLOTS), moves: true },
  open({ beta1, beta2, eps, weight_decay, maximize }, arena) {
    const number = numbersOn(arena);
    return openElementwise(arena, {
      ...{ type: "adamax", slots: SLOTS, maximize, moves: true },
      options: { betas: [beta1, beta2], eps, weight_decay },
      update(rate, step, { momentum = beta1, decay = 1 }) {
        const fresh = number(1 - momentum), kept = number(beta2), floor = number(eps);
        const back = factor(-rate / (1 - momentum ** step));
        return (weights, gradient, mean, largest) => {
          const g = withDecay(gradient, weights, weight_decay * decay);
          lerp_(mean, g, fresh);
          copy_(largest, maximum(mul_(largest, kept), add(abs(g), floor)));
          addQuotient_(weights, mean, largest, back);
        };
      },
    });
  },
};
