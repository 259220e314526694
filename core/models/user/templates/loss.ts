// A loss for hpctrain. Train with it: hpctrain --loss FILE
// Types are for your editor and are erased: hpctrain types > hpctrain.d.ts writes those of the import below.
import type { JudgeLibrary, MadeLoss } from "./hpctrain.d.ts";

// Gives the mean over the samples of a batch as one number: batches are weighed by how many samples they have.
// Where the model should give other numbers than the data has targets: return { outputs: 2, loss: (output, target) => ... }.
export default function ({ ops }: JudgeLibrary): MadeLoss {
  // Here: the logarithm of cosh, which is the squared error near 0 and the absolute one far from it.
  return (output, target) => {
    const error = ops.abs(ops.sub(output, ops.reshape(target, output.shape)));
    const twice = ops.log1p(ops.exp(ops.scale(error, -2)));
    return ops.mean(ops.sub(ops.add(error, twice), Math.LN2));
  };
}
