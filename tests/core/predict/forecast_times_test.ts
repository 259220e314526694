// The times of forecasts that go on behind the data's last one, as xarray reads them.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import type { Grid, GridCoordinate } from "../../../core/data/arrays/grid.ts";
import type { PredictionColumn } from "../../../core/predict/columns.ts";
import { writeGrid } from "../../../core/predict/grid.ts";
import { writtenBy } from "../data/formats/written.ts";
import { inTemp } from "../../integration/program.ts";

const MONTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** Days of the starts of months in a calendar without leap days. */
const starts = (count: number) => {
  const found = [0];
  for (let i = 0; i < count; i++) found.push(found[i] + MONTHS[i % 12]);
  return found;
};

const times = (values: readonly number[], more: Record<string, string> = {}): GridCoordinate => ({
  ...{ role: "coordinate", name: "time", dimensions: ["time"], shape: [values.length], dtype: "i32" },
  values: Int32Array.from(values),
  attributes: new Map(
    Object.entries({ units: "days since 2000-01-01", standard_name: "time", axis: "T", ...more }),
  ),
});

/** It writes zeros for these samples. */
function write(
  path: string,
  leads: readonly number[],
  seen: readonly number[],
  coordinates: readonly GridCoordinate[],
) {
  const [{ shape: [size] }] = coordinates, width = 2;
  const target = {
    name: "p",
    dimensions: ["time", "x"],
    shape: [size, width],
    dtype: "f32",
    attributes: new Map(),
  } as const;
  const dimensions = [{ name: "time", size }, { name: "x", size: width }];
  const grid: Grid = { dimensions, pointwise: false, leads, targets: [target], coordinates };
  const columns: PredictionColumn[] = [
    {
      name: "id",
      dtype: "i32",
      shape: [seen.length],
      read: (from, count) => Int32Array.from(seen.slice(from, from + count)),
    },
    {
      name: "prediction",
      dtype: "f32",
      shape: [seen.length, leads.length * width],
      read: (_, count) => new Float32Array(count * leads.length * width),
    },
  ];
  const about = {
    units: undefined,
    classes: null,
    parts: { count: 1, point: 0 },
    masked: true,
    ignored: null,
  };
  assert(writeGrid(path, columns, { grid, ...about, checkpoint: "c.pt" }, "predict") !== null, path);
}

const LOOK = `
import warnings, xarray as xr
warnings.simplefilter("error")
show = lambda times: [str(t)[:10] for t in times.values.ravel()]
found = {}
for name in sorted(os.listdir(".")):
    d = xr.open_zarr(name) if name.endswith(".zarr") else xr.open_dataset(name)
    found[name] = {"dims": list(d.p.dims), "coords": sorted(d.p.coords), **{
        n: [list(d[n].dims), show(d[n])] for n in ("time", "forecast_reference_time", "valid_time", "time_bnds") if n in d.variables}}
print(json.dumps(found))
`;

Deno.test("times go on behind the data's last one: months on their own days, with bounds, over no gap, and never as a dimension beside the reference", () =>
  inTemp((folder) => {
    const path = (name: string) => join(folder, name), months = starts(15), noleap = { calendar: "noleap" };
    const bounds: GridCoordinate = {
      ...{ role: "bounds", name: "time_bnds", dimensions: ["time", "bnds"], shape: [14, 2], dtype: "i32" },
      values: Int32Array.from(months.slice(0, 14).flatMap((day, i) => [day, months[i + 1]])),
      attributes: new Map(),
    };
    const season: GridCoordinate = {
      ...times(months.slice(0, 14)),
      role: "auxiliary",
      name: "season",
      attributes: new Map(),
    };
    const monthly = times(months.slice(0, 14), { ...noleap, bounds: "time_bnds" });
    write(path("one.nc"), [2], [11, 13], [monthly, bounds, season]);
    write(path("several.nc"), [1, 2], [11, 13], [monthly, bounds, season]);
    write(path("several.zarr"), [1, 2], [11, 13], [monthly, bounds, season]);
    // 2000 has a leap day, and months end on days of their own.
    const ends = starts(13).slice(1).map((day, i) => i === 0 ? day - 1 : day);
    write(path("ends.nc"), [1, 2, 3], [12], [times(ends)]);
    const year = starts(12).slice(1).map((day) => day - 1);
    write(path("leap.nc"), [1, 2], [11], [times(year, { units: "days since 2003-01-01" })]);
    write(path("gap.nc"), [1, 3], [4, 6], [times([0, 1, 2, 3, 4, 8, 9])]);
    write(path("alone.nc"), [1], [0], [times([7])]);
    const found = writtenBy(folder, LOOK);
    assertEquals(found["one.nc"], {
      dims: ["time", "x"],
      coords: ["time"],
      time: [["time"], ["2001-02-01", "2001-04-01"]],
      time_bnds: [["time", "bnds"], ["2001-02-01", "2001-03-01", "2001-04-01", "2001-05-01"]],
    });
    const reference = "forecast_reference_time", both = [reference, "lead"];
    const several = {
      dims: [reference, "lead", "x"],
      coords: [reference, "lead", "season", "valid_time"].sort(),
      [reference]: [[reference], ["2000-12-01", "2001-02-01"]],
      valid_time: [both, ["2001-01-01", "2001-02-01", "2001-03-01", "2001-04-01"]],
    };
    assertEquals(found["several.nc"], several);
    assertEquals(found["several.zarr"], several);
    assertEquals(found["ends.nc"].valid_time, [both, ["2001-02-28", "2001-03-31", "2001-04-30"]]);
    assertEquals(found["leap.nc"].valid_time, [both, ["2004-01-31", "2004-02-29"]]);
    assertEquals(found["gap.nc"].valid_time, [both, [
      "2000-01-06",
      "2000-01-08",
      "2000-01-11",
      "2000-01-13",
    ]]);
    // Nobody knows the step of a single time.
    assertEquals(found["alone.nc"], {
      dims: [reference, "lead", "x"],
      coords: [reference, "lead"],
      [reference]: [[reference], ["2000-01-08"]],
    });
  }));
