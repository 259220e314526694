// RAdam (Liu et al. 2019): Adam that goes by its mean alone until the variance of its rates is known.
import { add } from "../../../ffi/make.ts";
import { div, lerp_, mul_, reciprocal, sqrt } from "../../../ffi/ops.ts";
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

const SLOTS = ["exp_avg", "exp_avg_sq"];

/** The variance is known from so many samples on, as the length of a simple mean. */
const KNOWN = 5;

export const radam: OptimizerKind<"radam"> = {
  traits: { ...elementwise(SLOTS), moves: true },
  open({ beta1, beta2, eps, weight_decay, decoupled_weight_decay, maximize }, arena) {
    const number = numbersOn(arena), longest = 2 / (1 - beta2) - 1;
    return openElementwise(arena, {
      ...{ type: "radam", slots: SLOTS, maximize, moves: true },
      options: { betas: [beta1, beta2], eps, weight_decay, decoupled_weight_decay },
      update(rate, step, { momentum = beta1, decay: factorOfDecay = 1 }) {
        const decay = weight_decay * factorOfDecay, coupled = decoupled_weight_decay ? 0 : decay;
        const shrunk = number(1 - rate * decay), fresh = number(1 - momentum), kept = number(beta2);
        const square = factor(1 - beta2), floor = number(eps), by = number(rate);
        const left = 1 - beta2 ** step,
          correction = number(1 - momentum ** step),
          root = number(Math.sqrt(left));
        const length = longest - 2 * step * beta2 ** step / left;
        const rectified = length <= KNOWN ? null : number(Math.sqrt(
          (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length),
        ));
        return (weights, gradient, mean, squares) => {
          if (decoupled_weight_decay && decay !== 0) mul_(weights, shrunk);
          const g = withDecay(gradient, weights, coupled);
          lerp_(mean, g, fresh);
          addProduct_(mul_(squares, kept), g, g, square);
          const step = mul_(div(mean, correction), by);
          if (rectified === null) return descend_(weights, step, 1);
          const adaptive = mul_(reciprocal(add(sqrt(squares), floor)), root);
          descend_(weights, mul_(mul_(step, adaptive), rectified), 1);
        };
      },
    });
  },
};
