// NAdam (Dozat 2016): Adam with Nesterov's momentum.
import { add } from "../../../ffi/make.ts";
import { div, lerp_, mul_, sqrt } from "../../../ffi/ops.ts";
import {
  addProduct_,
  addQuotient_,
  elementwise,
  factor,
  numbersOn,
  openElementwise,
  withDecay,
} from "./elementwise.ts";
import type { OptimizerKind } from "./optimizer.ts";

const SLOTS = ["exp_avg", "exp_avg_sq"];

export const nadam: OptimizerKind<"nadam"> = {
  traits: { ...elementwise(SLOTS), moves: true },
  open(s, arena) {
    const { beta1, beta2, eps, weight_decay, momentum_decay, decoupled_weight_decay, maximize } = s;
    const number = numbersOn(arena), numbers = { mu_product: 1 };
    const momentumAt = (beta1: number, step: number) => beta1 * (1 - 0.5 * 0.96 ** (step * momentum_decay));
    return openElementwise(arena, {
      ...{ type: "nadam", slots: SLOTS, maximize, numbers, moves: true },
      options: { betas: [beta1, beta2], eps, weight_decay, momentum_decay, decoupled_weight_decay },
      update(rate, step, { momentum = beta1, decay: factorOfDecay = 1 }) {
        const decay = weight_decay * factorOfDecay, coupled = decoupled_weight_decay ? 0 : decay;
        const mu = momentumAt(momentum, step), next = momentumAt(momentum, step + 1);
        const product = numbers.mu_product = Math.fround(numbers.mu_product * Math.fround(mu));
        const shrunk = number(1 - rate * decay), fresh = number(1 - momentum), kept = number(beta2);
        const square = factor(1 - beta2), correction = number(1 - beta2 ** step), floor = number(eps);
        const ofGradient = factor(-rate * (1 - mu) / (1 - product));
        const ofMean = factor(-rate * next / (1 - product * next));
        return (weights, gradient, mean, squares) => {
          if (decoupled_weight_decay && decay !== 0) mul_(weights, shrunk);
          const g = withDecay(gradient, weights, coupled);
          lerp_(mean, g, fresh);
          addProduct_(mul_(squares, kept), g, g, square);
          const under = add(sqrt(div(squares, correction)), floor);
          addQuotient_(weights, g, under, ofGradient);
          addQuotient_(weights, mean, under, ofMean);
        };
      },
    });
  },
};
