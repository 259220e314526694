// Muon (Jordan et al. 2024): the momentum of a hidden matrix is made orthogonal before it is taken off the weights. All other
// parameters have AdamW. As torch.optim.Muon with adjust_lr_fn="match_rms_adamw", so one learning rate fits both.
import { noGrad } from "../../../ffi/autograd.ts";
import type { DType } from "../../../ffi/dtype.ts";
import {
  add,
  constant,
  fill_,
  longLivedZeros,
  scalar,
  scale,
  sub,
  upcast,
  zeros,
} from "../../../ffi/make.ts";
import {
  clone,
  copy_,
  div,
  fusedAdamW_,
  lerp_,
  maximum,
  mm,
  mul,
  reshape,
  sqrt,
  square,
  sum,
  t,
  toDtype,
} from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { Embedding } from "../../models/nn/linear.ts";
import type { Module } from "../../models/nn/module.ts";
import { type OptimizerKind, rateFor, slotsOf } from "./optimizer.ts";

const STEPS = 5, COEFFICIENTS = [3.4445, -4.7750, 2.0315] as const, EPS = 1e-7;

/**
 * The hidden matrices among the parameters: weights of linear layers and convolutions. What reads the data,
 * embeddings or else the first of them, and the last one, which answers, are left to AdamW.
 */
export function hiddenMatrices(parameters: readonly Tensor[], root: Module | null): Set<Tensor> {
  const tables = new Set(
    (root?.modules() ?? []).flatMap((m) =>
      m instanceof Embedding ? m.namedParameters().map(([, table]) => table) : []
    ),
  );
  const uses = (table: Tensor) => root!.stateDict().filter(([, weight]) => weight === table).length;
  const isTied = [...tables].some((table) => uses(table) > 1);
  // A token or a table of positions, [1, ..., width], is no matrix either.
  const isWeight = ({ shape }: Tensor) =>
    shape.length === 2 || shape.length >= 3 && (shape[0] > 1 || shape.length > 3);
  const matrices = parameters.filter((p) => isWeight(p) && !tables.has(p));
  const inside = matrices.slice(tables.size > 0 ? 0 : 1, isTied ? undefined : -1);
  return new Set(inside.filter(({ shape }) => shape[0] > 1));
}

/** On a GPU the products are in bf16, as PyTorch's; a CPU is faster and more exact in f32. */
export const muon: OptimizerKind<"muon"> = {
  traits: {
    slots: ["momentum_buffer", "exp_avg", "exp_avg_sq"],
    wholeGradient: false,
    perElement: false,
    shardable: "which makes whole matrices orthogonal",
    bytesPerWeight: () => 4, // most of a model is in the hidden matrices, which have the momentum alone
    moves: true,
    compiled: null,
  },
  open(s, arena, root) {
    const { parameters, flat } = arena, { dtype, device } = flat, within = device === "cpu" ? dtype : "bf16";
    const { beta2, eps } = s;
    let { beta1, weight_decay: decay, muon_momentum: momentum } = s;
    const hidden = hiddenMatrices(parameters, root);
    const nothing = keep(zeros([0], { dtype, device }));
    const slot = (of: (p: Tensor) => boolean) =>
      parameters.map((p) => of(p) ? keep(longLivedZeros(p.shape, { dtype, device })) : nothing);
    const momenta = slot((p) => hidden.has(p));
    const first = slot((p) => !hidden.has(p)), second = slot((p) => !hidden.has(p));
    const others = parameters.flatMap((p, i) => hidden.has(p) ? [] : [i]);
    const among = (all: readonly Tensor[]) => others.map((i) => all[i]);
    const count = keep(zeros([], { device })), counts = others.map(() => count);
    const [own, firsts, seconds] = [parameters, first, second].map(among);
    let steps = 0;
    return {
      type: "muon",
      get steps() {
        return steps;
      },
      set steps(taken) {
        fill_(count, steps = taken);
      },
      slots: slotsOf(this.traits, momenta, first, second),
      options: { momentum, nesterov: true, betas: [beta1, beta2], eps, weight_decay: decay },
      move({ momentum: moved, decay: factor = 1 }) {
        momentum = moved ?? s.muon_momentum;
        beta1 = moved ?? s.beta1;
        decay = s.weight_decay * factor;
      },
      step(lr) {
        fill_(count, ++steps);
        if (own.length > 0) {
          const lists = [own, among(arena.gradients), firsts, seconds, [], counts] as const;
          fusedAdamW_(
            ...lists,
            rateFor(device, lr),
            beta1,
            beta2,
            decay,
            eps,
            false,
            false,
          );
        }
        noGrad(() =>
          scope(() => {
            const [shrunk, fresh, ahead] = [1 - lr * decay, 1 - momentum, momentum]
              .map((value) => scalar(value, dtype, device));
            parameters.forEach((p, i) => {
              if (!hidden.has(p)) return;
              const gradient = arena.gradients[i];
              lerp_(momenta[i], gradient, fresh);
              scope(() => {
                const rows = p.shape[0],
                  matrix = reshape(lerp_(clone(gradient), momenta[i], ahead), [rows, -1]);
                const direction = reshape(orthogonal(matrix, within), p.shape);
                copy_(
                  p,
                  sub(mul(p, shrunk), direction, lr * 0.2 * Math.sqrt(Math.max(rows, p.numel / rows))),
                );
              });
            });
          })
        );
      },
    };
  },
};

/** Nearly U V^T of a matrix U S V^T, by five steps of a Newton-Schulz iteration. */
export function orthogonal(matrix: Tensor, within: DType): Tensor {
  const [rows, columns] = matrix.shape, tall = rows > columns;
  const narrowed = toDtype(matrix, within), wide = tall ? t(narrowed) : narrowed;
  const length = sqrt(sum(square(upcast(wide))));
  let x = div(wide, toDtype(maximum(length, constant(EPS, length.dtype, matrix.device)), within));
  const [a, b, c] = COEFFICIENTS, times = (m: Tensor, by: number) => toDtype(scale(m, by), within);
  for (let i = 0; i < STEPS; i++) {
    const gram = mm(x, t(x));
    x = add(times(x, a), mm(add(times(gram, b), times(mm(gram, gram), c)), x));
  }
  return toDtype(tall ? t(x) : x, matrix.dtype);
}
