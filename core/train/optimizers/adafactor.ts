// Adafactor (Shazeer and Stern 2018) as torch.optim has it: the second moment of a matrix is kept as a row and a column, and steps
// are in proportion to the weights.
import { noGrad } from "../../../ffi/autograd.ts";
import { constant, longLivedZeros, scalar, sub, zeros } from "../../../ffi/make.ts";
import {
  clamp_,
  clone,
  copy_,
  div,
  div_,
  lerp_,
  linalgMatrixNorm,
  matmul,
  meanDim,
  mul,
  mul_,
  neg,
  reshape,
  rsqrt,
  square,
  unsqueeze,
} from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { type OptimizerKind, slotsOf } from "./optimizer.ts";

export const adafactor: OptimizerKind<"adafactor"> = {
  traits: {
    slots: ["row_var", "col_var", "variance"],
    wholeGradient: false,
    perElement: false,
    shardable: "which keeps the rows and columns of whole matrices",
    bytesPerWeight: () => 0, // most of a model is in matrices, and a row and a column are little beside them
    compiled: null,
  },
  open({ beta2_decay, eps1, eps2, d, weight_decay, maximize }, arena) {
    const { parameters } = arena, { dtype, device } = arena.flat;
    const nothing = keep(zeros([0], { dtype, device }));
    const slot = (shapeOf: (shape: readonly number[]) => readonly number[] | null) =>
      parameters.map(({ shape }) => {
        const own = shapeOf(shape);
        return own === null ? nothing : keep(longLivedZeros(own, { dtype, device }));
      });
    const rows = slot((shape) => shape.length > 1 ? shape.with(-1, 1) : null);
    const columns = slot((shape) => shape.length > 1 ? shape.with(-2, 1) : null);
    const variances = slot((shape) => shape.length > 1 ? null : shape);
    const floor = constant(eps1, dtype, device), floorOfSquares = constant(eps1 * eps1, dtype, device);

    /** The running second moment of a parameter, with this step's gradient. */
    function estimate(i: number, g: Tensor, fresh: Tensor): Tensor {
      if (g.shape.length < 2) return clone(lerp_(variances[i], mul(g, g), fresh));
      lerp_(rows[i], meanSquares(g, -1), fresh);
      lerp_(columns[i], meanSquares(g, -2), fresh);
      return div_(matmul(rows[i], columns[i]), clamp_(meanDim(rows[i], [-2], true), floor));
    }

    return {
      type: "adafactor",
      steps: 0,
      slots: slotsOf(this.traits, rows, columns, variances),
      options: { beta2_decay, eps: [eps1, eps2], d, weight_decay, maximize },
      step(lr) {
        const step = ++this.steps, rho = Math.min(lr, 1 / Math.sqrt(step));
        noGrad(() =>
          scope(() => {
            const fresh = scalar(step ** beta2_decay, dtype, device);
            const shrunk = scalar(1 - lr * weight_decay, dtype, device);
            parameters.forEach((p, i) =>
              scope(() => {
                const g = maximize ? neg(arena.gradients[i]) : arena.gradients[i];
                const rate = Math.max(eps2, rootMeanSquare(p)) * rho;
                if (weight_decay !== 0) mul_(p, shrunk);
                const update = mul_(rsqrt(clamp_(estimate(i, g, fresh), floorOfSquares)), g);
                copy_(p, sub(p, update, rate / Math.max(1, rootMeanSquare(update, d))));
              })
            );
          })
        );
      },
    };
  },
};

const meanSquares = (g: Tensor, dim: -1 | -2): Tensor =>
  div(square(norm(g, dim)), constant(g.shape.at(dim)!, g.dtype, g.device));

/** In this unit. */
const rootMeanSquare = (t: Tensor, unit = 1): number =>
  norm(reshape(t, [-1]), -1).item() / (Math.sqrt(t.numel) * unit);

/** Along a dimension, which stays: the bits of torch.linalg.vector_norm, as of a matrix whose other side is 1. */
function norm(t: Tensor, dim: -1 | -2): Tensor {
  return reshape(linalgMatrixNorm(unsqueeze(t, 0), "fro", [0, dim], true), t.shape.with(dim, 1));
}
