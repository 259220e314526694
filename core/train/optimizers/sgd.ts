// Stochastic gradient descent, with momentum as PyTorch has it.
import { keep } from "../../../ffi/tensor.ts";
import { scalar } from "../../../ffi/make.ts";
import { fusedSgd_, fusedSgdByTensor_ } from "../../../ffi/ops.ts";
import { type OptimizerKind, rateFor, slotsOf, zerosAs } from "./optimizer.ts";

export const withoutMomentum = (nesterov: boolean, momentum: number): string | null =>
  nesterov && momentum === 0
    ? "--nesterov and --momentum 0: there is no momentum to look ahead with, so give one above 0"
    : null;

export const sgd: OptimizerKind<"sgd"> = {
  traits: {
    slots: ["momentum_buffer"],
    wholeGradient: false,
    perElement: true,
    shardable: true,
    moves: true,
    bytesPerWeight: ({ momentum }) => momentum > 0 ? 4 : 0,
    compiled: "sgd",
    refuses: ({ optimizer: { nesterov, momentum, dampening } }) =>
      nesterov && dampening > 0
        ? `dampening=${dampening} and --nesterov: its velocity is not dampened, so leave one of them out`
        : withoutMomentum(nesterov, momentum),
  },
  open(s, arena) {
    const { parameters, gradients } = arena;
    const { momentum, nesterov, weight_decay: decay, dampening, maximize } = s;
    const device = arena.flat.device;
    const state = momentum > 0 ? [zerosAs(arena)] : [];
    const views = state.map((slot) => arena.viewsOf(slot)), [velocity = []] = views;
    const lists: [typeof parameters, typeof gradients, typeof velocity, number, number] = //
      [parameters, gradients, velocity, decay, momentum];
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
      ...(dampening === 0 && !maximize && { state }),
      advance: () => ++steps,
      move({ momentum: moved = momentum, decay: factor = 1 }) {
        lists[3] = decay * factor;
        lists[4] = moved;
      },
      options: { momentum, dampening, weight_decay: decay, nesterov, maximize, fused: true },
      step(lr, found = null) {
        const isFirst = steps++ === 0; // the first velocity is the gradient itself
        fusedSgd_(...lists, rateFor(device, lr), dampening, nesterov, maximize, isFirst, null, found);
      },
      // A velocity of zeros becomes the gradient itself without being called the first one, where nothing dampens it.
      ...(dampening === 0 && {
        onDevice: {
          rate,
          queue: (found) => fusedSgdByTensor_(...lists, rate, 0, nesterov, maximize, false, null, found),
          begin: () => void steps++,
          takeBack: () => void steps--,
        },
      }),
    };
  },
};
