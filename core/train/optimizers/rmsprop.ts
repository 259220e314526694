// RMSprop (Hinton 2012): gradients over the root of a running mean of their squares; centred, that of their variance.
import { add } from "../../../ffi/make.ts";
import { clone, lerp_, mul_, sqrt } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import {
  addProduct_,
  addQuotient_,
  descend_,
  elementwise,
  factor,
  numbersOn,
  openElementwise,
  withDecay,
} from "./elementwise.ts";
import type { OptimizerKind } from "./optimizer.ts";

export const rmsprop: OptimizerKind<"rmsprop"> = {
  traits: {
    ...elementwise(
      ["square_avg", "momentum_buffer", "grad_avg"],
      ({ momentum, centered }) => 4 * (1 + Number(momentum > 0) + Number(centered)),
    ),
    moves: true,
  },
  open({ alpha, eps, weight_decay, momentum, centered, maximize }, arena) {
    const number = numbersOn(arena), slots = ["square_avg"];
    if (momentum > 0) slots.push("momentum_buffer");
    if (centered) slots.push("grad_avg");
    return openElementwise(arena, {
      ...{ type: "rmsprop", slots, maximize, moves: true },
      options: { alpha, eps, weight_decay, momentum, centered },
      update(rate, _step, { momentum: onto = momentum, decay = 1 }) {
        const kept = number(alpha),
          fresh = number(1 - alpha),
          square = factor(1 - alpha),
          floor = number(eps);
        const onward = number(onto), once = factor(1), less = factor(-1), back = factor(-rate);
        const variance = (squares: Tensor, mean: Tensor) => {
          const left = clone(squares);
          addProduct_(left, mean, mean, less);
          return left;
        };
        return (weights, gradient, squares, ...more) => {
          const g = withDecay(gradient, weights, weight_decay * decay), mean = more.at(-1)!;
          addProduct_(mul_(squares, kept), g, g, square);
          if (centered) lerp_(mean, g, fresh);
          const under = add(sqrt(centered ? variance(squares, mean) : squares), floor);
          if (momentum === 0) return addQuotient_(weights, g, under, back);
          const [velocity] = more;
          addQuotient_(mul_(velocity, onward), g, under, once);
          descend_(weights, velocity, rate);
        };
      },
    });
  },
};
