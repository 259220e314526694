// Vectors of features with a smooth function of them as target (mlp). May import random, memory, ffi.
import { add, constant, scale, sub } from "../../../ffi/make.ts";
import { argmax, div, gt, linear, meanDim, sin, sqrt, toDtype, variance } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { key } from "../../random.ts";
import { memorySource } from "../memory.ts";
import type { Source } from "../source.ts";
import { checkSamples, normals, type Spec } from "./draw.ts";

const FEATURES = 7;
const WAVES = 8;
/** Standard deviation of the noise, where that of the signal is 1. */
const NOISE = 0.1;
const REFERENCE_SAMPLES = 4096;

/**
 * Features x are standard normal. y = sum over 8 waves of a * sin(w.x + b), standardised, plus noise of 0.1: the
 * best possible R2 is 1 / 1.01. With cross entropy the target is the largest of the y, with bce their signs.
 */
export function vectors(spec: Spec): Source {
  const { role, samples, seed, loss, model } = spec;
  const features = model.input_size || FEATURES;
  const classes = loss === "cross_entropy";
  const outputs = model.output_size || (classes ? 3 : 1);
  checkSamples(spec, "synthetic vectors", 4 * (features + Math.max(WAVES, outputs)));
  const { input, target } = scope(() => {
    const signal = teacher(seed, features, outputs);
    const input = normals(key(seed, "vectors", role, "x"), [samples, features]);
    const noise = normals(key(seed, "vectors", role, "noise"), [samples, outputs]);
    const y = add(signal(input), scale(noise, NOISE));
    const target = classes ? argmax(y, 1) : loss === "bce" ? toDtype(gt(y, constant(0)), "f32") : y;
    return { input, target };
  });
  const kind = classes ? `${outputs} classes` : outputs === 1 ? "1 number" : `${outputs} numbers`;
  return memorySource({
    name: "synthetic vectors",
    task: classes ? "classification" : "regression",
    outputs,
    description: `synthetic vectors: ${features} features -> ${kind}`,
    input,
    target,
  });
}

/** The function to be learnt, standardised on samples of its own so that it depends on the seed alone. */
function teacher(seed: number, features: number, outputs: number): (x: Tensor) => Tensor {
  const draw = (part: string, shape: number[]) => normals(key(seed, "vectors", "teacher", part), shape);
  const weight = scale(draw("w", [WAVES, features]), 1 / Math.sqrt(features));
  const phase = draw("b", [WAVES]);
  const height = draw("a", [outputs, WAVES]);
  const raw = (x: Tensor) => linear(sin(linear(x, weight, phase)), height);
  const reference = raw(draw("x", [REFERENCE_SAMPLES, features]));
  const centre = meanDim(reference, [0]), spread = sqrt(variance(reference, [0]));
  return (x) => div(sub(raw(x), centre), spread);
}
