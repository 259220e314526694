// A model for hpctrain. Train it with: hpctrain --model FILE
// Types are for your editor and are erased: hpctrain types > hpctrain.d.ts writes those of the import below.
import type { MadeModel, ModelLibrary, Tensor } from "./hpctrain.d.ts";

// Called once, on every rank, after the seed is set. `facts` is what the data says: facts.task, facts.input.shape (of one
// sample), facts.outputs. `outputs` is how many numbers the loss wants for each sample.
export default function ({ nn, ops, facts, outputs, settings }: ModelLibrary): MadeModel {
  const features = facts.input.shape.reduce((product, size) => product * size, 1);
  const hidden = settings.hidden_size; // --hidden-size

  class Net extends nn.Module {
    // child() names a part: its weights are saved as "in.weight", "in.bias", "out.weight", ...
    readonly in = this.child("in", new nn.Linear(features, hidden));
    readonly out = this.child("out", new nn.Linear(hidden, outputs));

    // x is a batch: its first dimension counts samples. `ops` has what models need most, with numbers where PyTorch takes
    // them: ops.mul(x, 2). Any other operation of libtorch: const logsumexp = ops.op("logsumexp"), outside of forward.
    forward(x: Tensor): Tensor {
      const rows = ops.flatten(x, 1);
      return this.out.forward(ops.relu(this.in.forward(rows)));
    }
  }

  return new Net();
}
