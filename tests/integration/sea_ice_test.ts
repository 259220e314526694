// The forecast of docs/guides/sea-ice.md, on fewer years: better than persistence and climatology, and back on its grid.
import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { peer } from "../peer.ts";
import { inTemp, ROOT, run } from "./program.ts";

const YEARS = 25;
const TRAINING = [
  ...[
    "--data-path",
    "ice/*.nc",
    "--features",
    "ice",
    "--targets",
    "ice",
    "--history",
    "12",
    "--lead",
    "1..3",
  ],
  ...[
    "--validate-on",
    "1998..1999",
    "--test-on",
    "2000..",
    "--model",
    "unet",
    "--depth",
    "2",
    "--width",
    "8",
  ],
  ...["--mask-channel", "--batch-size", "16", "--lr", "3e-3", "--epochs", "40", "--run-name", "ice"],
  ...["--threads", "1", "--device", "cpu", "--no-wandb", "--quiet"],
];

const CHECK = `
import glob, json, sys, warnings
warnings.simplefilter("error")
import numpy as np, xarray as xr
forecast = xr.open_dataset("forecast.nc")
data = xr.concat([xr.open_dataset(file) for file in sorted(glob.glob("ice/*.nc"))], "time", data_vars="minimal")
steps = data.get_index("time").get_indexer(forecast.get_index("time"))
truth = np.stack([data.ice.values[steps + lead] for lead in forecast.lead.values], 1)
rmse = float(np.sqrt(np.nanmean((forecast.ice.values - truth) ** 2, (0, 2, 3))).mean())
json.dump({
    "dimensions": list(forecast.ice.dims),
    "truth": bool(np.allclose(forecast.ice_target.values, truth, equal_nan=True)),
    "land": bool((np.isnan(forecast.ice.values) == np.isnan(truth)).all()),
    "calendar": forecast.time.encoding["calendar"],
    "years": sorted({int(t.year) for t in forecast.time.values.tolist()}),
    "rmse": rmse,
    "unit": forecast.ice.attrs["units"],
}, sys.stdout)
`;

async function python(args: string[], cwd: string): Promise<string> {
  const { success, stdout, stderr } = await peer(args, { cwd, stdin: "null" }).output();
  assert(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

Deno.test("a forecast of made sea ice beats persistence and climatology on years that it never saw", () =>
  inTemp(async (cwd) => {
    await python([join(ROOT, "examples/python/sea_ice.py"), "ice", String(YEARS), "24"], cwd);
    const trained = await run(TRAINING, { cwd });
    assertEquals(trained.code, 0, trained.stderr);
    const evaluated = await run(["eval", "checkpoints/ice_best.pt", "--on", "test", "--json"], { cwd });
    assertEquals(evaluated.code, 0, evaluated.stderr);
    const { metrics } = JSON.parse(evaluated.stdout);
    assert(metrics.skill_persistence > 0.2, evaluated.stdout);
    assert(metrics.skill_climatology > 0.05, evaluated.stdout);
    const args = ["predict", "checkpoints/ice_best.pt", "--on", "test", "--out", "forecast.nc"];
    const predicted = await run(args, { cwd });
    assertEquals(predicted.code, 0, predicted.stderr);
    const seen = JSON.parse(await python(["-c", CHECK], cwd));
    assertEquals(seen.dimensions, ["time", "lead", "y", "x"]);
    assertEquals([seen.truth, seen.land, seen.calendar, seen.unit], [true, true, "noleap", "1"]);
    assert(seen.years[0] >= 2000, seen.years.join());
    assert(Math.abs(seen.rmse - metrics.rmse) < 1e-4, `${seen.rmse} against ${metrics.rmse}`);
  }));
