// Predictions on the grid: what xarray opens is what xarray itself would have written of the data.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { python } from "../core/checkpoint/python.ts";
import { writtenBy } from "../core/data/formats/written.ts";
import { mpich } from "../mpi.ts";
import { launch } from "./launches.ts";
import { inTemp, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

/** Monthly fields without leap days on a grid that is turned: places are 2-D, and the target is packed. */
const ICE = `
import os, sys, numpy as np, xarray as xr
os.chdir(sys.argv[1])
r = np.random.default_rng(0)
def field(shape, **attributes): return (("time", "y", "x"), r.normal(size=shape).astype("f4"), attributes)
def ice(path, steps, begin, with_ice, format):
    shape = (steps, 8, 16)
    time = xr.date_range(begin, periods=steps + 1, freq="MS", calendar="noleap", use_cftime=True)
    ds = xr.Dataset({"t2m": field(shape, units="K", standard_name="air_temperature"), "u10": field(shape, units="m s-1")},
        coords={
            "time": ("time", time[:-1], {"standard_name": "time", "axis": "T", "bounds": "time_bnds"}),
            "y": ("y", np.arange(8) * 25e3, {"units": "m", "standard_name": "projection_y_coordinate"}),
            "x": ("x", np.arange(16) * 25e3, {"units": "m", "standard_name": "projection_x_coordinate"}),
            "lat": (("y", "x"), r.uniform(60, 90, shape[1:]), {"units": "degrees_north", "standard_name": "latitude"}),
            "lon": (("y", "x"), r.uniform(0, 360, shape[1:]), {"units": "degrees_east", "standard_name": "longitude"}),
            "crs": ((), 0, {"grid_mapping_name": "polar_stereographic", "standard_parallel": 70.0, "semi_major_axis": 6378273.0,
                "straight_vertical_longitude_from_pole": 0.0, "latitude_of_projection_origin": 90.0}),
        })
    ds["time_bnds"] = (("time", "bnds"), np.stack([time[:-1], time[1:]], 1))
    for name in ("time", "time_bnds"): ds[name].encoding = {"units": "days since 1979-01-01", "calendar": "noleap", "dtype": "int64"}
    if with_ice:
        land = (ds.y > 150e3) & (ds.x < 60e3)
        ds["sic"] = (50 * ds.t2m + 5 * ds.u10).where(~land)
        ds.sic.attrs = {"units": "%", "standard_name": "sea_ice_area_fraction", "long_name": "sea ice", "cell_methods": "time: mean"}
        ds.sic.encoding = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 20.0, "_FillValue": -32768, "grid_mapping": "crs"}
    ds.to_netcdf(path, format=format, encoding={n: {"_FillValue": None} for n in ("y", "x", "lat", "lon", "crs")})
ice("ice.nc", 20, "1990-01-01", True, "NETCDF4"); ice("next.nc", 6, "2001-02-01", False, "NETCDF3_CLASSIC")
`;

const LOOK = `
import os, sys, json, warnings, numpy as np, xarray as xr
warnings.simplefilter("error")
os.chdir(sys.argv[1])
coordinates = ("time", "y", "x", "lat", "lon")
def same(path, data, ids):
    got, ref = xr.open_dataset(path), xr.open_dataset(data).isel(time=ids)
    for name in coordinates:
        xr.testing.assert_identical(got[name].drop_vars("crs", errors="ignore"), ref[name].drop_vars("crs", errors="ignore"))
    xr.testing.assert_identical(got.time_bnds.variable, ref.time_bnds.variable)
    for key in ("units", "calendar"): assert got.time.encoding[key] == ref.time.encoding[key]
    assert got.sic.dims == ("time", "y", "x") and got.sic.dtype == "f4"
    xr.testing.assert_equal(xr.open_dataset(path, engine="scipy"), got)
    assert got.attrs["Conventions"] == "CF-1.8" and "r_latest.pt" in got.attrs["source"]
    assert np.isnan(got.sic.encoding["_FillValue"])
    return got, ref
z = np.load("val.npz")
got, ref = same("val.nc", "ice.nc", z["id"])
np.testing.assert_array_equal(got.sic.values, np.where(np.isnan(ref.sic), np.nan, z["prediction"][:, 0]))
assert np.isnan(got.sic).sum() == len(got.time) * 3
assert sorted(got.data_vars) == ["crs", "sic", "sic_target", "time_bnds"], sorted(got.data_vars)
assert got.crs.attrs == ref.crs.attrs and got.sic.attrs["grid_mapping"] == "crs"
xr.testing.assert_equal(got.sic_target.drop_vars("crs", errors="ignore"), ref.sic.astype("f4").drop_vars("crs", errors="ignore"))
assert got.sic.attrs == ref.sic.attrs == got.sic_target.attrs, got.sic.attrs
assert 0 < len(got.time) < 20 and (np.diff(got.time.values) > type(got.time.values[1] - got.time.values[0])(0)).all()
whole = xr.open_dataset("all.nc")
assert len(whole.time) == 20 and whole.split.attrs["flag_meanings"] == "train validation test"
np.testing.assert_array_equal(whole.time[whole.split == 1], got.time)
got, _ = same("next_p.nc", "next.nc", slice(None))
assert got.sic.attrs["units"] == "%" and got.sic.attrs["long_name"] == "sea ice" # of data without it
assert "sic_target" not in got and not np.isnan(got.sic).any()
`;

const TRAIN = ["--device=cpu", "--threads=1", "--epochs=1", "--batch-size=4", "--run-name=r", "--no-wandb"];

/** The bytes, but for the line that names the command and the time. */
const withoutHistory = (path: string) =>
  new TextDecoder("latin1").decode(Deno.readFileSync(path)).replace(/\d{4}-\d\d-\d\dT[^\0]*/, "");

Deno.test("xarray finds the data's coordinates, bounds, places, calendar and attributes beside the predictions, by one rank or two", () =>
  inTemp(async (cwd) => {
    python(ICE, cwd);
    const data = ["--data-path=ice.nc", "--features=t2m,u10", "--targets=sic", "--validation-split=0.3"];
    await succeed(["train", ...TRAIN, ...data, "--model=unet", "--hidden-size=4"], { cwd });
    const predict = ["predict", "checkpoints/r_latest.pt", "--threads=1"]; // threads decide the last bits
    const { stdout } = await succeed([...predict, "--out=val.nc"], { cwd });
    assertSentence("integration/predict_grid: wrote sic time", stdout);
    await succeed([...predict, "--out=val.npz"], { cwd });
    await succeed([...predict, "--all", "--out=all.nc"], { cwd });
    await succeed([...predict, "--data-path=next.nc", "--no-targets", "--out=next_p.nc"], { cwd });
    python(LOOK, cwd);
    assertEquals(cfFaults(cwd, "val.nc", "all.nc", "next_p.nc"), []);
    await succeed([...predict, "--out=val.zarr"], { cwd });
    writtenBy(cwd, SAME);
    const two = await launch(cwd, mpich(), ["-n", "2", "--", ...predict, "--out=two.nc"]).result;
    assertEquals(two.code, 0, two.stderr);
    assert(withoutHistory(join(cwd, "two.nc")) === withoutHistory(join(cwd, "val.nc")), "the same bytes");
  }));

/** What compliance-checker finds against the requirements of CF 1.8. */
const CF = `
import warnings
from compliance_checker.runner import CheckSuite
warnings.simplefilter("ignore")
CheckSuite.load_all_available_checkers()
suite, faults = CheckSuite(), []
for file in FILES:
    [(groups, errors)] = suite.run_all(suite.load_dataset(file), ["cf:1.8"]).values()
    assert len(groups) > 20 and not errors, errors
    for group in groups:
        if group.weight == 3 and isinstance(group.value, tuple) and group.value[0] < group.value[1]:
            faults += [f"{file}: {group.name}: {message}" for message in group.msgs]
print(json.dumps(faults))
`;

/** A Zarr store has the same as the file. */
const SAME = `
import xarray as xr
file, store = xr.open_dataset("val.nc"), xr.open_zarr("val.zarr").load()
for one in (file, store): del one.attrs["history"]
xr.testing.assert_identical(file, store)
for name in file.variables:
    for key in ("units", "calendar", "_FillValue", "coordinates", "grid_mapping"):
        a, b = (one[name].encoding.get(key) for one in (file, store))
        assert str(a) == str(b), (name, key, a, b)
`;

const cfFaults = (folder: string, ...files: string[]): string[] =>
  writtenBy(folder, CF.replace("FILES", JSON.stringify(files)));

const POINTS = `
import os, sys, numpy as np, xarray as xr
os.chdir(sys.argv[1])
r = np.random.default_rng(0)
a = r.normal(size=(9, 5, 7)).astype("f4"); a[:, 1, 2:4] = np.nan
ds = xr.Dataset({"a": (("time", "lat", "lon"), a), "b": (("time", "lat", "lon"), 2 * a, {"units": "m"})},
    coords={"time": np.arange("2000-01-01", "2000-01-10", dtype="M8[D]"), "lat": np.arange(5.0), "lon": np.arange(7.0)})
for name, standard, units in (("time", "time", None), ("lat", "latitude", "degrees_north"), ("lon", "longitude", "degrees_east")):
    ds[name].attrs = {"standard_name": standard, **({"units": units} if units else {})}
for name in ("a", "b"): ds[name].attrs = {"units": "m", "long_name": name}
for name in ("a", "b"): ds[name].encoding["_FillValue"] = np.float32(-999)
ds.to_netcdf("points.nc", format="NETCDF3_64BIT")
`;

const POINTS_LOOK = `
import os, sys, warnings, numpy as np, xarray as xr
warnings.simplefilter("error")
os.chdir(sys.argv[1])
got, ref, z = xr.open_dataset("p.nc"), xr.open_dataset("points.nc"), np.load("p.npz")
forecast = ("forecast_reference_time", "lead", "lat", "lon")
assert got.b.dims == forecast and got.lead.values.tolist() == [1, 2] and got.valid_time.dims == forecast[:2] and "time" not in got
assert np.datetime_as_string(got.forecast_reference_time.values, "D").tolist() == ["2000-01-01", "2000-01-02", "2000-01-03", "2000-01-04", "2000-01-07"]
want = np.full((9, 2, 5 * 7), np.nan, "f4")
for id, row in zip(z["id"], z["prediction"]): want[id // 35, :, id % 35] = row
np.testing.assert_array_equal(got.b.values, want[[0, 1, 2, 3, 6]].reshape(5, 2, 5, 7))
truth = ref.b.sel(time=got.valid_time)
np.testing.assert_array_equal(got.b_target.values, truth.values)
assert got.b.encoding["_FillValue"] == -999 and np.isnan(got.b[:, :, 1, 2:4]).all()
now = xr.open_dataset("now.nc")
assert now.b.dims == forecast and len(now.forecast_reference_time) == 9 and now.b.attrs == ref.b.attrs
# Nobody has the last targets, and yet their times are known.
assert (now.valid_time.values == now.forecast_reference_time.values[:, None] + np.arange(1, 3) * np.timedelta64(1, "D")).all()
now = now.sel(forecast_reference_time=got.forecast_reference_time)
np.testing.assert_allclose(now.b.values, got.b.values, rtol=1e-5, atol=1e-6)
test = xr.open_dataset("test.nc")
same = dict(forecast_reference_time=test.forecast_reference_time)
xr.testing.assert_allclose(test.b, got.b.sel(same))
for name in ("b", "b_target", "split"): assert ("valid_time" in got[name].encoding.get("coordinates", "")) == (name != "split"), name
assert len(test.forecast_reference_time) == 1 and (got.split.sel(same) == 2).sum() == 33 and (got.split == 0).sum() == 4 * 33
`;

Deno.test("a forecast for points is a map of them at each lead, in which land is missing, and goes on after the last time", () =>
  inTemp(async (cwd) => {
    python(POINTS, cwd);
    const data = [
      "--data-path=points.nc",
      "--features=a",
      "--targets=b",
      "--lead=1,2",
      "--val-samples=0",
      "--test-on=2000-01-07..",
    ];
    await succeed(["train", ...TRAIN, ...data, "--model=mlp"], { cwd });
    const predict = ["predict", "checkpoints/r_latest.pt", "--all"];
    await succeed([...predict, "--out=p.nc"], { cwd });
    await succeed([...predict, "--out=p.npz"], { cwd });
    Deno.copyFileSync(join(cwd, "points.nc"), join(cwd, "same.nc"));
    await succeed([...predict, "--data-path=same.nc", "--no-targets", "--out=now.nc"], { cwd });
    await succeed([...predict.slice(0, 2), "--on=test", "--out=test.nc"], { cwd });
    python(POINTS_LOOK, cwd);
    assertEquals(cfFaults(cwd, "p.nc", "now.nc", "test.nc"), []);
  }));
