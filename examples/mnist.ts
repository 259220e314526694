// Digits by a small convolutional network, as one TypeScript file. Put MNIST's four files into a folder, then:
//   hpctrain --model examples/mnist.ts --data-type mnist --data-path mnist --epochs 5 --batch-size 64
import type { MadeModel, ModelLibrary, Tensor } from "../core/models/user/templates/hpctrain.d.ts";

export default function ({ nn, ops, facts, outputs }: ModelLibrary): MadeModel {
  const [channels, height, width] = facts.input.shape;

  class Digits extends nn.Module {
    readonly first = this.child("first", new nn.Conv2d(channels, 16, 3, { padding: 1 }));
    readonly second = this.child("second", new nn.Conv2d(16, 32, 3, { padding: 1 }));
    readonly last = this.child("last", new nn.Linear(32 * (height >> 2) * (width >> 2), outputs));

    forward(x: Tensor): Tensor {
      x = ops.maxPool2d(ops.relu(this.first.forward(x)), [2, 2]);
      x = ops.maxPool2d(ops.relu(this.second.forward(x)), [2, 2]);
      return this.last.forward(ops.flatten(x, 1));
    }
  }

  return new Digits();
}
