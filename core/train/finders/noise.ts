// The gradient noise scale (McCandlish et al. 2018): the batch size at which a gradient's noise is as large as the gradient. Smaller
// batches gain by growing, larger ones hardly.
import { add, longLivedZeros } from "../../../ffi/make.ts";
import { type Readback, startReadback } from "../../../ffi/readback.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { copy_, square, sum } from "../../../ffi/ops.ts";
import { type Device, keep, scope } from "../../../ffi/tensor.ts";
import { partsOf } from "../../data/source/order.ts";
import { openSampling } from "../../data/source/sampling.ts";
import type { Config } from "../../settings/settings.ts";
import type { Built } from "../build.ts";
import { openFeed } from "../feed.ts";
import { plainGradients } from "../gradients/strategy.ts";
import { finished, type Share } from "../micro_batch.ts";
import { type Arena, gradientNorm } from "../arena.ts";

export interface Noise {
  /** The noise scale, in samples; Infinity where the gradient is lost in its noise. */
  readonly samples: number;
  /** The trace of the covariance of one sample's gradient, and the square of the mean gradient, without bias. */
  readonly variance: number;
  readonly squaredMean: number;
}

/** The estimate needs some batches, and gains little by more. */
const LEAST = 4, MOST = 16;

/** Unbiased estimates, from the mean square of gradients of `size` samples and the square of the mean of `count` of them. */
export function noiseOf(smallSquare: number, bigSquare: number, size: number, count: number): Noise {
  const big = size * count;
  const squaredMean = (big * bigSquare - size * smallSquare) / (big - size);
  const variance = (smallSquare - bigSquare) / (1 / size - 1 / big);
  return { variance, squaredMean, samples: squaredMean > 0 ? Math.max(0, variance / squaredMean) : Infinity };
}

/** It takes the weights as they are and batches of `size`; null where the data has too few of them. */
export function measureNoise(config: Config, built: Built, device: Device, size: number): Noise | null {
  const { pass, arena, amp, channelsLast, data: { train } } = built, { training, data } = config;
  const count = Math.min(MOST, Math.floor(train.length / size));
  if (count < LEAST || amp === "fp16") return null;
  const gradients = plainGradients({
    ...{ pass, arena, scaler: null, checkpointing: training.gradient_checkpointing, compiled: null },
  });
  const order = openSampling(data, training.seed, train).of(0),
    feed = openFeed({ device, channelsLast, loss: pass.loss }),
    supply = feed.of(train);
  let fed = 0;
  supply.begin(() => fed < count ? partsOf(order, fed++, { global: size, micro: size }, 0, false) : null);
  const sums = arena.parameters.map(({ shape }) => keep(longLivedZeros(shape, { device })));
  const watch = { observe: () => {}, pauses: { next: () => {}, rest: () => {} } };
  let smallSquares = 0;
  for (let i = 0; i < count; i++) {
    while (!supply.ready(1000));
    scope(() => {
      if (pass.seeds) pass.seeds.step = i;
      gradients.zero();
      gradients.reduce(gradients.forwardBackward(supply.take()!.map(finished), [1], watch, 1));
      smallSquares += gradients.norm().item() ** 2;
      noGrad(() => sums.forEach((all, k) => copy_(all, add(all, arena.gradients[k]))));
    });
    supply.queued();
    supply.ahead();
  }
  feed.close();
  const bigSquare = sums.reduce((total, all) => total + scope(() => sum(square(all), "f64").item()), 0) /
    count ** 2;
  sums.forEach((all) => all.free());
  return noiseOf(smallSquares / count, bigSquare, size, count);
}

// A run tells it with its logged steps: where a step adds up several micro-batches, the first one's gradient is longer than the
// whole one's by its noise. It costs a norm in some of the logged steps, and nothing in others.

/** Steps from one look to the next, at least: a norm is far less than 1% of so many. */
const STEPS_BETWEEN = 10;

/** A single step's estimate is mostly chance: these are means over many, of which the first few tell nothing. */
const KEPT = 0.95, LEAST_LOOKS = 10;

export function openRunNoise() {
  let last = -Infinity,
    wanted = false,
    seen: { readonly norm: Readback; readonly share: number } | null = null;
  let square = 0, variance = 0, looks = 0;
  return {
    /** Comes before each step. */
    begin(step: number, logged: boolean): void {
      seen?.norm.take(() => null); // of a step that was left in its middle
      seen = null;
      wanted = logged && step - last >= STEPS_BETWEEN;
      if (wanted) last = step;
    },
    /** The arena has the gradient of the step's first micro-batch, weighted with its share. */
    first(arena: Arena, share: Share): void {
      if (!wanted || typeof share !== "number" || share <= 0 || share >= 1) return;
      seen = { norm: startReadback(keep(gradientNorm(arena))), share };
    },
    /** From this step's `samples` and the norm of its whole gradient: the scale in samples, once it is known. */
    taken(samples: number): ((norm: number | undefined) => number | undefined) | null {
      if (seen === null) return null;
      const { norm: read, share } = seen;
      seen = null;
      return (norm) => {
        const small = read.take((t) => t.item()) / share;
        if (norm === undefined || !Number.isFinite(small + norm)) return undefined;
        const one = noiseOf(small ** 2, norm ** 2, share * samples, 1 / share);
        square = KEPT * square + (1 - KEPT) * one.squaredMean;
        variance = KEPT * variance + (1 - KEPT) * one.variance;
        return ++looks >= LEAST_LOOKS && square > 0 && variance > 0
          ? Number((variance / square).toPrecision(4))
          : undefined;
      };
    },
  };
}
