// Averaged stochastic gradient descent (Polyak and Juditsky 1992), as torch.optim has it: the mean of the weights is kept as ax, and
// the rate of a step is chosen at the end of the one before.
import { add, sub } from "../../../ffi/make.ts";
import { copy_, mul_ } from "../../../ffi/ops.ts";
import { descend_, elementwise, numbersOn, openElementwise, withDecay } from "./elementwise.ts";
import type { OptimizerKind } from "./optimizer.ts";

const SLOTS = ["ax"];

export const asgd: OptimizerKind<"asgd"> = {
  traits: elementwise(SLOTS),
  open({ lambd, alpha, t0, weight_decay, maximize }, arena) {
    const number = numbersOn(arena), numbers = { eta: 0, mu: 1 };
    return openElementwise(arena, {
      ...{ type: "asgd", slots: SLOTS, maximize, numbers },
      options: { lambd, alpha, t0, weight_decay },
      begin(rate) {
        numbers.eta = Math.fround(rate);
        return [];
      },
      update(rate, step) {
        const { eta, mu } = numbers, shrunk = number(1 - lambd * eta), share = number(mu);
        numbers.eta = Math.fround(rate / (1 + lambd * rate * step) ** alpha);
        numbers.mu = Math.fround(1 / Math.max(1, step - t0));
        return (weights, gradient, mean) => {
          const g = withDecay(gradient, weights, weight_decay);
          descend_(mul_(weights, shrunk), g, eta);
          copy_(mean, mu === 1 ? weights : add(mean, mul_(sub(weights, mean), share)));
        };
      },
    });
  },
};
