// Shampoo (Gupta, Koren, Singer 2018) as Meta's Distributed Shampoo has it, AlgoPerf's winner: a gradient is multiplied on each side by
// a root of the matrix of its products, and gets the length of Adam's step. A long dimension is cut, and each block has its own matrices.
import { noGrad } from "../../../ffi/autograd.ts";
import { add, constant, longLivedZeros, sub, zeros } from "../../../ffi/make.ts";
import {
  asStrided,
  clamp,
  copy_,
  div,
  lerp_,
  linalgEigh,
  mm,
  mul,
  mul_,
  narrow,
  pow,
  sqrt,
  square,
  sum,
  t,
} from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Arena } from "../arena.ts";
import { descend_, inParts, numbersOn } from "./elementwise.ts";
import { DIMENSIONS, isFinite, Kronecker } from "./kronecker.ts";
import { type OptimizerKind, slotsOf, zerosAs } from "./optimizer.ts";
import { withoutMomentum } from "./sgd.ts";

const MOMENTS = ["exp_avg", "exp_avg_sq"], MOMENTUM = "momentum_buffer";
const MATRICES = DIMENSIONS.flatMap((k) => [`factor_matrices_${k}`, `inv_factor_matrices_${k}`]);

export const shampoo: OptimizerKind<"shampoo"> = {
  traits: {
    slots: [...MOMENTS, MOMENTUM, ...MATRICES],
    wholeGradient: false,
    perElement: false,
    shardable: "which multiplies whole parameters",
    bytesPerWeight: ({ momentum }) => momentum === 0 ? 24 : 28, // a square matrix has four as large beside its moments
    moves: true,
    compiled: null,
    refuses: ({ optimizer: { nesterov, momentum } }) => withoutMomentum(nesterov, momentum),
  },
  open(settings, arena) {
    const { beta2, eps, momentum, nesterov, shampoo_beta } = settings, number = numbersOn(arena);
    let { beta1, weight_decay: decay } = settings;
    const { precondition_frequency: every, max_precond_dim: longest } = settings;
    const beta = shampoo_beta < 0 ? beta2 : shampoo_beta, roots = new Roots(arena, longest, beta);
    const names = momentum === 0 ? MOMENTS : [...MOMENTS, MOMENTUM];
    const state = names.map(() => arena.viewsOf(zerosAs(arena))), pieces = inParts(arena, state);

    /** Adam's until there are roots, and of its length from then on. */
    function direction(g: Tensor, mean: Tensor, squared: Tensor, i: number, step: number): Tensor {
      roots.add(g, i);
      if (step % every === 0) roots.take(i, 2 * g.shape.length, number(1 - beta ** step), number(eps));
      lerp_(mean, g, number(1 - beta1));
      descend_(mul_(squared, number(beta2)), square(g), beta2 - 1);
      const even = div(mean, number(1 - beta1 ** step));
      const adam = div(even, add(sqrt(div(squared, number(1 - beta2 ** step))), number(eps)));
      if (step < every || !roots.has(i)) return adam;
      const way = roots.turned(even, i);
      return mul(way, div(lengthOf(adam), add(lengthOf(way), number(TINY))));
    }

    function update(p: Tensor, way: Tensor, buffer: Tensor | undefined, lr: number): void {
      if (decay !== 0) way = sub(way, p, -decay);
      if (buffer === undefined) return descend_(p, way, lr);
      descend_(mul_(buffer, number(momentum)), way, -1);
      descend_(p, nesterov ? sub(way, buffer, -momentum) : buffer, lr);
    }

    return {
      type: "shampoo",
      steps: 0,
      slots: slotsOf({ slots: [...names, ...MATRICES] }, ...state, ...roots.slots),
      options: {
        ...{ betas: [beta1, beta2], shampoo_beta, epsilon: eps, weight_decay: decay, momentum },
        ...{ use_nesterov: nesterov, max_preconditioner_dim: longest, precondition_frequency: every },
      },
      move({ momentum: moved = settings.beta1, decay: factor = 1 }) {
        beta1 = moved;
        decay = settings.weight_decay * factor;
      },
      step(lr) {
        const step = ++this.steps;
        let i = 0;
        noGrad(() =>
          pieces.forEach(({ weights, gradient, state }) =>
            scope(() => {
              const [own, ...others] = [weights, gradient(), ...state].map((x) => blocksOf(x, longest));
              own.forEach((p, block) =>
                scope(() => {
                  const [g, mean, squared, buffer] = others.map((all) => all[block]);
                  update(p, direction(g, mean, squared, i++, step), buffer, lr);
                })
              );
            })
          )
        );
      },
    };
  },
};

/** Parts of a tensor, none longer than this in any dimension. */
const blocksOf = (whole: Tensor, longest: number): Tensor[] =>
  whole.shape.reduce((parts, size, dim) => {
    if (size <= longest) return parts;
    const begins = Array.from({ length: Math.ceil(size / longest) }, (_, i) => i * longest);
    return parts.flatMap((part) => begins.map((at) => narrow(part, dim, at, Math.min(longest, size - at))));
  }, [whole]);

/** The matrices of all blocks. In a checkpoint those of a parameter's blocks lie one behind the other. */
class Roots extends Kronecker {
  constructor({ parameters, flat }: Arena, longest: number, beta: number) {
    const { dtype, device } = flat;
    const nothing = keep(zeros([0], { dtype, device }));
    const shapes = noGrad(() =>
      scope(() => parameters.map((p) => blocksOf(p, longest).map(({ shape }) => shape)))
    );
    const matricesOf = (blocks: readonly (readonly number[])[], k: number) => {
      const sides = blocks.map((shape) => shape.length <= DIMENSIONS.length ? shape[k] ?? 0 : 0);
      const ends = sides.map((_, i) => sides.slice(0, i + 1).reduce((all, n) => all + n * n, 0));
      const memory = ends.at(-1) === 0 ? nothing : keep(longLivedZeros([ends.at(-1)!], { dtype, device }));
      const each = sides.map((n, i) =>
        n === 0 ? nothing : keep(asStrided(memory, [n, n], [n, 1], memory.offset + ends[i] - n * n))
      );
      return { memory, each };
    };
    const most = Math.max(0, ...parameters.map(({ shape }) => shape.length));
    const all = DIMENSIONS.slice(0, most).map((k) =>
      [0, 1].map(() => shapes.map((blocks) => matricesOf(blocks, k)))
    );
    super(
      all.map(([products, made]) => ({
        products: products.flatMap(({ each }) => each),
        made: made.flatMap(({ each }) => each),
      })),
      beta,
      flat,
    );
    this.slots = all.flatMap((pair) => pair.map((slot) => slot.map(({ memory }) => memory)));
  }

  /** factor_matrices_0, inv_factor_matrices_0, factor_matrices_1, ... */
  readonly slots: readonly (readonly Tensor[])[];

  /** New roots of the products, which `correction` brings to the size of a mean. */
  take(i: number, root: number, correction: Tensor, eps: Tensor): void {
    for (const { products: { [i]: m }, made: { [i]: made } } of this.factors) {
      if (m.numel === 0) continue;
      const mean = div(m, correction);
      copy_(made, isFinite(mean) ? inverseRoot(mean, root, eps) : mean); // the loss tells of what is not finite
    }
  }
}

const TINY = 1e-16;
const lengthOf = (x: Tensor): Tensor => sqrt(sum(square(x)));

/** m^(-1/root). Rounding may have made the least eigenvalue negative. */
function inverseRoot(m: Tensor, root: number, eps: Tensor): Tensor {
  const number = (value: number) => constant(value, m.dtype, m.device);
  const [values, vectors] = linalgEigh(m), negative = clamp(narrow(values, 0, 0, 1), null, number(0));
  return mm(mul(vectors, pow(add(sub(values, negative), eps), number(-1 / root))), t(vectors));
}
