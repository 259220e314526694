// The PINN of `scripts/bench jobs`: u(x, t), and the residual of the heat equation, u_t - u_xx. bench/peers/jobs_models.py
// says the same in Python.
import type { MadeModel, ModelLibrary, Tensor } from "../core/models/user/templates/hpctrain.d.ts";

export default function ({ nn, ops, gradient }: ModelLibrary): MadeModel {
  const widths = [2, 64, 64, 1];

  class Heat extends nn.Module {
    readonly layers = widths.slice(1).map((width, i) =>
      this.child(`layers.${i}`, new nn.Linear(widths[i], width))
    );
    u(at: Tensor): Tensor {
      const [first, second, last] = this.layers;
      return last.forward(ops.tanh(second.forward(ops.tanh(first.forward(at)))));
    }
    forward(at: Tensor): Tensor {
      const slope = (points: Tensor) => gradient((p) => this.u(p), points);
      const inTime = ops.narrow(slope(at), 1, 1, 1);
      const bend = ops.narrow(gradient((p) => ops.narrow(slope(p), 1, 0, 1), at), 1, 0, 1);
      return ops.cat([this.u(at), ops.sub(inTime, bend)], 1);
    }
  }
  return new Heat();
}
