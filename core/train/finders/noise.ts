// The gradient noise scale (McCandlish et al. 2018): the batch size at which a gradient's noise is as large as the gradient. Smaller
// batches gain by growing, larger ones hardly.
import { add, longLivedZeros } from "../../../ffi/make.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { copy_, square, sum } from "../../../ffi/ops.ts";
import { type Device, keep, scope } from "../../../ffi/tensor.ts";
import { partsOf } from "../../data/order.ts";
import { openSampling } from "../../data/sampling.ts";
import type { Config } from "../../settings/settings.ts";
import type { Built } from "../build.ts";
import { openFeed } from "../feed.ts";
import { plainGradients } from "../gradients/strategy.ts";
import { finished } from "../micro_batch.ts";

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
    supply = openFeed({ device, channelsLast, loss: pass.loss }).of(train);
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
  const bigSquare = sums.reduce((total, all) => total + scope(() => sum(square(all), "f64").item()), 0) /
    count ** 2;
  sums.forEach((all) => all.free());
  return noiseOf(smallSquares / count, bigSquare, size, count);
}
