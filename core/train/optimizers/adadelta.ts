// Adadelta (Zeiler 2012): steps in the units of the weights, by running means of squared gradients and squared steps.
import { add } from "../../../ffi/make.ts";
import { div_, mul_, sqrt } from "../../../ffi/ops.ts";
import {
  addProduct_,
  descend_,
  elementwise,
  factor,
  numbersOn,
  openElementwise,
  withDecay,
} from "./elementwise.ts";
import type { OptimizerKind } from "./optimizer.ts";

const SLOTS = ["square_avg", "acc_delta"];

export const adadelta: OptimizerKind<"adadelta"> = {
  traits: elementwise(SLOTS),
  open({ rho, eps, weight_decay, maximize }, arena) {
    const number = numbersOn(arena);
    return openElementwise(arena, {
      ...{ type: "adadelta", slots: SLOTS, maximize, options: { rho, eps, weight_decay } },
      update(rate) {
        const kept = number(rho), fresh = factor(1 - rho), floor = number(eps);
        return (weights, gradient, squares, steps) => {
          const g = withDecay(gradient, weights, weight_decay);
          addProduct_(mul_(squares, kept), g, g, fresh);
          const std = sqrt(add(squares, floor));
          const delta = mul_(div_(sqrt(add(steps, floor)), std), g);
          addProduct_(mul_(steps, kept), delta, delta, fresh);
          descend_(weights, delta, rate);
        };
      },
    });
  },
};
