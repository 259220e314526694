// Metrics for hpctrain, beside those that it has for the task. Train with them: hpctrain --metric FILE
// Types are for your editor and are erased: hpctrain types > hpctrain.d.ts writes those of the import below.
import type { JudgeLibrary, MadeMetrics } from "./hpctrain.d.ts";

// Each metric gives its mean over the samples of a batch as one number; hpctrain adds them up over all batches and ranks.
export default function ({ ops, facts }: JudgeLibrary): MadeMetrics {
  if (facts.task === "regression") {
    return {
      worst: (output, target) =>
        ops.mean(ops.amax(ops.abs(ops.sub(output, ops.reshape(target, output.shape))), [1])),
    };
  }
  return {
    // How sure the model is of what it says.
    confidence: (output) => ops.mean(ops.amax(ops.softmax(output, 1), [1])),
  };
}
