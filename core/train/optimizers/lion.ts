// Lion (Chen et al. 2023): the sign of a mean of momentum and gradient, and one slot of state. Updates are element by element.
import { noGrad } from "../../../ffi/autograd.ts";
import { constant, fill_, scalar, sub } from "../../../ffi/make.ts";
import { clone, copy_, lerp_, mul, sign } from "../../../ffi/ops.ts";
import { keep, scope } from "../../../ffi/tensor.ts";
import { type OptimizerKind, slotsOf, zerosAs } from "./optimizer.ts";

export const lion: OptimizerKind<"lion"> = {
  traits: {
    slots: ["exp_avg"],
    wholeGradient: false,
    perElement: true,
    shardable: true,
    moves: true,
    bytesPerWeight: () => 4,
    compiled: null,
  },
  open(s, arena) {
    const { parameters, flat } = arena, { dtype, device } = flat;
    const momenta = arena.viewsOf(zerosAs(arena));
    const { beta1, lion_beta2: beta2, weight_decay } = s;
    let decay = weight_decay;
    const towards = keep(scalar(1 - beta1, dtype, device)), kept = constant(1 - beta2, dtype, device);
    return {
      type: "lion",
      steps: 0,
      slots: slotsOf(this.traits, momenta),
      options: { betas: [beta1, beta2], weight_decay },
      move({ momentum = beta1, decay: factor = 1 }) {
        fill_(towards, 1 - momentum);
        decay = weight_decay * factor;
      },
      step(lr) {
        this.steps++;
        noGrad(() =>
          scope(() => {
            const shrunk = scalar(1 - lr * decay, dtype, device);
            for (let i = 0; i < parameters.length; i++) {
              const p = parameters[i], gradient = arena.gradients[i];
              scope(() =>
                copy_(p, sub(mul(p, shrunk), sign(lerp_(clone(momenta[i]), gradient, towards)), lr))
              );
              lerp_(momenta[i], gradient, kept);
            }
          })
        );
      },
    };
  },
};
