import * as ops from "../../../ffi/ops.ts";
import { add, constant, scale, sub, tensor, uninitialised } from "../../../ffi/make.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { key, MOST_POSITIONS } from "../../base/random.ts";
import { memorySource } from "../source/memory.ts";
import type { Source } from "../source/source.ts";
import { UserError } from "../../base/errors.ts";
import { formatBytes, formatPlural } from "../../base/format.ts";
import { manualSeed } from "../../../ffi/context.ts";
import type { Config } from "../../settings/settings.ts";

const SIZE = 32;
/** A chunk bounds the memory of the transforms. */
const CHUNK = 1024;
/** All spectra of one amplitude meet at this mode: waves along the side of the map. */
const PIVOT = 4;
export const NOISE = 0.1;
export const FIELD_PRIOR = { amplitude: [0.5, 1.5], tilt: [1, 3] } as const;

/**
 * A map is a periodic Gaussian field with P(m) = amplitude * unit * (m / 4)^-tilt, P(0) = 0, m = |(mx, my)|
 * in waves along the side, plus white noise of 0.1 a pixel. P is <|F|^2> / size^2 where F is the unnormalised
 * transform, so the noise adds 0.1^2; `unit` gives amplitude 1 and tilt 2 a variance of 1. The model infers
 * the two parameters, standardised over their prior: (value - middle) / (width / sqrt 12).
 */
export function makeFields(spec: Spec): Source {
  const { model, role, samples, seed } = spec;
  const channels = model.channels || 1;
  const size = model.image_size || SIZE;
  checkSamples(spec, "fields", 4 * (channels * size * size + 2));
  const input = uninitialised([samples, channels, size, size]);
  const target = scope(() => {
    const spread = uniforms(key(seed, "fields", role, "parameters"), [samples, 2]);
    const filter = filters(size);
    for (let from = 0; from < samples; from += CHUNK) {
      const count = Math.min(CHUNK, samples - from);
      const draw = (part: string) =>
        normalTensor(key(seed, "fields", role, part, from), [count, channels, size, size]);
      scope(() => {
        const white = ops.fftRfft2(draw("field"));
        const smooth = ops.fftIrfft2(ops.mul(white, filter(ops.narrow(spread, 0, from, count))), [
          size,
          size,
        ]);
        ops.copy_(ops.narrow(input, 0, from, count), add(smooth, scale(draw("noise"), NOISE)));
      });
    }
    return scale(sub(spread, constant(0.5)), Math.sqrt(12));
  });
  return memorySource({
    name: "fields",
    task: "regression",
    outputs: 2,
    fields: ["map", "parameters"],
    names: ["amplitude", "tilt"],
    units: {
      mean: Object.values(FIELD_PRIOR).map(([low, high]) => (low + high) / 2),
      std: Object.values(FIELD_PRIOR).map(([low, high]) => (high - low) / Math.sqrt(12)),
    },
    description:
      `fields: Gaussian random fields of ${channels} x ${size} x ${size} -> amplitude and tilt of the power spectrum`,
    input,
    target,
  });
}

function filters(size: number): (spread: Tensor) => Tensor {
  const modes = modeNumbers(size);
  const across = Math.floor(size / 2) + 1;
  const grid = (value: (m: number) => number) => tensor(Float32Array.from(modes, value), [size, across]);
  const height = Math.sqrt(unit(size));
  const halfLog = grid((m) => m === 0 ? 0 : -0.5 * Math.log(m / PIVOT));
  const base = grid((m) => m === 0 ? 0 : height);
  const parameter = (spread: Tensor, column: number, [low, high]: readonly [number, number]) =>
    ops.reshape(add(scale(ops.narrow(spread, 1, column, 1), high - low), constant(low)), [-1, 1, 1, 1]);
  return (spread) => {
    const amplitude = parameter(spread, 0, FIELD_PRIOR.amplitude),
      tilt = parameter(spread, 1, FIELD_PRIOR.tilt);
    return ops.mul(ops.mul(ops.sqrt(amplitude), base), ops.exp(ops.mul(tilt, halfLog)));
  };
}

export function powerSpectrum(size: number): (m: number, amplitude: number, tilt: number) => number {
  const height = unit(size);
  return (m, amplitude, tilt) => m === 0 ? 0 : amplitude * height * (m / PIVOT) ** -tilt;
}

export function modeNumbers(size: number): Float64Array {
  const across = Math.floor(size / 2) + 1;
  return Float64Array.from({ length: size * across }, (_, i) => {
    const row = Math.floor(i / across);
    return Math.hypot(Math.min(row, size - row), i % across);
  });
}

/** A map's variance is the mean of P over all size^2 modes. */
function unit(size: number): number {
  let sum = 0;
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const m = Math.hypot(Math.min(x, size - x), Math.min(y, size - y));
      if (m > 0) sum += (m / PIVOT) ** -2;
    }
  }
  return size ** 2 / sum;
}

/** The task depends on the seed alone, its samples also on the role. */
export interface Spec {
  readonly role: "train" | "val";
  readonly samples: number;
  readonly seed: number;
  readonly loss: Config["training"]["loss"];
  readonly model: Config["model"];
}

const MOST_BYTES = 512 * 2 ** 20;

export function checkCount({ role, samples }: Pick<Spec, "role" | "samples">): void {
  if (samples <= MOST_POSITIONS) return;
  throw new UserError(
    "usage",
    `--${role}-samples ${samples} is more than the ${MOST_POSITIONS} samples that can be put in order.`,
  );
}

export function checkSamples({ role, samples }: Spec, what: string, bytesEach: number): void {
  const most = Math.floor(MOST_BYTES / bytesEach);
  const fewer = most > 0 ? `set --${role}-samples ${most} or less, or ` : "";
  checkMadeMemory(
    `${formatPlural(samples, "sample")} of ${what}`,
    samples * bytesEach,
    `${fewer}make the samples smaller`,
  );
}

export function checkMadeMemory(what: string, bytes: number, advice: string): void {
  if (bytes <= MOST_BYTES) return;
  const most = formatBytes(MOST_BYTES);
  throw new UserError(
    "usage",
    `${what} would take ${formatBytes(bytes)} of memory, and made-up data may take ${most}: ${advice}.`,
  );
}

// libtorch's CPU generator is sequential: a key gives the same numbers for any number of threads. It is the
// default generator, so whoever draws next (a model's initialisation) seeds it first.
export function normalTensor(key: bigint, shape: readonly number[]): Tensor {
  manualSeed(key);
  return ops.randn(shape);
}

function uniforms(key: bigint, shape: readonly number[]): Tensor {
  manualSeed(key);
  return ops.rand(shape);
}
