// Adagrad (Duchi et al. 2011): the rate of a weight falls with the sum of its squared gradients.
import { add } from "../../../ffi/make.ts";
import { sqrt } from "../../../ffi/ops.ts";
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

const SLOTS = ["sum"];

export const adagrad: OptimizerKind<"adagrad"> = {
  traits: elementwise(SLOTS),
  open({ lr_decay, eps, weight_decay, initial_accumulator_value, maximize }, arena) {
    const number = numbersOn(arena);
    return openElementwise(arena, {
      ...{ type: "adagrad", slots: SLOTS, maximize },
      options: { lr_decay, eps, weight_decay, initial_accumulator_value },
      begin: () => [initial_accumulator_value],
      update(rate, step) {
        const whole = factor(1), floor = number(eps), back = factor(-rate / (1 + (step - 1) * lr_decay));
        return (weights, gradient, sum) => {
          const g = withDecay(gradient, weights, weight_decay);
          addProduct_(sum, g, g, whole);
          addQuotient_(weights, g, add(sqrt(sum), floor), back);
        };
      },
    });
  },
};
