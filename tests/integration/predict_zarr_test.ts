// Predictions as a Zarr store: xarray opens what it would have written of the data itself, beside the same as NetCDF.
import { assertEquals, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../core/base/errors.ts";
import { checkOut, writePredictions } from "../../core/predict/file.ts";
import { writtenBy } from "../core/data/formats/written.ts";
import { inTemp, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

/** Maps of 120 x 240 take more than a quarter of a chunk; places are 2-D, one coordinate is packed. */
const DATA = `
import xarray as xr
dims, shape = ("time", "y", "x"), (10, 120, 240)
a = r.normal(size=shape).astype("f4")
b = 2 * a + 1
b[:, :20, :30] = np.nan
ds = xr.Dataset({
    "a": (dims, a, {"units": "K"}),
    "b": (dims, b, {"units": "%", "standard_name": "sea_ice_area_fraction", "long_name": "ice", "cell_methods": "time: mean", "grid_mapping": "crs"}),
}, coords={
    "time": ("time", np.arange("2000-01-01", "2000-01-11", dtype="M8[D]").astype("M8[ns]"), {"standard_name": "time", "axis": "T"}),
    "y": ("y", np.arange(120) * 25e3, {"units": "m", "standard_name": "projection_y_coordinate"}),
    "x": ("x", np.arange(240) * 25e3, {"units": "m", "standard_name": "projection_x_coordinate"}),
    "lat": (("y", "x"), r.uniform(60, 90, shape[1:]), {"units": "degrees_north", "standard_name": "latitude"}),
    "lon": (("y", "x"), r.uniform(0, 360, shape[1:]), {"units": "degrees_east", "standard_name": "longitude"}),
    "crs": ((), np.int32(0), {"grid_mapping_name": "polar_stereographic", "standard_parallel": 70.0}),
})
ds.time.encoding = {"units": "days since 1979-01-01", "calendar": "standard", "dtype": "int32"}
ds.to_zarr("data.zarr", zarr_format=3)
`;

const LOOK = `
import warnings, xarray as xr, zarr
warnings.simplefilter("error")
data, z = xr.open_zarr("data.zarr"), np.load("p.npz")
kept = data.isel(time=z["id"])
b, truth = z["prediction"][:, 0], z["target"][:, 0]
ref = kept.drop_vars(["a", "b"]).assign(
    b=(("time", "y", "x"), np.where(np.isnan(truth), np.float32(np.nan), b), kept.b.attrs),
    b_target=(("time", "y", "x"), truth, kept.b.attrs))
about = {k: dict(v.encoding) for k, v in kept.variables.items()}
for v in ref.variables.values(): v.encoding = {}
ref.time.encoding = {k: about["time"][k] for k in ("units", "calendar", "dtype")}
for name in ("b", "b_target"): ref[name].encoding = {"_FillValue": np.float32(np.nan), "chunks": (2, 120, 240), "grid_mapping": "crs"}
for name in ("y", "x"): ref[name].encoding = {"_FillValue": None}
for name in ("b", "b_target"): ref[name].attrs.pop("grid_mapping", None)
ref.to_zarr("ref.zarr", zarr_format=2, consolidated=True)
got, ref = xr.open_zarr("p.zarr"), xr.open_zarr("ref.zarr")
xr.testing.assert_identical(got.drop_attrs(deep=False).drop_vars([]), ref.drop_attrs(deep=False))
for name in ref.variables:
    ours, theirs = got[name].encoding, ref[name].encoding
    for key in ("units", "calendar", "dtype", "grid_mapping"): assert ours.get(key) == theirs.get(key), (name, key, ours, theirs)
    assert np.array_equal(ours.get("_FillValue", 0), theirs.get("_FillValue", 0), equal_nan=True), (name, ours, theirs)
assert got.b.encoding["chunks"] == (2, 120, 240), got.b.encoding
assert got.attrs["Conventions"] == "CF-1.8" and "r_latest.pt" in got.attrs["source"]
group = zarr.open_group("p.zarr", mode="r")
assert group.metadata.zarr_format == 2 and sorted(group.array_keys()) == sorted(ref.variables)
columns = xr.open_zarr("columns.zarr")
assert columns.label.encoding["chunks"] == (32768, 2) and columns.label.dtype == "i4"
np.testing.assert_array_equal(columns.label.values, np.arange(140_000).reshape(-1, 2))
print("null")
`;

Deno.test("xarray opens a Zarr store of predictions as the one that it writes itself: values, coordinates, attributes, fill, times and chunks", () =>
  inTemp(async (cwd) => {
    writtenBy(cwd, DATA);
    const quick = [
      "--device=cpu",
      "--threads=1",
      "--no-wandb",
      "--max-steps=2",
      "--batch-size=2",
      "--run-name=r",
    ];
    const data = ["--data-path=data.zarr", "--features=a", "--targets=b", "--validation-split=0.5"];
    await succeed([...quick, ...data, "--model=unet", "--depth=1", "--width=2"], { cwd });
    const predict = ["predict", "checkpoints/r_latest.pt", "--threads=1"];
    const { stdout } = await succeed([...predict, "--out=p.zarr"], { cwd });
    assertSentence("integration/predict_zarr: wrote time b_target", stdout);
    await succeed([...predict, "--out=p.npz"], { cwd });
    const values = Int32Array.from({ length: 70_000 * 2 }, (_, i) => i);
    const read = (from: number, count: number) => values.slice(2 * from, 2 * (from + count));
    writePredictions(
      join(cwd, "columns.zarr"),
      [{ name: "label", dtype: "i32", shape: [70_000, 2], read }],
      "predict",
    );
    writtenBy(cwd, LOOK);
    assertEquals([...Deno.readDirSync(cwd)].filter(({ name }) => name.startsWith(".p.zarr")), []);
    assertThrows(() => checkOut(join(cwd, "p.zarr")), UserError, "p.zarr exists already");
  }));
