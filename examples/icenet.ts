// Ice or open water, pixel by pixel, from maps of the weather: residual layers that keep the size of the map.
//   hpctrain --model examples/icenet.ts --data-path ice.npz --epochs 20, with a class for each pixel as targets
// Its blocks are what --gradient-checkpointing keeps the ends of.
import type { MadeModel, ModelLibrary, Tensor } from "../core/models/user/templates/hpctrain.d.ts";

export default function ({ nn, ops, model, block, facts, outputs, settings }: ModelLibrary): MadeModel {
  if (facts.input.shape.length !== 3) {
    throw new Error(`maps are needed, and a sample is ${facts.input.shape}`);
  }
  const filters = settings.width || 16, layers = settings.layers;

  class Residual extends nn.Module {
    readonly norm = this.child("norm", new nn.GroupNorm(4, filters));
    readonly conv = this.child("conv", new nn.Conv2d(filters, filters, 3, { padding: 1 }));
    forward(x: Tensor): Tensor {
      return ops.add(x, this.conv.forward(ops.silu(this.norm.forward(x))));
    }
  }
  class IceNet extends nn.Module {
    readonly begin = this.child("begin", new nn.Conv2d(facts.input.shape[0], filters, 3, { padding: 1 }));
    readonly parts = Array.from({ length: layers }, (_, i) => this.child(`part${i}`, new Residual()));
    readonly end = this.child("end", new nn.Conv2d(filters, outputs, 1));
  }

  const net = new IceNet();
  return model("icenet", net, [
    block("begin", net.begin, (x) => net.begin.forward(x)),
    ...net.parts.map((part, i) => block(`part${i}`, part, (x) => part.forward(x))),
    block("end", net.end, (x) => net.end.forward(x)),
  ], { layers: `${layers} residual layers of ${filters} filters`, convolutional: true });
}
