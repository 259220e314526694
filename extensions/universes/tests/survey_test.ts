// A survey's maps: lensing against theory, and noise, mask, smoothing and bins with the statistics that were asked for.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { distanceTo, growth, HUBBLE_LENGTH, linearPower, normalNumbers } from "../fields.ts";
import {
  addSheet,
  type Bins,
  convergence,
  footprint,
  gaussian,
  shapeNoise,
  slabsOf,
  smooth,
  type SurveyOptions,
  tomography,
} from "../survey.ts";
import { simulation, type SimulationSpec, usual } from "../options.ts";
import { key } from "../../../core/base/random.ts";
import { useLibtorch } from "../../../tests/libtorch.ts";
import { meanOf, PLANCK } from "./measure.ts";

useLibtorch();

type Des = Extract<SimulationSpec, { kind: "des" }>["values"];

/** Samples of a survey with these options changed: their maps, and the simulation. */
function survey(changes: Partial<Des>, samples: number) {
  const made = simulation({
    kind: "des",
    seed: 3,
    values: { ...usual("des"), grid: 32, box: 128, ...changes },
  });
  const [maps, side] = made.shape, size = maps * side * side;
  const values = Array.from({ length: samples }, (_, i) => {
    const into = new Float32Array(size);
    made.make("train", i, into, new Float32Array(made.targets.length));
    return into;
  });
  return { made, values, side };
}

Deno.test("shape noise has the deviation sigma_e / sqrt(2 n A), in each bin, within 2%", () => {
  const options = { smoothing: 0, masked: 0, density: 2, ellipticity: 0.3 };
  const noisy = survey(options, 12), clean = survey({ ...options, ellipticity: 0 }, 12);
  const plane = 32 * 32, pixel = (60 * 5 / 32) ** 2; // arcmin^2
  const asked = 0.3 / Math.sqrt(2 * (2 / 4) * pixel);
  for (let bin = 0; bin < 4; bin++) {
    const noise = noisy.values.flatMap((map, i) =>
      Array.from(map.subarray(bin * plane, (bin + 1) * plane), (x, j) => x - clean.values[i][bin * plane + j])
    );
    const found = Math.sqrt(meanOf(noise, 2));
    assert(Math.abs(found / asked - 1) < 0.02, `bin ${bin}: ${found}, asked ${asked}`);
    assert(Math.abs(meanOf(noise)) < 4 * asked / Math.sqrt(noise.length));
  }
});

Deno.test("the share of masked pixels is the one asked for, and convergence is 0 there", () => {
  for (const masked of [0, 0.1, 0.35]) {
    const { values, side } = survey({ masked, mask_map: true, bins: 2 }, 4);
    const plane = side * side;
    for (const maps of values) {
      const seen = maps.subarray(2 * plane);
      assert(
        Math.abs(1 - meanOf(seen) - masked) < 0.02 * Math.max(masked, 0.01),
        `${1 - meanOf(seen)} of ${masked}`,
      );
      for (let j = 0; j < 2 * plane; j++) assertEquals(maps[j] === 0, seen[j % plane] === 0);
    }
    if (masked > 0) {
      assert(values[0].some((x, j) => j >= 2 * plane && x !== values[1][j]), "each sample has its own");
    }
  }
});

Deno.test("a footprint is in few pieces and has holes", () => {
  const side = 128, seen = footprint(side, 0.3, key(1, "holes"));
  // Beside a masked pixel is mostly another: edges are few, not as in noise.
  const changes = seen.reduce((sum, x, i) => sum + (i % side > 0 && x !== seen[i - 1] ? 1 : 0), 0);
  assert(changes < 0.06 * side * side, String(changes));
  const rows = Array.from({ length: side }, (_, i) => seen.subarray(i * side, (i + 1) * side));
  const holes = rows.filter((row) => /1010*1|10+1/.test(row.join(""))).length;
  assert(holes > 10, String(holes));
});

Deno.test("smoothing turns white noise into that of a Gaussian kernel, leaves what is constant, and respects the mask", () => {
  const side = 96, deviation = 1.5, all = new Uint8Array(side * side).fill(1);
  const white = Float64Array.from(normalNumbers(9n, side * side));
  const kernel = gaussian(deviation);
  const squares = kernel.reduce((sum, x, i) => sum + (i === 0 ? 1 : 2) * x * x, 0); // along one axis
  const inner = (map: Float64Array) =>
    map.filter((_, i) => i % side > 8 && i % side < side - 8 && i > 8 * side && i < (side - 8) * side);
  const found = Math.sqrt(meanOf(inner(smooth(white, all, side, deviation)), 2));
  assert(Math.abs(found / squares - 1) < 0.06, `${found}, expected ${squares}`); // squares = sqrt(squares^2)
  assertAlmostEquals(squares, 1 / (2 * Math.sqrt(Math.PI) * deviation), 1e-3);
  const seen = footprint(side, 0.3, 4n), bright = seen.map((x) => x === 1 ? 1 : 77);
  const flat = smooth(Float64Array.from(bright), seen, side, deviation);
  flat.forEach((x, i) => assertAlmostEquals(x, seen[i], 1e-12));
});

Deno.test("bins have equally many galaxies, one behind the other, and overlap a little", () => {
  const { z, shares } = tomography(0.6, 4);
  const means = shares.map((share) => share.reduce((sum, x, i) => sum + x * z[i], 0));
  for (const share of shares) assertAlmostEquals(share.reduce((a, b) => a + b, 0), 1, 1e-12);
  for (let bin = 1; bin < 4; bin++) {
    assert(means[bin] > means[bin - 1] + 0.1, means.join());
    const overlap = shares[bin].reduce((sum, x, i) => sum + Math.min(x, shares[bin - 1][i]), 0);
    assert(overlap > 0.02 && overlap < 0.5, String(overlap));
  }
  // Dark Energy Survey, year 3: 0.34, 0.52, 0.74, 0.96.
  [0.34, 0.52, 0.74, 0.96].forEach((mean, bin) => assertAlmostEquals(means[bin], mean, 0.1));
});

/** All galaxies at one redshift. */
const onePlane = (redshift: number): Bins => ({ z: Float64Array.of(redshift), shares: [Float64Array.of(1)] });

Deno.test("a slab lenses by 3/2 Omega_m (H0/c)^2 (1 + z) chi (1 - chi/chi_s), and not what is in front of it", () => {
  const source = distanceTo(PLANCK, 1);
  const near = Float64Array.from({ length: 200 }, (_, i) => 0.01 * (i + 0.5));
  const shares = near.map((z) => Math.abs(z - 0.995) < 1e-9 ? 1 : 0);
  const slabs = slabsOf(PLANCK, { z: near, shares: [shares] }, 100);
  assertEquals(slabs.length, Math.ceil(distanceTo(PLANCK, 2) / 100));
  const at = distanceTo(PLANCK, 0.995);
  for (const { distance, redshift, weights } of slabs) {
    assertAlmostEquals(distanceTo(PLANCK, redshift), distance, 1);
    const expected = 1.5 * PLANCK.omegaM / HUBBLE_LENGTH ** 2 * 100 * (1 + redshift) * distance *
      Math.max(0, 1 - distance / at);
    assertAlmostEquals(weights[0], expected, 1e-12);
  }
  assert(source > at);
  assertEquals(slabsOf(PLANCK, onePlane(1), 100).at(-1)!.weights, [0]);
});

Deno.test("a sheet is seen where it is: shifted, magnified, mirrored, and repeated at its edge", () => {
  const n = 16, side = 8;
  const sheet = Float32Array.from({ length: n * n }, (_, i) => Math.sin(2 * Math.PI * Math.floor(i / n) / n));
  const see = (shift: [number, number], step: [number, number]) => {
    const maps = new Float64Array(2 * side * side);
    addSheet(maps, side, [1, 3], sheet, n, { axis: 0, shift, step });
    return maps;
  };
  const maps = see([14, 5], [1, 0.25]);
  for (let i = 0; i < side; i++) {
    const half = (Math.sin(2 * Math.PI * (14 + i) / n) + Math.sin(2 * Math.PI * (15 + i) / n)) / 2;
    assertAlmostEquals(maps[i * side + 3], half, 1e-6);
    assertAlmostEquals(maps[side * side + i * side + 6], 3 * half, 1e-6);
    assertAlmostEquals(see([14, 5], [-1, 1])[i * side], -see([2, 5], [1, 1])[i * side], 1e-6);
  }
});

Deno.test("convergence has the variance that Limber's sum over the slabs gives", () => {
  // Structure so weak that it is linear; variance of means over an eighth of the patch, where the grid does not matter.
  const n = 64, field = 5, box = 256, samples = 40, blocks = 4, width = n / blocks;
  const c = { ...PLANCK, sigma8: 0.3 };
  const bins = tomography(0.6, 2), power = linearPower(c);
  const options = { grid: n, box, order: 2, field } as SurveyOptions;
  const found = [0, 0];
  for (let i = 0; i < samples; i++) {
    const maps = convergence(c, bins, options, (what) => key(7, what, i));
    for (let block = 0; block < 2 * blocks ** 2; block++) {
      const [bin, x, y] = [
        Math.floor(block / blocks ** 2),
        Math.floor(block / blocks) % blocks,
        block % blocks,
      ];
      let sum = 0;
      for (let u = 0; u < width; u++) {
        for (let v = 0; v < width; v++) sum += maps[bin * n * n + (x * width + u) * n + y * width + v];
      }
      found[bin] += (sum / width ** 2) ** 2 / (samples * blocks ** 2);
    }
  }
  const sinc = (x: number) => x === 0 ? 1 : Math.sin(x) / x;
  const expected = [0, 1].map((bin) =>
    slabsOf(c, bins, box).reduce((total, { distance, redshift, weights }) => {
      const size = distance * field * Math.PI / 180 / blocks, unit = 2 * Math.PI / box;
      let variance = 0;
      for (let x = -n / 2; x < n / 2; x++) {
        for (let y = -n / 2; y < n / 2; y++) {
          const window = sinc(x * unit * size / 2) * sinc(y * unit * size / 2);
          variance += power(unit * Math.hypot(x, y)) * window ** 2 / box ** 3;
        }
      }
      return total + (weights[bin] * growth(c, redshift)) ** 2 * variance;
    }, 0)
  );
  const ratios = found.map((value, bin) => value / expected[bin]);
  console.log(`variance over Limber's: ${ratios.map((ratio) => ratio.toFixed(3)).join(", ")}`);
  for (const ratio of ratios) assert(Math.abs(ratio - 1) < 0.2, String(ratio));
});

Deno.test("the noise of a deep survey is what its numbers say", () => {
  // 27 galaxies an arcmin^2 in one bin, sigma_e 0.37, pixels of one arcminute: 0.05.
  const options = { grid: 60, field: 1, bins: 1, density: 27, ellipticity: 0.37 } as SurveyOptions;
  assertAlmostEquals(shapeNoise(options), 0.0503, 1e-4);
});
