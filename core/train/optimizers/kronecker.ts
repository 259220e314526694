// Kronecker factors: each dimension of a parameter, or of a block of one, has the matrix of its gradients' products and another
// that is made of it. SOAP turns by its eigenvectors, Shampoo by its inverse root.
import { constant } from "../../../ffi/make.ts";
import { allTrue, isfinite, lerp_, permute, tensordot } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";

/** A video's convolution has so many dimensions. */
export const DIMENSIONS = [0, 1, 2, 3, 4];

/** Those of one dimension, a matrix for each parameter or block; one that has none has a tensor without elements. */
export interface Factors {
  readonly products: readonly Tensor[];
  readonly made: readonly Tensor[];
}

export class Kronecker {
  readonly #fresh: Tensor;

  constructor(readonly factors: readonly Factors[], beta: number, { dtype, device }: Tensor) {
    this.#fresh = constant(1 - beta, dtype, device);
  }

  has(i: number): boolean {
    return this.factors.some(({ products: { [i]: m } }) => m.numel > 0);
  }

  /** Each dimension of `x`, which is of parameter or block `i`, in turn is multiplied by what is made of it, or by the transpose. */
  turned(x: Tensor, i: number, back = false): Tensor {
    const { shape } = x;
    if (!this.has(i)) return x;
    return this.factors.slice(0, shape.length).reduce((now, { made: { [i]: m } }) => {
      if (m.numel === 0) return permute(now, [...shape.keys()].map((d) => (d + 1) % shape.length));
      return tensordot(now, m, [0], [back ? 1 : 0]);
    }, x);
  }

  add(g: Tensor, i: number): void {
    this.factors.forEach(({ products: { [i]: m } }, k) => {
      if (m.numel === 0) return;
      const others = [...g.shape.keys()].filter((d) => d !== k);
      lerp_(m, tensordot(g, g, others, others), this.#fresh);
    });
  }
}

export const isFinite = (m: Tensor): boolean => allTrue(isfinite(m)).item() === 1;
