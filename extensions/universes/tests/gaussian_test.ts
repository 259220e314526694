// The white noise is white and normal, and the field has the spectrum that was asked for.
import { assert, assertEquals } from "@std/assert";
import { gaussianField, linearPower, normalNumbers, simulationGrid } from "../fields.ts";
import { key } from "../../../core/base/random.ts";
import { liveTensors, scope } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../../tests/libtorch.ts";
import { eachWave, meanOf, PLANCK, spectrum } from "./measure.ts";

useLibtorch();

Deno.test("the noise is normal: four moments, the tail, and no likeness between keys", () => {
  const count = 2 ** 20, a = normalNumbers(key(1, "a"), count), b = normalNumbers(key(1, "b"), count);
  const error = 1 / Math.sqrt(count);
  const moments = [[1, 0, 1], [2, 1, 2], [3, 0, 15], [4, 3, 96]]; // power, mean of it, its variance
  for (const [power, mean, variance] of moments) {
    const found = meanOf(a, power);
    assert(Math.abs(found - mean) < 4 * Math.sqrt(variance) * error, `power ${power}: ${found}`);
  }
  const beyond = meanOf(a.map((x) => Math.abs(x) > 3 ? 1 : 0)), expected = 0.0026998;
  assert(Math.abs(beyond - expected) < 4 * Math.sqrt(expected) * error, String(beyond));
  assert(Math.abs(meanOf(a.map((x, i) => x * b[i]))) < 4 * error);
  assertEquals(a.slice(0, 64), normalNumbers(key(1, "a"), 64));
});

Deno.test("a field's spectrum is the linear one at every wavelength, its mean is zero", () => {
  const n = 64, length = 512, boxes = 8, bands = 16;
  const power = linearPower(PLANCK), grid = simulationGrid(n);
  const sum = new Float64Array(bands), count = new Float64Array(bands);
  for (let box = 0; box < boxes; box++) {
    const found = scope(() => spectrum(gaussianField(grid, length, power, key(box, "test")), n, length));
    assertEquals(found[0], 0);
    eachWave(n, (at, m, waves) => {
      const band = Math.floor(m / 2);
      if (m === 0 || band >= bands) return;
      sum[band] += waves * found[at] / power(2 * Math.PI / length * m);
      count[band] += waves;
    });
  }
  for (let band = 0; band < bands; band++) {
    const ratio = sum[band] / count[band], error = Math.sqrt(2 / count[band]); // waves come in pairs of one amplitude
    assert(Math.abs(ratio - 1) < 4 * error, `waves ${2 * band} to ${2 * band + 2}: ${ratio} +- ${error}`);
  }
});

Deno.test("nothing is left behind but the tables", () => {
  const grid = simulationGrid(16), power = linearPower(PLANCK);
  const before = liveTensors();
  scope(() => void gaussianField(grid, 100, power, 5n));
  assertEquals(liveTensors(), before);
});
