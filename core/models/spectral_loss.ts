// The squared error of maps and of their amplitudes at each wavelength: a blurred map lacks the short ones.
import { add, constant, scale, sub, upcast } from "../../ffi/make.ts";
import { fftRfft2, mean, mseLoss, sqrt, square, sumDim, viewAsReal } from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { Loss } from "./losses.ts";
import type { Facts } from "./model.ts";
import { inOutputShape } from "./targets.ts";

const MEAN = 1; // at::Reduction::Mean

/** A root has no endless slope above it. */
const LEAST = 1e-12;

/**
 * mse + weight * the mean of (|F(output)| - |F(target)|)^2 over what rfft2 of norm="ortho" gives, so that both parts
 * have the target's own units squared. Phases count in the first part alone.
 */
export function spectral(facts: Facts, weight: number): Loss {
  if (facts.missing) {
    throw new UserError(
      "data",
      "the loss spectral compares waves of whole maps, and targets of this data have missing points: use another loss, " +
        "such as --loss mse, or data without them.",
    );
  }
  return {
    name: "spectral",
    outputs: facts.outputs,
    apply(output, target) {
      const whole = upcast(output);
      if (whole.shape.length !== 4) {
        throw new UserError(
          "usage",
          `the loss spectral is for maps [samples, targets, height, width], and the model gives [${
            whole.shape.join(", ")
          }]: use --loss mse.`,
        );
      }
      const truth = inOutputShape(target, whole);
      const difference = mean(square(sub(amplitudes(whole), amplitudes(truth))));
      return add(mseLoss(whole, truth, MEAN), scale(difference, weight));
    },
    validCount: (target) => target.numel,
  };
}

function amplitudes(maps: Tensor): Tensor {
  const power = sumDim(square(viewAsReal(fftRfft2(maps, null, [-2, -1], "ortho"))), [-1]);
  return sqrt(add(power, constant(LEAST, maps.dtype, maps.device)));
}
