// Climatologies, anomalies and fills: what xarray computes of the same training samples, in memory and streamed.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { openNearest } from "../../../../core/data/source/pipeline.ts";
import type { Source } from "../../../../core/data/source/source.ts";
import type { Config } from "../../../../core/settings/settings.ts";
import { tensor, toNumbers } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { numbers, open as openIn, written } from "../streamed.ts";
import { range } from "./help.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();

/** Four years of months with land, holes, and a point that one January lacks in training; five years of days. */
const WRITE = `
import pandas as pd, xarray as xr
time = pd.date_range("2000-01-15", periods=48, freq="31D")
season = 10 * np.sin(time.month.values / 2)[:, None, None]
def field(): return (season + r.normal(size=(48, 4, 5))).astype("f4")
wind, ice = field(), field() + 280
for a in (wind, ice): a[:, 0, :2] = np.nan; a[r.random(a.shape) < 0.1] = np.nan
ice[:, 3, 4] = np.where(time.month == 1, np.nan, ice[:, 3, 4])
ds = xr.Dataset({"wind": (("time", "y", "x"), wind), "ice": (("time", "y", "x"), ice)}, coords={"time": time})
ds.to_netcdf("maps.nc", encoding={n: {"chunksizes": (4, 4, 5), "zlib": True} for n in ("wind", "ice")})
days = pd.date_range("2000-01-01", "2004-12-31")
heat = xr.DataArray(r.normal(size=(len(days), 3)).astype("f4"), dims=("time", "x"), coords={"time": days}, name="heat")
heat.to_netcdf("daily.nc")
H, LEADS = 2, (1, 2)
def bases(years): return [t for t in range(H - 1, 48 - max(LEADS)) if all(time.year[k] in years for k in range(t - H + 1, t + max(LEADS) + 1))]
train, val = bases((2000, 2001, 2002)), bases((2003, 2004))
seen = sorted({t + k for t in train for k in (*range(1 - H, 1), *LEADS)})
def climate(da, rows, key):
    part = da.isel(time=rows).astype("f8")
    mean = part.groupby(key).mean("time").astype("f4")
    return mean.fillna(part.mean("time").astype("f4"))
def spread(da, mean, key): return mean.sel(month=da.time.dt.month).transpose("time", ...).values if key == "time.month" else None
clim = {n: spread(ds[n], climate(ds[n], seen, "time.month"), "time.month") for n in ("wind", "ice")}
table = climate(ds.ice, seen, "time.month").reindex(month=range(1, 13))
table = table.fillna(ds.ice.isel(time=seen).astype("f8").mean("time").astype("f4")).values.astype("f8")
standard = lambda a: np.nan_to_num((a - np.nanmean(table)) / np.nanstd(table))
def windows(rows, **fields): return np.stack([np.concatenate([fields[n][t - H + 1 + k][None] for k in range(H) for n in ("wind", "ice")]) for t in rows])
later = lambda rows, a: np.stack([np.stack([a[t + k] for k in LEADS]) for t in rows])
anomaly = {n: ds[n].values - clim[n] for n in clim}
filled = {n: np.nan_to_num(np.where(np.isnan(ds[n]), clim[n], ds[n])) for n in clim}
listed = lambda a: [None if np.isnan(x) else float(x) for x in np.ravel(a)]
day = climate(heat, range(731), heat.time.dt.strftime("%m-%d").isel(time=range(731)))
first = heat.values[731:900] - np.stack([day.sel(strftime=d.strftime("%m-%d")).values for d in days[731:900]])
print(json.dumps(dict(train=train, val=val, plain=listed(windows(val, **filled)), apart=listed(np.nan_to_num(windows(val, **anomaly))), target=listed(later(val, anomaly["ice"])),
    own=listed(later(val, ds.ice.values)), channels=listed(standard(later(val, clim["ice"]))), mixed=listed(np.nan_to_num(windows(val, wind=filled["wind"], ice=anomaly["ice"]))), days=listed(first))))
`;

type Listed = (number | null)[];

const near = (ours: readonly number[], theirs: Listed, what: string) => {
  assertEquals(ours.length, theirs.length, what);
  theirs.forEach((value, i) => {
    if (value === null) assert(Number.isNaN(ours[i]), `${what}: ${i} is ${ours[i]}`);
    else assertAlmostEquals(ours[i], value, 1e-4, `${what} at ${i}`);
  });
};

const restored = (source: Source, values: readonly number[], parts?: boolean[]) =>
  scope(() => {
    const shape = [
      source.length,
      source.target.shape[0] * (parts?.length ?? 1),
      ...source.target.shape.slice(1),
    ];
    const ids = range(0, source.length);
    return [...toNumbers(source.restore!(tensor(Float32Array.from(values), shape), ids, parts))];
  });

Deno.test(
  "anomalies, fills and channels of the climatology are xarray's over the training samples, in memory and streamed",
  inFolder(async (folder) => {
    const all = written(folder, WRITE) as Record<string, Listed>;
    const MAPS = {
      ...{ features: ["wind", "ice"], targets: ["ice"], history: 2, lead: "1,2" },
      ...{ validate_on: "2003..", normalise: "none" as const },
    };
    const opened = (data: Partial<Config["data"]>, name = "maps.nc") =>
      openIn(`${folder}/${name}`, data.in_memory ?? "yes", {
        model: { name: "unet" },
        data: { ...MAPS, ...data },
      });
    for (const in_memory of ["yes", "no"] as const) {
      const filled = await opened({ in_memory, fill: ["climatology"] });
      assertEquals([[...filled.train.indices!], [...filled.val!.indices!]], [all.train, all.val]);
      near(numbers(filled.val!)[0], all.plain, `filled ${in_memory}`);
      near(numbers(filled.val!)[1], all.own, "targets keep their gaps");
      assertSentence("core/data/tables/climatology: climatology wind ice", filled.notes.join("\n"));

      const apart = await opened({ in_memory, anomaly: ["wind", "ice"] });
      const [inputs, targets] = numbers(apart.val!);
      near(inputs, all.apart, `anomalies ${in_memory}`);
      near(targets, all.target, "anomalies of the target");
      near(restored(apart.val!, targets), all.own, "the target's own units");
      const twice = restored(apart.val!, range(0, 2 * targets.length).map(() => 0), [true, false]);
      const each = targets.length / apart.val!.length;
      assert(
        twice.every((value, i) => Math.floor(i / each) % 2 === 0 || value === 0),
        "a variance is not shifted",
      );

      const mixed = await opened({ in_memory, anomaly: ["ice"], fill: ["climatology"], mask_channel: true });
      const own = all.apart.length / all.val.length, wide = own + 20;
      near(numbers(mixed.val!)[0].filter((_, i) => i % wide < own), all.mixed, "an anomaly is filled with 0");

      const shown = await opened({ in_memory, climatology_channel: true, fill: ["climatology"] });
      assertEquals(shown.val!.input.shape, [6, 4, 5]);
      assertEquals(shown.train.facts.input.shape, [6, 4, 5]);
      near(numbers(shown.val!)[0].filter((_, i) => i % 120 >= 80), all.channels, "standardised");
    }
    // The run's own is taken where it is known, and days have means of their own.
    const { climatology } = await opened({ anomaly: ["ice"] });
    assertEquals([climatology!.seasons, climatology!.means.ice.shape], ["month", [12, 1, 1, 4, 5]]);
    const days = {
      features: ["heat"],
      targets: ["heat"],
      history: 1,
      anomaly: ["heat"],
      lead: "1",
      in_memory: "yes" as const,
    };
    const daily = await openIn(`${folder}/daily.nc`, "yes", {
      data: { ...days, validate_on: "2002..", val_samples: 9_000_000 },
    });
    assertEquals(daily.climatology!.seasons, "day");
    near(numbers(daily.val!)[0].slice(0, 3 * 160), all.days.slice(0, 3 * 160), "days");

    const refused = async (data: Partial<Config["data"]>) =>
      (await assertRejects(() => opened(data), UserError)).message;
    assertSentence("core/data/tables/climatology: anomaly names snow", await refused({ anomaly: ["snow"] }));
    assertMatch(await refused({ anomaly: ["ice"], flip: "both" }), /can't be cropped, resized, flipped/);
    assertMatch(await refused({ anomaly: ["ice"], fill: ["nearest"] }), /use --fill climatology/);
  }),
);

Deno.test(
  "--fill nearest takes the nearest point that is there, as scipy's distances say, and the mask knows which",
  inFolder(async (folder) => {
    const [holes, distances] = written(
      folder,
      `
import netCDF4 as nc
from scipy.ndimage import distance_transform_edt as edt
a = r.normal(size=(6, 2, 9, 13)).astype("f4"); a[r.random(a.shape) < 0.7] = np.nan; a[0, 0] = np.nan; a[1] = 1.5 + np.arange(9 * 13).reshape(9, 13)
a[:, :, :, 3:6] = np.nan
with nc.Dataset("maps.nc", "w") as d:
    for n, s in zip(("time", "c", "y", "x"), a.shape): d.createDimension(n, s)
    d.createVariable("a", "f4", ("time", "c", "y", "x"))[:] = a; d.createVariable("b", "f4", ("time",))[:] = range(6)
dist = np.stack([[edt(np.isnan(m)) ** 2 if (~np.isnan(m)).any() else 0 * np.nan_to_num(m) for m in s] for s in a])
listed = lambda a: [None if np.isnan(x) else float(x) for x in np.ravel(a)]
print(json.dumps([listed(a), listed(dist)]))`,
    ) as [Listed, number[]];
    const [height, width] = [9, 13], map = height * width;
    for (const in_memory of ["yes", "no"] as const) {
      for (const mask_channel of [false, true]) {
        const data = { targets: ["b"], fill: ["nearest"], val_samples: 0, mask_channel };
        const { train } = await openIn(`${folder}/maps.nc`, in_memory, {
          model: { name: "cosmo-cnn" },
          data,
        });
        const channels = mask_channel ? 3 : 2, [found] = numbers(train);
        assertEquals(train.input.shape, [channels, height, width]);
        found.forEach((value, i) => {
          const sample = Math.floor(i / map / channels),
            channel = Math.floor(i / map) % channels,
            at = i % map;
          const from = (sample * 2 + channel) * map, own = holes.slice(from, from + map);
          if (channel === 2) {
            const there = [0, 1].every((c) => holes[(sample * 2 + c) * map + at] !== null);
            return assertEquals(value, Number(there));
          }
          if (own.every((one) => one === null)) return assertEquals(value, 0);
          const place = own.indexOf(value);
          const apart = (Math.floor(place / width) - Math.floor(at / width)) ** 2 +
            (place % width - at % width) ** 2;
          assertAlmostEquals(apart, distances[from + at], 1e-9, `${in_memory}, ${sample} ${channel} ${at}`);
        });
      }
    }
    const line = Float32Array.of(NaN, 1, NaN, NaN, NaN, 5, NaN);
    openNearest({ shape: [1, 7], mask: false })(line);
    assertEquals([...line].filter((_, i) => i !== 3), [1, 1, 1, 5, 5, 5]);
  }),
);
