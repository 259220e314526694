// Two parameters of a universe from a map of it: periodic convolutions, and the mean over the map, which has no edge.
//   hpctrain --model examples/cosmology.ts --data-type 2lpt --loss gaussian_nll --epochs 20
import type { MadeModel, ModelLibrary, Tensor } from "../core/models/user/templates/hpctrain.d.ts";

export default function ({ nn, ops, facts, outputs, settings }: ModelLibrary): MadeModel {
  const width = settings.width || 16;

  /** A map's other side is beside its edge. */
  const around = (x: Tensor): Tensor => {
    for (const dim of [2, 3]) {
      const size = x.shape[dim];
      x = ops.cat([ops.narrow(x, dim, size - 1, 1), x, ops.narrow(x, dim, 0, 1)], dim);
    }
    return x;
  };

  class Universe extends nn.Module {
    readonly layers = [facts.input.shape[0], width, 2 * width, 4 * width].slice(0, -1).map((channels, i) =>
      this.child(`conv${i}`, new nn.Conv2d(channels, width * 2 ** i, 3))
    );
    readonly out = this.child("out", new nn.Linear(4 * width, outputs));

    forward(x: Tensor): Tensor {
      for (const layer of this.layers) x = ops.avgPool2d(ops.relu(layer.forward(around(x))), [2, 2]);
      return this.out.forward(ops.meanDim(x, [2, 3]));
    }
  }

  return new Universe();
}
