// SOAP (Vyas et al. 2024): Adam in the eigenbases of Shampoo's matrices. Each dimension of a parameter has a matrix of its gradients'
// products (GG) and an orthogonal one that turns towards that one's eigenvectors (Q); the moments are those of turned gradients.
import { noGrad } from "../../../ffi/autograd.ts";
import { add, longLivedZeros, scalar, zeros } from "../../../ffi/make.ts";
import {
  asStrided,
  clone,
  copy_,
  div,
  flip,
  indexSelect,
  linalgEigh,
  linalgQr,
  mean,
  mm,
  mul_,
  sort,
  sqrt,
  square,
  t,
} from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { descend_, numbersOn } from "./elementwise.ts";
import type { Arena } from "../arena.ts";
import { DIMENSIONS, isFinite, Kronecker } from "./kronecker.ts";
import { type OptimizerKind, slotsOf, zerosAs } from "./optimizer.ts";

export const soap: OptimizerKind<"soap"> = {
  traits: {
    slots: ["exp_avg", "exp_avg_sq", ...DIMENSIONS.flatMap((k) => [`GG_${k}`, `Q_${k}`])],
    wholeGradient: false,
    perElement: false,
    shardable: "which turns whole parameters",
    bytesPerWeight: () => 24, // a square matrix has four as large beside its two moments
    moves: true,
    compiled: null,
  },
  open(settings, arena) {
    const { parameters } = arena, number = numbersOn(arena);
    const { beta2, eps, normalize_grads, shampoo_beta } = settings;
    let { beta1, weight_decay: decay } = settings;
    const { precondition_frequency: every, max_precond_dim: longest } = settings;
    const means = arena.viewsOf(zerosAs(arena)), squares = arena.viewsOf(zerosAs(arena));
    const bases = new Bases(arena, longest, shampoo_beta < 0 ? beta2 : shampoo_beta);

    function update(p: Tensor, g: Tensor, i: number, lr: number, step: number): void {
      const own = bases.turned(g, i);
      descend_(mul_(means[i], number(beta1)), own, beta1 - 1);
      descend_(mul_(squares[i], number(beta2)), square(own), beta2 - 1);
      let direction = bases.turned(div(means[i], add(sqrt(squares[i]), number(eps))), i, true);
      if (normalize_grads) {
        direction = div(direction, add(sqrt(mean(square(direction))), number(TINY)));
      }
      descend_(p, direction, lr * Math.sqrt(1 - beta2 ** step) / (1 - beta1 ** step));
      if (decay !== 0) descend_(p, p, lr * decay);
    }

    /** The bases follow behind the update: no gradient is turned by what it made. */
    function follow(g: Tensor, i: number, step: number): void {
      const straight = bases.turned(means[i], i, true);
      bases.add(g, i);
      if (step % every === 0) copy_(squares[i], bases.turn(i, squares[i]));
      copy_(means[i], bases.turned(straight, i));
    }

    return {
      type: "soap",
      steps: 0,
      slots: slotsOf(this.traits, means, squares, ...bases.slots),
      options: {
        ...{ betas: [beta1, beta2], shampoo_beta, eps, weight_decay: decay, precondition_frequency: every },
        ...{
          max_precond_dim: longest,
          merge_dims: false,
          precondition_1d: false,
          normalize_grads,
          correct_bias: true,
        },
      },
      move({ momentum = settings.beta1, decay: factor = 1 }) {
        beta1 = momentum;
        decay = settings.weight_decay * factor;
      },
      step(lr) {
        const step = this.steps++; // the first gradient makes the bases alone
        noGrad(() =>
          parameters.forEach((p, i) =>
            scope(() => {
              const g = arena.gradients[i];
              if (step === 0) return bases.begin(g, i);
              update(p, g, i, lr, step);
              follow(g, i, step);
            })
          )
        );
      },
    };
  },
};

/** The matrices of all parameters, dimension by dimension. */
class Bases extends Kronecker {
  constructor({ parameters, flat }: Arena, longest: number, beta: number) {
    const { dtype, device } = flat;
    const nothing = keep(zeros([0], { dtype, device }));
    const used = Math.max(0, ...parameters.map(({ shape }) => turns(shape) ? shape.length : 0));
    const has = ({ shape }: Tensor, k: number) => turns(shape) && k < shape.length && shape[k] <= longest;
    const factors = DIMENSIONS.slice(0, used).map((k) => {
      const slot = () =>
        parameters.map((p) =>
          has(p, k) ? keep(longLivedZeros([p.shape[k], p.shape[k]], { dtype, device })) : nothing
        );
      // LAPACK's columns lie one behind the other, and products of such matrices have other last bits.
      return { products: slot(), made: slot().map((m) => m === nothing ? m : keep(t(m))) };
    });
    super(factors, beta, flat);
  }

  /** GG_0, Q_0, GG_1, ... */
  get slots(): readonly (readonly Tensor[])[] {
    return this.factors.flatMap(({ products, made }) => [products, made]);
  }

  begin(g: Tensor, i: number): void {
    this.add(g, i);
    for (const { products: { [i]: m }, made: { [i]: basis } } of this.factors) {
      if (m.numel > 0) copy_(basis, isFinite(m) ? eigenvectors(m) : m); // the loss tells of what is not finite
    }
  }

  /** A step of orthogonal iteration; gives the second moments in the new order of directions. */
  turn(i: number, squares: Tensor): Tensor {
    return this.factors.reduce((moved, { products: { [i]: m }, made: { [i]: basis } }, k) => {
      if (m.numel === 0) return moved;
      const [, order] = sort(diagonal(mm(mm(t(basis), m), basis)), 0, true);
      copy_(basis, linalgQr(mm(m, indexSelect(basis, 1, order)))[0]);
      return indexSelect(moved, k, order);
    }, squares);
  }
}

/** Biases and norms have Adam. */
const turns = (shape: readonly number[]): boolean => shape.length > 1 && shape.length <= DIMENSIONS.length;

const diagonal = (m: Tensor): Tensor => asStrided(m, [m.shape[0]], [m.shape[0] + 1]);

const TINY = 1e-30;

/** The longest first. */
function eigenvectors(m: Tensor): Tensor {
  const raised = clone(m), on = diagonal(raised);
  copy_(on, add(on, scalar(TINY, m.dtype, m.device)));
  return flip(linalgEigh(raised)[1], [1]);
}
