// AdamW (Loshchilov and Hutter 2019) and Adam (Kingma and Ba 2015), with PyTorch's bits.
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { add, constant, fill_, scalar, sub, zeros } from "../../../ffi/make.ts";
import { copy_, fusedAdam_, fusedAdamByTensor_, fusedAdamW_, fusedAdamWByTensor_ } from "../../../ffi/ops.ts";
import { type OptimizerKind, type OptimizerSettings, rateFor, slotsOf, zerosAs } from "./optimizer.ts";

/** A step on the device counts up, unless a gradient was found that is not finite. */
const countUp = (count: Tensor, found: Tensor | null): void =>
  scope(() => {
    const one = constant(1, "f32", count.device);
    copy_(count, add(count, found === null ? one : sub(one, found)));
  });

/** libtorch's own, by the rate as a number and as a tensor. */
export const fusedAdamOf = (type: OptimizerSettings["type"]) =>
  type === "adamw" ? [fusedAdamW_, fusedAdamWByTensor_] as const : [fusedAdam_, fusedAdamByTensor_] as const;

// One call over per-parameter views: the CPU kernel has a vector body and a scalar tail, so only views of
// PyTorch's own lengths give the bits of torch.optim.AdamW(fused=True).

export const adam: OptimizerKind<"adamw" | "adam"> = {
  traits: {
    slots: ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
    wholeGradient: false,
    perElement: true,
    shardable: true,
    moves: true,
    bytesPerWeight: ({ amsgrad }) => amsgrad ? 12 : 8,
    compiled: "adam",
  },
  open(s, arena) {
    const { parameters, gradients } = arena;
    const device = arena.flat.device;
    const { beta1, beta2, weight_decay: decay, eps, amsgrad, maximize } = s;
    const state = Array.from({ length: amsgrad ? 3 : 2 }, () => zerosAs(arena));
    const views = state.map((slot) => arena.viewsOf(slot)), [first, second, largest = []] = views;
    const count = keep(zeros([], { device }));
    const counts = parameters.map(() => count);
    const [update, updateByTensor] = fusedAdamOf(s.type);
    const lists = [parameters, gradients, first, second, largest, counts] as const;
    const rest: [number, number, number, number, boolean, boolean, null] = //
      [beta1, beta2, decay, eps, amsgrad, maximize, null];
    const rate = keep(scalar(NaN, "f32", device));
    let steps = 0;
    return {
      type: s.type,
      get steps() {
        return steps;
      },
      set steps(taken) {
        fill_(count, steps = taken);
      },
      slots: slotsOf(this.traits, ...views),
      ...(!amsgrad && !maximize && { state }),
      advance: () => ++steps,
      move({ momentum = beta1, decay: factor = 1 }) {
        rest[0] = momentum;
        rest[2] = decay * factor;
      },
      options: {
        betas: [beta1, beta2],
        eps,
        weight_decay: decay,
        amsgrad,
        maximize,
        fused: true,
      },
      step(lr, found = null) {
        steps++;
        if (found === null) fill_(count, steps);
        else countUp(count, found);
        update(...lists, rateFor(device, lr), ...rest, found);
      },
      onDevice: {
        rate,
        queue(found) {
          countUp(count, found);
          updateByTensor(...lists, rate, ...rest, found);
        },
        begin: () => void steps++,
        takeBack: () => void steps--,
      },
    };
  },
};
