// Adamax (Kingma and Ba 2015): Adam whose second moment is the largest gradient, which it slowly forgets.
import { add } from "../../../ffi/make.ts";
import { abs, copy_, lerp_, maximum, mul_ } from "../../../ffi/ops.ts";
import { addQuotient_, elementwise, factor, numbersOn, openElementwise, withDecay } from "./elementwise.ts";
import type { OptimizerKind } from "./optimizer.ts";

const SLOTS = ["exp_avg", "exp_inf"];

export const adamax: OptimizerKind<"adamax"> = {
  traits: elementwise(SLOTS),
  open({ beta1, beta2, eps, weight_decay, maximize }, arena) {
    const number = numbersOn(arena);
    return openElementwise(arena, {
      ...{ type: "adamax", slots: SLOTS, maximize },
      options: { betas: [beta1, beta2], eps, weight_decay },
      update(rate, step) {
        const fresh = number(1 - beta1), kept = number(beta2), floor = number(eps);
        const back = factor(-rate / (1 - beta1 ** step));
        return (weights, gradient, mean, largest) => {
          const g = withDecay(gradient, weights, weight_decay);
          lerp_(mean, g, fresh);
          copy_(largest, maximum(mul_(largest, kept), add(abs(g), floor)));
          addQuotient_(weights, mean, largest, back);
        };
      },
    });
  },
};
