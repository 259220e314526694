// The forecast of docs/guides/sea-ice.md: better than persistence and climatology, and back on its grid.
import { join } from "paths";
import { ROOT, succeed } from "../integration/program.ts";
import { type Case, python } from "./case.ts";

/** Years of data, side of the grid, the training's flags, and the skills that it must have. */
const SIZES = {
  small: {
    data: ["25", "24"],
    flags: ["--lead", "1..3", "--validate-on", "1998..1999", "--test-on", "2000..", "--width", "8"],
    training: ["--lr", "3e-3", "--epochs", "40"],
    skill: { persistence: 0.2, climatology: 0.05 },
  },
  full: {
    data: ["35", "120"],
    flags: ["--lead", "1..6", "--validate-on", "2005..2008", "--test-on", "2009..", "--width", "16"],
    training: ["--lr", "3e-3", "--epochs", "40"],
    skill: { persistence: 0.2, climatology: 0.05 },
  },
};

const CHECK = `
import glob, json, sys, warnings
warnings.simplefilter("error")
import numpy as np, xarray as xr
forecast = xr.open_dataset("forecast.nc")
data = xr.concat([xr.open_dataset(file) for file in sorted(glob.glob("ice/*.nc"))], "time", data_vars="minimal")
steps = data.get_index("time").get_indexer(forecast.get_index("forecast_reference_time"))
truth = np.stack([data.ice.values[steps + lead] for lead in forecast.lead.values], 1)
json.dump({
    "grid": int(
        list(forecast.ice.dims) == ["forecast_reference_time", "lead", "y", "x"]
        and forecast.valid_time.encoding["calendar"] == "noleap"
        and forecast.ice.attrs["units"] == "1"
        and (forecast.y.values == data.y.values).all()
    ),
    "truth": int(np.allclose(forecast.ice_target.values, truth, equal_nan=True)),
    "land": int((np.isnan(forecast.ice.values) == np.isnan(truth)).all()),
    "first": min(t.year for t in forecast.forecast_reference_time.values.tolist()),
    "rmse": float(np.sqrt(np.nanmean((forecast.ice.values - truth) ** 2))),
}, sys.stdout)
`;

export const seaIce: Case = {
  promise: "a forecast of made sea ice beats persistence and climatology on years that it never saw",
  async run(cwd, size) {
    const { data, flags, training, skill } = SIZES[size];
    await python([join(ROOT, "examples/python/sea_ice.py"), "ice", ...data], cwd);
    const common = ["--data-path", "ice/*.nc", "--features", "ice", "--targets", "ice", "--history", "12"];
    const model = ["--model", "unet", "--depth", "2", "--mask-channel", "--batch-size", "16"];
    const quiet = ["--run-name", "ice", "--device", "cpu", "--no-wandb", "--quiet"];
    const threads = size === "small" ? ["--threads", "1"] : [];
    await succeed([...common, ...flags, ...model, ...training, ...quiet, ...threads], { cwd, timeout: 7200 });
    const evaluated = await succeed(["eval", "checkpoints/ice_best.pt", "--on", "test", "--json"], { cwd });
    const { metrics } = JSON.parse(evaluated.stdout);
    await succeed(["predict", "checkpoints/ice_best.pt", "--on", "test", "--out", "forecast.nc"], { cwd });
    const seen = JSON.parse(await python(["-c", CHECK], cwd));
    const firstTestYear = Number(flags[flags.indexOf("--test-on") + 1].replace("..", ""));
    return [
      { what: "skill over persistence", value: metrics.skill_persistence, atLeast: skill.persistence },
      { what: "skill over climatology", value: metrics.skill_climatology, atLeast: skill.climatology },
      { what: "dimensions, calendar, units and coordinates are the data's", value: seen.grid, atLeast: 1 },
      { what: "the targets in the file are the data's at each lead", value: seen.truth, atLeast: 1 },
      { what: "land is missing in the forecast, and nothing else", value: seen.land, atLeast: 1 },
      { what: "first year of the forecast", value: seen.first, atLeast: firstTestYear },
      {
        what: "RMSE by xarray less eval's",
        value: Math.abs(seen.rmse - metrics.rmse),
        atMost: 1e-4,
      },
    ];
  },
};
