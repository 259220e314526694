// The linear theory beside an independent program, and beside published values.
import { assert, assertAlmostEquals } from "@std/assert";
import {
  type Cosmology,
  distanceTo,
  growth,
  linearPower,
  rmsInSpheres,
  smoothTransfer,
  soundHorizon,
  transfer,
} from "../fields.ts";
import { askPeer } from "../../../tests/peer.ts";
import { PLANCK } from "./measure.ts";

interface Answer {
  readonly sound: number;
  readonly transfer: number[];
  readonly smooth: number[];
  readonly power: number[];
  readonly rms: number[];
  readonly growth: number[];
  readonly distance: number[];
}

function assertClose(ours: readonly number[], theirs: readonly number[], tolerance: number, what: string) {
  ours.forEach((value, i) => {
    const error = Math.abs(value / theirs[i] - 1);
    assert(error < tolerance, `${what} ${i}: ${value} here, ${theirs[i]} there`);
  });
}

Deno.test("spectrum, growth and distances are those of an independent program, all over the prior", async () => {
  const cosmologies: Cosmology[] = [
    PLANCK,
    { omegaM: 0.1, omegaB: 0.04, h: 0.6, ns: 0.9, sigma8: 0.6 },
    { omegaM: 0.5, omegaB: 0.06, h: 0.8, ns: 1.02, sigma8: 1 },
  ];
  const ks = [1e-3, 0.01, 0.03, 0.05, 0.07, 0.1, 0.15, 0.3, 1, 5], zs = [0.3, 1, 2, 9], radii = [4, 8, 30];
  const answers = await askPeer<Answer[]>(new URL("./linear.py", import.meta.url), {
    cosmologies,
    ks,
    zs,
    radii,
  });
  cosmologies.forEach((c, i) => {
    const theirs = answers[i], power = linearPower(c);
    assertClose([soundHorizon(c)], [theirs.sound], 1e-9, "sound horizon");
    assertClose(ks.map((k) => transfer(c)(k * c.h)), theirs.transfer, 1e-9, "transfer");
    assertClose(ks.map((k) => smoothTransfer(c)(k * c.h)), theirs.smooth, 1e-9, "smooth transfer");
    assertClose(ks.map(power), theirs.power, 1e-4, "power");
    assertClose(radii.map((radius) => rmsInSpheres(power, radius)), theirs.rms, 1e-4, "rms in spheres");
    assertClose(zs.map((z) => growth(c, z)), theirs.growth, 1e-6, "growth");
    assertClose(zs.map((z) => distanceTo(c, z)), theirs.distance, 1e-6, "distance");
  });
});

Deno.test("published values come out: the sound horizon of BOSS's fiducial model, growth and age of structure", () => {
  // Anderson et al. 2012: 153.19 Mpc by the same fit, for Omega_m 0.274, Omega_b h^2 0.0224, h 0.7.
  const boss = { ...PLANCK, omegaM: 0.274, h: 0.7, omegaB: 0.0224 / 0.49 };
  assertAlmostEquals(soundHorizon(boss), 153.19, 0.3);
  // With matter alone, structure grows as 1 / (1 + z), and distances are 2 c / H0 (1 - 1 / sqrt(1 + z)).
  const eds = { ...PLANCK, omegaM: 1 };
  assertAlmostEquals(growth(eds, 3), 0.25, 1e-9);
  assertAlmostEquals(distanceTo(eds, 3), 2997.92458, 1e-4);
  // Carroll, Press & Turner 1992: for Omega_m 0.3, growth today is 0.779 of what matter alone would give.
  const z = 1000;
  assertAlmostEquals(1 / (growth({ ...PLANCK, omegaM: 0.3 }, z) * (1 + z)), 0.779, 0.002);
});

Deno.test("the oscillations are there, and go with the baryons", () => {
  const ratio = (c: Cosmology) => {
    const full = transfer(c), smooth = smoothTransfer(c);
    const values = Array.from({ length: 60 }, (_, i) => {
      const k = 0.02 + i * 0.004;
      return full(k) / smooth(k);
    });
    return Math.max(...values) / Math.min(...values);
  };
  assert(ratio(PLANCK) > 1.05, String(ratio(PLANCK)));
  assert(ratio({ ...PLANCK, omegaB: 1e-4 }) < 1.02, String(ratio({ ...PLANCK, omegaB: 1e-4 })));
});
