// Stochastic gradient descent, with momentum as PyTorch has it.
import { keep } from "../../../ffi/tensor.ts";
import { scalar } from "../../../ffi/make.ts";
import { fusedSgd_, fusedSgdByTensor_ } from "../../../ffi/ops.ts";
import { type OptimizerKind, rateFor, slotsOf, zerosAs } from "./optimizer.ts";

export const sgd: OptimizerKind<"sgd"> = {
  traits: {
    slots: ["momentum_buffer"],
    wholeGradient: false,
    perElement: true,
    shardable: true,
    bytesPerWeight: ({ momentum }) => momentum > 0 ? 4 : 0,
    compiled: "sgd",
  },
  open(s, arena) {
    const { parameters, gradients } = arena;
    const { momentum, nesterov, weight_decay: decay } = s;
    const device = arena.flat.device;
    const state = momentum > 0 ? [zerosAs(arena)] : [];
    const views = state.map((slot) => arena.viewsOf(slot)), [velocity = []] = views;
    const lists = [parameters, gradients, velocity, decay, momentum] as const;
    const rate = keep(scalar(NaN, "f32", device));
    let steps = 0;
    return {
      type: "sgd",
      get steps() {
        return steps;
      },
      set steps(taken) {
        steps = taken;
      },
      slots: slotsOf(this.traits, ...views),
      state,
      advance: () => ++steps,
      options: { momentum, dampening: 0, weight_decay: decay, nesterov, maximize: false, fused: true },
      step(lr, found = null) {
        const isFirst = steps++ === 0; // the first velocity is the gradient itself
        fusedSgd_(...lists, rateFor(device, lr), 0, nesterov, false, isFirst, null, found);
      },
      onDevice: {
        rate,
        // A velocity of zeros becomes the gradient itself without being called the first one.
        queue: (found) => fusedSgdByTensor_(...lists, rate, 0, nesterov, false, false, null, found),
        begin: () => void steps++,
        takeBack: () => void steps--,
      },
    };
  },
};
