// Downscaling four times with orography as fine as the target: trained on patches, predicted whole, better than
// bilinear interpolation, and without seams.
import { join } from "paths";
import { ROOT, succeed } from "../integration/program.ts";
import { type Case, python } from "./case.ts";

/** Days and rows of the coarse grid, the training, and its least skill. */
const SIZES = {
  small: {
    data: ["48", "12"],
    training: [
      "--width",
      "16",
      "--patch",
      "8",
      "--patches-per-sample",
      "6",
      "--epochs",
      "9",
      "--batch-size",
      "8",
      "--lr",
      "3e-2",
    ],
    patch: "8",
    skill: 0.25,
  },
  full: {
    data: ["365", "48"],
    training: [
      "--width",
      "32",
      "--patch",
      "24",
      "--patches-per-sample",
      "4",
      "--epochs",
      "20",
      "--batch-size",
      "16",
      "--lr",
      "1e-2",
    ],
    patch: "24",
    skill: 0.6,
  },
};

/** Seams are where a patch begins or ends, on the fine grid. */
const CHECK = `
import json, sys, warnings
warnings.simplefilter("error")
import numpy as np, torch, xarray as xr
patch, k = int(sys.argv[1]), 4
forecast, data = xr.open_dataset("fine.nc"), xr.open_dataset("climate.nc")
data = data.sel(time=forecast.time)
got, truth = forecast.fine.values, data.fine.values
coarse = torch.from_numpy(data.temperature.values)[:, None]
bilinear = torch.nn.functional.interpolate(coarse, scale_factor=k, mode="bilinear", align_corners=False)[:, 0].numpy()
rmse = lambda a: float(np.sqrt(((a - truth) ** 2).mean()))
def seams(side):
    step = int(patch * 0.75)
    count = -(-(side - patch) // step) + 1
    begins = [int(i * (side - patch) / (count - 1) + 0.5) for i in range(count)]
    places = {k * at for begin in begins for at in (begin, begin + patch)} - {0, k * side}
    return sorted(place - 1 for place in places)
jumps = lambda a, axis: abs(np.diff(a, axis=axis))
over = lambda a: np.concatenate([
    np.take(jumps(a, axis), seams(a.shape[axis] // k), axis).ravel() for axis in (1, 2)])
anywhere = lambda a: np.concatenate([jumps(a, axis).ravel() for axis in (1, 2)])
between = lambda a: np.concatenate([np.take(jumps(a, axis), range(k - 1, a.shape[axis] - 1, k), axis).ravel() for axis in (1, 2)])
error = got - truth
json.dump({
    "rmse": rmse(got), "skill": 1 - rmse(got) / rmse(bilinear),
    "jump": float(over(got).max() / anywhere(truth).max()),
    "rough": float(np.sqrt((over(error) ** 2).mean() / (between(error) ** 2).mean())),
    "grid": int(list(forecast.fine.dims) == ["time", "lat", "lon"] and forecast.fine.attrs["units"] == "degC"
        and (forecast.lat.values == data.lat.values).all() and (forecast.lon.values == data.lon.values).all()),
}, sys.stdout)
`;

export const downscaling: Case = {
  promise:
    "downscaling four times with fine orography, on patches, beats bilinear interpolation and has no seams",
  async run(cwd, size) {
    const { data, training, patch, skill } = SIZES[size];
    await python([join(ROOT, "examples/python/downscaling.py"), "climate.nc", ...data], cwd);
    const common = [
      "--data-path",
      "climate.nc",
      "--features",
      "temperature,wind,orography",
      "--targets",
      "fine",
    ];
    const model = [
      "--model",
      "unet",
      "--depth",
      "1",
      "--padding",
      "replicate",
      "--normalise",
      "measured",
    ];
    const quiet = ["--split", "time", "--run-name", "fine", "--device", "cpu", "--no-wandb", "--quiet"];
    const threads = size === "small" ? ["--threads", "1"] : [];
    await succeed([...common, ...model, ...training, ...quiet, ...threads], { cwd, timeout: 7200 });
    const evaluated = await succeed(["eval", "checkpoints/fine_best.pt", "--json"], { cwd });
    await succeed(["predict", "checkpoints/fine_best.pt", "--out", "fine.nc"], { cwd });
    const seen = JSON.parse(await python(["-c", CHECK, patch], cwd));
    return [
      { what: "skill over bilinear interpolation", value: seen.skill, atLeast: skill },
      { what: "largest jump over a seam, to the field's own largest jump", value: seen.jump, atMost: 1 },
      {
        what: "the error's jumps over seams, to those between any coarse cells",
        value: seen.rough,
        atMost: 1.1,
      },
      { what: "dimensions, units and coordinates are the fine grid's", value: seen.grid, atLeast: 1 },
      {
        what: "RMSE by xarray less eval's",
        value: Math.abs(seen.rmse - JSON.parse(evaluated.stdout).metrics.rmse),
        atMost: 1e-4,
      },
    ];
  },
};
