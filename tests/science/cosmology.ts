// Parameters of a field from maps of it that a survey has not seen everywhere, with uncertainties that can be trusted.
import { succeed } from "../integration/program.ts";
import { type Case, python } from "./case.ts";

const SEEDS = [1, 2];

/** So much of a normal distribution lies within 1 sigma. */
const NORMAL = 0.683;

/** Maps to train, validate and test with, the side of a map, the training's flags, and what it has to come to. */
const SIZES = {
  small: {
    data: ["4000", "100", "1000", "16"],
    flags: ["--width", "8", "--epochs", "8"],
    r2: 0.5,
    batch: "128",
  },
  full: {
    data: ["10000", "500", "4000", "32"],
    flags: ["--width", "12", "--epochs", "12"],
    r2: 0.7,
    batch: "256",
  },
};

/**
 * A Gaussian random field's power is amplitude * k^slope. It is seen through noise, and is missing outside of a
 * footprint, which differs from map to map, and where stars are.
 */
const MAPS = `
import sys
import numpy as np, xarray as xr
*counts, side = map(int, sys.argv[1:])
r = np.random.default_rng(0)
k = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)) * side
k[0, 0] = np.inf
y, x = np.mgrid[:side, :side] / side
def made(count):
    amplitude, slope = r.uniform(0.2, 3, count), r.uniform(-3, -1, count)
    white = np.fft.rfft2(r.normal(size=(count, side, side)))
    power = amplitude[:, None, None] * 4 * k ** slope[:, None, None]
    seen = np.fft.irfft2(white * np.sqrt(power), (side, side)) + 0.3 * r.normal(size=white.shape[:2] + (side,))
    angle, shift = r.uniform(0, 2 * np.pi, (count, 1, 1)), r.uniform(-0.3, 0.1, (count, 1, 1))
    outside = (x - 0.5) * np.cos(angle) + (y - 0.5) * np.sin(angle) < shift - 0.1
    stars = r.uniform(size=seen.shape) < 0.03
    seen[outside | stars] = np.nan
    return xr.Dataset({
        "kappa": (("map", "y", "x"), seen.astype("f4"), {"long_name": "convergence"}),
        "amplitude": ("map", amplitude.astype("f4")),
        "slope": ("map", slope.astype("f4")),
    })
for name, count in zip(("train", "validate", "test"), counts):
    made(count).to_netcdf(name + ".nc")
`;

const CHECK = `
import json, sys
import numpy as np, xarray as xr
data, both = xr.open_dataset("test.nc"), np.load("both.npz")
truth = np.stack([data.amplitude.values, data.slope.values], 1)[both["id"]]
error = both["prediction"] - truth
within = lambda n: (np.abs(error) <= n * both["std"]).mean(0)
rmse = lambda e: np.sqrt((e ** 2).mean())
alone = np.mean([rmse(both["members"][:, member] - truth) for member in range(2)])
json.dump({
    "masked": float(np.isnan(data.kappa.values).mean()),
    "truth": int((both["target"] == truth).all()),
    "one": within(1).tolist(),
    "two": within(2).tolist(),
    "gain": float(alone / rmse(error)),
}, sys.stdout)
`;

export const cosmology: Case = {
  promise: "parameters from masked maps have uncertainties that hold: 68% of the truths lie within 1 sigma",
  async run(cwd, size) {
    const { data, flags, batch, r2 } = SIZES[size];
    await python(["-c", MAPS, ...data], cwd);
    const files = ["--data-path", "train.nc", "--validation-path", "validate.nc", "--test-path", "test.nc"];
    const columns = ["--features", "kappa", "--targets", "amplitude,slope", "--mask-channel"];
    // In smaller batches, batch norm's noise is in the errors that sigma learns, and not in those of a test.
    const model = ["--model", "cosmo-cnn", "--loss", "crps", "--batch-size", batch, "--lr", "2e-2"];
    const seen = ["--normalise", "measured", "--flip", "both", "--rotate"];
    const quiet = [
      "--device",
      "cpu",
      "--no-wandb",
      "--quiet",
      ...(size === "small" ? ["--threads", "1"] : []),
    ];
    for (const seed of SEEDS) {
      const run = ["--seed", String(seed), "--run-name", `seed${seed}`];
      await succeed([...files, ...columns, ...model, ...seen, ...flags, ...quiet, ...run], {
        cwd,
        timeout: 7200,
      });
    }
    const checkpoints = SEEDS.map((seed) => `checkpoints/seed${seed}_latest.pt`);
    const test = ["--on", "test"];
    const { stdout } = await succeed(["eval", ...checkpoints, ...test, "--json"], { cwd });
    const { metrics } = JSON.parse(stdout);
    await succeed(["predict", ...checkpoints, ...test, "--members", "--out", "both.npz"], { cwd });
    const found = JSON.parse(await python(["-c", CHECK], cwd));
    const share = (all: number[]) => all.reduce((sum, one) => sum + one, 0) / all.length;
    const about = (apart: number) => ({ atLeast: NORMAL - apart, atMost: NORMAL + apart });
    return [
      { what: "share of the maps' points that is missing", value: found.masked, atLeast: 0.1 },
      { what: "the targets in the file are the data's", value: found.truth, atLeast: 1 },
      ...["amplitude", "slope"].flatMap((name, i) => [
        { what: `R2 of ${name}`, value: metrics[`r2/${name}`], atLeast: r2 },
        { what: `share of ${name} within 1 sigma`, value: found.one[i], ...about(0.08) },
        { what: `share of ${name} within 2 sigma`, value: found.two[i], atLeast: 0.904 },
      ]),
      { what: "share of all parameters within 1 sigma", value: share(found.one), ...about(0.05) },
      {
        what: "share within 1 sigma by numpy less eval's",
        value: Math.abs(share(found.one) - metrics.within_1_sigma),
        atMost: 1e-3,
      },
      { what: "mean error of a member over that of both", value: found.gain, atLeast: 1 },
    ];
  },
};
