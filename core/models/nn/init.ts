// Initial weights as torch.nn.init computes them: the same draws in the same order, bounds in float64, so that a seed
// gives PyTorch's weights to the last bit.
import { noGrad } from "../../../ffi/autograd.ts";
import { constant, fill_ } from "../../../ffi/make.ts";
import { anyTrue, clamp, copy_, emptyLike, ne, normal_, uniform_, where } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";

export const uniform = (t: Tensor, from: number, to: number): Tensor => noGrad(() => uniform_(t, from, to));
export const normal = (t: Tensor, mean: number, std: number): Tensor => noGrad(() => normal_(t, mean, std));
export const fill = (t: Tensor, value: number): Tensor => noGrad(() => fill_(t, value));

/** Inputs and outputs of one unit of a weight [out, in, ...kernel]. */
export function fans(weight: Tensor): { fanIn: number; fanOut: number } {
  const [out, into, ...kernel] = weight.shape;
  const field = kernel.reduce((product, size) => product * size, 1);
  return { fanIn: into * field, fanOut: out * field };
}

/** kaiming_uniform_ with the slope a: the default of linear and convolution layers is a = sqrt(5). */
export function kaimingUniform(weight: Tensor, a: number = Math.sqrt(5)): Tensor {
  const gain = Math.sqrt(2 / (1 + a * a));
  const bound = Math.sqrt(3) * (gain / Math.sqrt(fans(weight).fanIn));
  return uniform(weight, -bound, bound);
}

/** kaiming_normal_ with mode="fan_out", nonlinearity="relu": residual networks. */
export function kaimingNormalFanOut(weight: Tensor): Tensor {
  return normal(weight, 0, Math.sqrt(2) / Math.sqrt(fans(weight).fanOut));
}

export function xavierUniform(weight: Tensor): Tensor {
  const { fanIn, fanOut } = fans(weight);
  const bound = Math.sqrt(3) * Math.sqrt(2 / (fanIn + fanOut));
  return uniform(weight, -bound, bound);
}

/** The bias beside a weight, as linear and convolution layers draw it. */
export function biasUniform(bias: Tensor, weight: Tensor): Tensor {
  const bound = 1 / Math.sqrt(fans(weight).fanIn);
  return uniform(bias, -bound, bound);
}

/** trunc_normal_ between -2 and 2 with mean 0: what lies outside is drawn again. PyTorch's own way for std up to 5. */
export function truncNormal(t: Tensor, std: number): Tensor {
  return noGrad(() =>
    scope(() => {
      const low = constant(-2), high = constant(2);
      let drawn = normal_(t, 0, std);
      for (;;) {
        const outside = ne(clamp(drawn, low, high), drawn);
        if (anyTrue(outside).item() === 0) break;
        drawn = where(outside, normal_(emptyLike(drawn), 0, std), drawn);
      }
      return drawn === t ? t : copy_(t, drawn);
    })
  );
}
