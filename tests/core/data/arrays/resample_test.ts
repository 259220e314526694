// --resample and --coarsen: xarray's means over the points that are there, of one file and of many, with their
// coordinates.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import type { Config } from "../../../../core/settings/settings.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { numbers, open as openIn, written } from "../streamed.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();

/** Half-daily fields over three months, packed, with land and holes; a file a month, each with its own scale. */
const WRITE = `
import os, pandas as pd, xarray as xr
time = pd.date_range("2001-01-01", "2001-03-31T12", freq="12h")
t = (280 + 10 * r.standard_normal((len(time), 5, 8))).astype("f4"); t[:, 0, :3] = np.nan; t[r.random(t.shape) < 0.2] = np.nan
ds = xr.Dataset({"t": (("time", "lat", "lon"), t), "rain": (("time", "lat", "lon"), r.random(t.shape).astype("f4"))},
    coords={"time": time, "lat": np.linspace(60, 80, 5), "lon": np.arange(8) * 45.0})
ds["land"] = (("lat", "lon"), r.random((5, 8)).astype("f4"))
ds["time_bnds"] = (("time", "bnds"), np.stack([time, time + pd.Timedelta("12h")], 1)); ds.time.attrs["bounds"] = "time_bnds"
def save(part, path, scale): part.to_netcdf(path, encoding={"t": dict(dtype="i2", scale_factor=scale, add_offset=280.0, _FillValue=-32768, zlib=True, chunksizes=(7, 5, 8)), "time": dict(units="hours since 2000-01-01")})
save(ds, "one.nc", 0.01); os.mkdir("months")
for m, scale in ((1, 0.01), (2, 0.02), (3, 0.005)): save(ds.sel(time=f"2001-0{m}"), f"months/{m}.nc", scale)
listed = lambda a: [None if np.isnan(x) else float(x) for x in np.ravel(a)]
one, many = xr.open_dataset("one.nc"), xr.concat([xr.open_dataset(f"months/{m}.nc") for m in (1, 2, 3)], "time", data_vars="minimal")
def stack(d): return np.stack([d.t.values, d.rain.values], 1)
cut = dict(lat=2, lon=3)
print(json.dumps(dict(
    month=listed(stack(one.resample(time="MS").mean())), months=listed(stack(many.resample(time="MS").mean())), day=listed(stack(one.resample(time="D").mean())),
    coarse=listed(stack(one.coarsen(**cut, boundary="trim").mean())), three=listed(stack(one.coarsen(time=7, boundary="trim").mean())),
    land=listed(one.land.coarsen(**cut, boundary="trim").mean()), lat=listed(one.lat.coarsen(lat=2, boundary="trim").mean()),
    lon=listed(one.lon.coarsen(lon=3, boundary="trim").mean()), hours=[float((x - np.datetime64("2000-01-01")) / np.timedelta64(1, "h")) for x in one.resample(time="MS").mean().time.values])))
`;

type Listed = (number | null)[];

const near = (ours: ArrayLike<number>, theirs: Listed, what: string) => {
  assertEquals(ours.length, theirs.length, what);
  theirs.forEach((value, i) => {
    if (value === null) assert(Number.isNaN(ours[i]), `${what}: ${i} is ${ours[i]}`);
    else assertAlmostEquals(ours[i], value, 2e-4, `${what} at ${i}`);
  });
};

Deno.test(
  "means over months, days, steps and places are xarray's, of packed values with gaps, and so are the coordinates",
  inFolder(async (folder) => {
    const all = written(folder, WRITE) as Record<string, Listed>;
    const opened = (path: string, data: Partial<Config["data"]>, name = "unet") =>
      openIn(`${folder}/${path}`, "yes", {
        model: { name },
        data: {
          features: ["t", "rain"],
          targets: ["rain"],
          lead: "1",
          val_samples: 0,
          fill: ["none"],
          ...data,
        },
      });
    const inputs = async (path: string, data: Partial<Config["data"]>) =>
      numbers((await opened(path, data)).train)[0];
    /** The last step has no next one. */
    const but = (values: Listed, row: number) => values.slice(0, values.length - row);
    near(await inputs("one.nc", { resample: "time=month" }), but(all.month, 80), "months");
    near(await inputs("months", { resample: "time=month" }), but(all.months, 80), "months of files");
    near(await inputs("one.nc", { resample: "time=day" }), but(all.day, 80), "days");
    near(await inputs("one.nc", { resample: "time=7" }), but(all.three, 80), "steps");
    const coarse = await opened("one.nc", { coarsen: ["lat=2", "lon=3"], features: ["t", "rain"] });
    assertEquals(coarse.train.input.shape, [2, 2, 2]);
    near(numbers(coarse.train)[0], but(all.coarse, 8), "places");
    assertMatch(
      coarse.notes.join("\n"),
      /The last 1 of 5 places of lat are left out.*\n?.*last 2 of 8 places of lon/,
    );
    const still = await opened("one.nc", { coarsen: ["lat=2", "lon=3"], features: ["rain", "land"] });
    near(numbers(still.train, [0])[0].slice(4), all.land, "a static field");
    const grid = still.train.grid!()!;
    const values = (name: string) =>
      grid.coordinates.find((one) => one.name === name)!.values as Float64Array;
    near(values("lat"), all.lat, "latitudes");
    near(values("lon"), all.lon, "longitudes");
    assertEquals(still.train.variable!("land")!.shape, [2, 2], "weights of points are cut alike");
    const monthly = (await opened("one.nc", { resample: "time=month", coarsen: ["lat=2", "lon=3"] })).train
      .grid!()!;
    near(
      monthly.coordinates.find(({ name }) => name === "time")!.values as Float64Array,
      all.hours,
      "beginnings",
    );
    assert(monthly.coordinates.every(({ name }) => name !== "time_bnds"));
    // Points of land are no samples, and years of the new time divide.
    const points = await opened("one.nc", {
      resample: "time=month",
      features: ["t"],
      lead: "",
      test_on: "2001-03",
    }, "mlp");
    assertEquals([points.train.length, points.test!.length], [2 * (40 - 3), 40 - 3]);
    // Across 0 the middle of 315, 0 and 45 is 0.
    const around = await opened("one.nc", { sel: ["lon=315..45"], coarsen: ["lon=3"] });
    assertEquals([
      ...around.train.grid!()!.coordinates.find(({ name }) => name === "lon")!.values as Float64Array,
    ], [360]);

    const refused = async (data: Partial<Config["data"]>, path = "one.nc") =>
      (await assertRejects(() => opened(path, data), UserError)).message;
    assertMatch(
      await refused({ coarsen: ["lats=2"] }),
      /no dimension "lats" \(--coarsen\).*Did you mean "lat"/,
    );
    assertSentence("core/data/arrays/resample: write name such", await refused({ coarsen: ["lat=1"] }));
    assertMatch(await refused({ resample: "time=week" }), /write time=month, time=day or time=6/);
    assertMatch(await refused({ resample: "lat=month" }), /needs a time along lat/);
    assertMatch(await refused({ coarsen: ["lat=9"] }), /lat has 5 places, fewer than/);
  }),
);
