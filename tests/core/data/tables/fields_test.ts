// The random fields: their power spectrum is the one asked for, and their parameters can be read off them.
import { assert, assertEquals } from "@std/assert";
import { batchOf, plainPart } from "../../../../core/data/source/source.ts";
import {
  FIELD_PRIOR,
  makeFields,
  modeNumbers,
  NOISE,
  powerSpectrum,
} from "../../../../core/data/synthetic/fields.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { abs, fftRfft2, square } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { linearR2, range, rows, spec } from "./help.ts";

useLibtorch();

/** |F|^2 / size^2 of every mode of a real transform, and the targets, for the first samples. */
function measured(size: number, samples: number) {
  return scope(() => {
    const source = makeFields(spec({ samples }, { image_size: size }));
    const { input, target } = batchOf(source, plainPart(range(0, samples)));
    const modes = size * (Math.floor(size / 2) + 1);
    const spectra = rows(toNumbers(square(abs(fftRfft2(input)))).map((v) => v / size ** 2), modes);
    return { spectra, targets: rows(toNumbers(target), 2) };
  });
}

const parameter = (target: number, [low, high]: readonly [number, number]) =>
  (low + high) / 2 + target * (high - low) / Math.sqrt(12);

for (const size of [32, 33]) {
  Deno.test(`the power spectrum of maps of ${size} x ${size} is the one their parameters ask for`, () => {
    const { spectra, targets } = measured(size, 400);
    const modes = modeNumbers(size), power = powerSpectrum(size);
    const sum = new Float64Array(size), count = new Float64Array(size);
    spectra.forEach((spectrum, i) => {
      const amplitude = parameter(targets[i][0], FIELD_PRIOR.amplitude),
        tilt = parameter(targets[i][1], FIELD_PRIOR.tilt);
      spectrum.forEach((value, mode) => {
        const band = Math.round(modes[mode]);
        sum[band] += value / (power(modes[mode], amplitude, tilt) + NOISE ** 2);
        count[band]++;
      });
    });
    for (const band of range(0, Math.floor(size / 2) + 1)) {
      const ratio = sum[band] / count[band];
      const error = Math.sqrt(2 / count[band]);
      assert(Math.abs(ratio - 1) < 5 * error, `band ${band}: ${ratio} +- ${error}`);
    }
  });
}

Deno.test("the parameters can be inferred: a straight line through log band powers explains them", () => {
  const { spectra, targets } = measured(32, 500);
  const modes = modeNumbers(32);
  const bands = spectra.map((spectrum) => {
    const sums = new Float64Array(6), counts = new Float64Array(6);
    spectrum.forEach((value, mode) => {
      const band = Math.floor(Math.log2(Math.max(modes[mode], 1)) * 1.25);
      if (modes[mode] === 0 || band > 5) return;
      sums[band] += value;
      counts[band]++;
    });
    return [...sums].map((sum, band) => Math.log(sum / counts[band]));
  });
  for (const k of [0, 1]) {
    const r2 = linearR2(bands, targets.map((t) => t[k]), 400);
    assert(r2 > 0.7, `parameter ${k}: R2 ${r2}`);
  }
});

Deno.test("targets are standardised, maps have about unit variance, and channels share their parameters", () => {
  scope(() => {
    const source = makeFields(spec({ samples: 2000 }, { image_size: 16, channels: 2 }));
    assertEquals(source.facts, {
      task: "regression",
      input: { shape: [2, 16, 16], dtype: "f32" },
      outputs: 2,
    });
    const { input, target } = batchOf(source, plainPart(range(0, 2000)));
    const targets = toNumbers(target), maps = toNumbers(input);
    const square = (values: Float64Array) => values.reduce((sum, v) => sum + v * v, 0) / values.length;
    assert(Math.abs(square(targets) - 1) < 0.05, String(square(targets)));
    assert(square(maps) > 0.8 && square(maps) < 1.5, String(square(maps)));
    assert(targets.every((t) => Math.abs(t) <= Math.sqrt(3) + 1e-6));
  });
});

Deno.test("a map does not depend on how many there are, beyond whole chunks", () => {
  scope(() => {
    const few = makeFields(spec({ samples: 1024 }, { image_size: 8 }));
    const many = makeFields(spec({ samples: 1500 }, { image_size: 8 }));
    assertEquals(
      toNumbers(batchOf(few, plainPart([5])).input),
      toNumbers(batchOf(many, plainPart([5])).input),
    );
    assertEquals(
      toNumbers(batchOf(few, plainPart([5])).target),
      toNumbers(batchOf(many, plainPart([5])).target),
    );
  });
});
