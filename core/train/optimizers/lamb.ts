// LAMB (You et al. 2020): Adam's direction, scaled per parameter by |weight| / |direction|.
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { add, constant, fill_, scalar, sub } from "../../../ffi/make.ts";
import { copy_, div, gt, lerp_, logicalAnd, mul, sqrt, square, sum, where } from "../../../ffi/ops.ts";
import { type OptimizerKind, slotsOf, zerosAs } from "./optimizer.ts";

export const lamb: OptimizerKind<"lamb"> = {
  traits: {
    slots: ["exp_avg", "exp_avg_sq"],
    wholeGradient: true,
    perElement: false,
    shardable: "which needs the norm of each whole parameter",
    bytesPerWeight: () => 8,
    moves: true,
    compiled: null,
  },
  open(s, arena) {
    const { flat, gradient } = arena;
    const { dtype, device } = flat;
    const first = zerosAs(arena), second = zerosAs(arena), direction = zerosAs(arena);
    // Views without a graph: the parameters themselves may not be changed now.
    const weights = arena.viewsOf(flat), directions = arena.viewsOf(direction);
    const c = (value: number) => constant(value, dtype, device);
    const { beta2, eps } = s, decay = keep(scalar(s.weight_decay, dtype, device));
    let { beta1 } = s;
    return {
      type: "lamb",
      steps: 0,
      slots: slotsOf(this.traits, arena.viewsOf(first), arena.viewsOf(second)),
      options: { betas: [beta1, beta2], eps, weight_decay: s.weight_decay },
      move({ momentum = s.beta1, decay: factor = 1 }) {
        beta1 = momentum;
        fill_(decay, s.weight_decay * factor);
      },
      step(lr) {
        const t = ++this.steps;
        scope(() => {
          lerp_(first, gradient, scalar(1 - beta1, dtype, device));
          lerp_(second, square(gradient), c(1 - beta2));
          const firstHat = div(first, scalar(1 - beta1 ** t, dtype, device));
          const secondHat = div(second, scalar(1 - beta2 ** t, dtype, device));
          const adamStep = div(firstHat, add(sqrt(secondHat), c(eps)));
          copy_(direction, add(adamStep, mul(flat, decay)));
        });
        for (let i = 0; i < weights.length; i++) {
          const p = weights[i], u = directions[i];
          scope(() => copy_(p, sub(p, mul(u, trustRatio(p, u)), lr)));
        }
      },
    };

    /** A parameter that is all zeros must be able to leave zero. */
    function trustRatio(p: Tensor, u: Tensor): Tensor {
      const weight = norm(p), step = norm(u);
      return where(logicalAnd(gt(weight, c(0)), gt(step, c(0))), div(weight, step), c(1));
    }
  },
};

const norm = (t: Tensor): Tensor => sqrt(sum(square(t)));
