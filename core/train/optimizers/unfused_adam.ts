// AdamW and Adam op by op, with the bits of torch.optim's form without a fused kernel, which is its default on a CPU.
import { add } from "../../../ffi/make.ts";
import { copy_, div, lerp_, maximum, mul_, sqrt } from "../../../ffi/ops.ts";
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

const SLOTS = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"];

export const unfusedAdam: OptimizerKind<"adamw" | "adam"> = {
  traits: { ...elementwise(SLOTS, ({ amsgrad }) => amsgrad ? 12 : 8), moves: true },
  open(s, arena) {
    const { type, beta1, beta2, eps, weight_decay, amsgrad, maximize } = s, decouples = type === "adamw";
    const number = numbersOn(arena);
    return openElementwise(arena, {
      ...{ type, slots: amsgrad ? SLOTS : SLOTS.slice(0, 2), maximize, moves: true },
      options: { betas: [beta1, beta2], eps, weight_decay, amsgrad, fused: false },
      update(rate, step, { momentum = beta1, decay: factorOfDecay = 1 }) {
        const decay = weight_decay * factorOfDecay, coupled = decouples ? 0 : decay;
        const shrunk = number(1 - rate * decay), fresh = number(1 - momentum), kept = number(beta2);
        const square = factor(1 - beta2), floor = number(eps), root = number((1 - beta2 ** step) ** 0.5);
        const descent = factor(-rate / (1 - momentum ** step));
        return (weights, gradient, mean, squares, largest) => {
          if (decouples && decay !== 0) mul_(weights, shrunk);
          const g = withDecay(gradient, weights, coupled);
          lerp_(mean, g, fresh);
          addProduct_(mul_(squares, kept), g, g, square);
          if (amsgrad) copy_(largest, maximum(largest, squares));
          const under = add(div(sqrt(amsgrad ? largest : squares), root), floor);
          addQuotient_(weights, mean, under, descent);
        };
      },
    });
  },
};
