// An optimizer for hpctrain. Train with it: hpctrain --optimizer FILE
// Types are for your editor and are erased: hpctrain types > hpctrain.d.ts writes those of the import below.
import type { MadeOptimizer, OptimizerLibrary } from "./hpctrain.d.ts";

// Here: AdamW, in PyTorch's order. `settings` has the flags and --set training.optimizer.*, and a group's own.
export default function ({ ops, settings }: OptimizerLibrary): MadeOptimizer {
  const { beta1, beta2, eps } = settings;
  const lerp = ops.op("lerp.Scalar"), addcmul = ops.op("addcmul"), addcdiv = ops.op("addcdiv");
  return {
    // Each parameter has these beside it: zeros at first, saved in checkpoints under these names.
    slots: ["exp_avg", "exp_avg_sq"],
    // The update of a number reads no other one. An optimizer that reads a whole parameter, such as its norm, leaves this out.
    perElement: true,
    update({ parameter, gradient, state, step, lr, weightDecay }) {
      const exp_avg = lerp(state.exp_avg, gradient, 1 - beta1);
      const exp_avg_sq = addcmul(ops.mul(state.exp_avg_sq, beta2), gradient, gradient, { value: 1 - beta2 });
      const root = ops.div(ops.sqrt(exp_avg_sq), Math.sqrt(1 - beta2 ** step));
      const shrunk = ops.mul(parameter, 1 - lr * weightDecay);
      const rate = lr / (1 - beta1 ** step);
      return {
        parameter: addcdiv(shrunk, exp_avg, ops.add(root, eps), { value: -rate }),
        exp_avg,
        exp_avg_sq,
      };
    },
  };
}
