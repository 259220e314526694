// Batch norm over all ranks' samples (--sync-bn). Autograd knows nothing of other ranks, so the normalised
// values are a leaf: its gradient, and the sums of all ranks, give the gradient of the input.
import { opmathType } from "../../../ffi/dtype.ts";
import { backward, boundary, gradOf, noGrad, requiresGradient } from "../../../ffi/autograd.ts";
import { add, constant, ones, scalar, sub, zeros } from "../../../ffi/make.ts";
import {
  alias,
  cat,
  div,
  lerp_,
  mul,
  narrow,
  reshape,
  rsqrt,
  square,
  sumDim,
  toDtype,
  zerosLike,
} from "../../../ffi/ops.ts";
import { parseSchema } from "../../../ffi/schema.ts";
import { hostOps, SYNCED_NORM, tape, unrecorded } from "../../../ffi/tape.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { contextOf, type NormRanks, type SyncedNorm } from "./forward_context.ts";
import type { Module } from "./module.ts";

export function synchronise(root: Module, ranks: NormRanks): void {
  contextOf(root).ranks = ranks;
}

/** These are in the order of their application. */
export function takeNorms(root: Module): readonly SyncedNorm[] {
  const context = contextOf(root), taken = context.norms;
  context.norms = [];
  return taken;
}

interface State {
  readonly weight: Tensor | null;
  readonly bias: Tensor | null;
  readonly mean: Tensor;
  readonly variance: Tensor;
  readonly momentum: number;
  readonly eps: number;
}

export function syncedBatchNorm(x: Tensor, s: State, ranks: NormRanks, applied: SyncedNorm[]): Tensor {
  const channels = x.shape[1];
  const shape = x.shape.map((_, i) => i === 1 ? channels : 1);
  const { leaf, scale, count } = unrecorded(() => {
    const { normal, ...rest } = normalised(x, s, ranks);
    return { ...rest, leaf: boundary(normal) };
  });
  tape.recorder?.op(NORM, [x, numberOf(s, ranks)], [leaf, scale, count]);
  const own = unrecorded(() => alias(x)); // x itself may be the batch's, which outlives the pass
  applied.push({ ranks, x: keep(own), normal: keep(leaf), scale: keep(scale), count: keep(count) });
  const scaled = s.weight ? mul(leaf, reshape(s.weight, shape)) : mul(leaf, ones([], leaf));
  const y = s.bias ? add(scaled, reshape(s.bias, shape)) : scaled;
  return toDtype(y, x.dtype);
}

interface Normalised {
  readonly normal: Tensor;
  readonly scale: Tensor;
  readonly count: Tensor;
}

function normalised(x: Tensor, s: State, ranks: NormRanks): Normalised {
  const shape = x.shape.map((size, i) => i === 1 ? size : 1), { device } = x, dtype = opmathType(x.dtype);
  return noGrad(() => {
    const { mean, spread, count } = statistics(x, ranks);
    const variance = div(spread, count);
    const scale = reshape(rsqrt(add(variance, constant(s.eps, dtype, device))), shape);
    const normal = mul(sub(toDtype(x, dtype), reshape(mean, shape)), scale);
    if (ranks.fresh) { // a micro-batch counts once
      const weight = constant(s.momentum, dtype, device);
      lerp_(s.mean, mean, weight);
      lerp_(s.variance, div(spread, sub(count, constant(1, dtype, device))), weight);
    }
    return { normal, scale, count };
  });
}

/** From the normalised values' own gradient, that of their input. */
function gradientThrough(g: Tensor, { normal, scale, count }: Normalised, ranks: NormRanks): Tensor {
  const channels = g.shape[1], dims = allBut1(g), shape = g.shape.map((_, i) => i === 1 ? channels : 1);
  const sums = cat([sumDim(g, dims), sumDim(mul(g, normal), dims)]);
  ranks.sum(sums);
  const means = div(sums, count);
  const [a, b] = [0, channels].map((from) => reshape(narrow(means, 0, from, channels), shape));
  return mul(sub(sub(g, a), mul(normal, b)), scale);
}

// A plan of a compiled step asks for them by number.
const NORM = parseSchema(SYNCED_NORM);
const known: { readonly s: State; readonly ranks: NormRanks }[] = [];

function numberOf(s: State, ranks: NormRanks): number {
  const number = known.findIndex((one) => one.s.mean === s.mean && one.ranks === ranks);
  return number >= 0 ? number : known.push({ s, ranks }) - 1;
}

hostOps.set("synced_norm", (x, number) => {
  const { s, ranks } = known[number as number];
  const { normal, scale, count } = scope(() => normalised(x as Tensor, s, ranks));
  return [normal, scale, count];
});
hostOps.set("synced_norm_backward", (g, normal, scale, count, number) => {
  const made = { normal, scale, count } as Normalised;
  return [scope(() => gradientThrough(g as Tensor, made, known[number as number].ranks))];
});

/** Chan's rule combines the ranks' means, sums of squared differences and counts per channel. */
function statistics(x: Tensor, ranks: NormRanks): { mean: Tensor; spread: Tensor; count: Tensor } {
  const channels = x.shape[1], dims = allBut1(x);
  const own = scope(() => {
    const f = toDtype(x, opmathType(x.dtype));
    const count = scalar(x.numel / channels, f.dtype, x.device);
    const mean = div(sumDim(f, dims), count);
    const spread = sumDim(square(sub(f, reshape(mean, x.shape.map((_, i) => i === 1 ? channels : 1)))), dims);
    return cat([mean, spread, reshape(count, [1])]);
  });
  const all = ranks.gather(own);
  return scope(() => {
    const [means, spreads, counts] = [[0, channels], [channels, channels], [2 * channels, 1]]
      .map(([from, length]) => narrow(all, 1, from, length));
    const count = sumDim(counts, [0]);
    const mean = div(sumDim(mul(means, counts), [0]), count);
    const between = sumDim(mul(square(sub(means, mean)), counts), [0]);
    return { mean, spread: add(sumDim(spreads, [0]), between), count };
  });
}

const allBut1 = (x: Tensor): number[] => x.shape.map((_, i) => i).filter((i) => i !== 1);

/** The leaves' gradients are known. The last norm comes first. */
export function backwardThroughNorms(norms: readonly SyncedNorm[]): void {
  for (const { ranks, x, normal, scale, count } of norms.toReversed()) {
    scope(() => {
      const gradient = noGrad(() => {
        const g = gradOf(normal) ?? zerosLike(normal);
        return toDtype(gradientThrough(g, { normal, scale, count }, ranks), x.dtype);
      });
      if (requiresGradient(x)) backward(x, gradient, true); // The data itself asks for none.
    });
    for (const t of [x, normal, scale, count]) t.free();
  }
}

/** A rank without samples takes part in the collectives of the others' norms: forward, then backward. */
export function withoutSamples(
  ranks: NormRanks,
  channels: readonly number[],
  like: Pick<Tensor, "dtype" | "device">,
) {
  return {
    forward: () => channels.forEach((c) => scope(() => ranks.gather(zeros([2 * c + 1], like)))),
    backward: () => channels.toReversed().forEach((c) => scope(() => ranks.sum(zeros([2 * c], like)))),
  };
}
