// Columns of predictions as variables of a grid's file: channels, units, deviations, masks and classes, as xarray reads them.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import type { PredictionColumn } from "../../../core/predict/columns.ts";
import type { GridJob } from "../../../core/predict/fields.ts";
import { writeGrid } from "../../../core/predict/grid.ts";
import type { Grid, GridTarget } from "../../../core/data/arrays/grid.ts";
import { python } from "../checkpoint/python.ts";
import { inTemp } from "../../integration/program.ts";

const range = (count: number, from = 0) => Array.from({ length: count }, (_, i) => from + i);
const sized = (shape: readonly number[]) => shape.reduce((product, size) => product * size, 1);

const column = (
  name: string,
  shape: readonly number[],
  values: readonly number[],
  whole = false,
): PredictionColumn => ({
  name,
  shape,
  dtype: whole ? "i32" : "f32",
  read: (from, count) =>
    new (whole ? Int32Array : Float32Array)(
      values.slice(from * sized(shape.slice(1)), (from + count) * sized(shape.slice(1))),
    ),
});

const target = (
  name: string,
  dimensions: string[],
  shape: number[],
  more: Partial<GridTarget> = {},
): GridTarget => ({
  ...{ name, dimensions, shape, dtype: "f32", attributes: new Map() },
  ...more,
});

const job = (
  targets: readonly GridTarget[],
  more: Partial<GridJob> & { coordinates?: Grid["coordinates"] } = {},
): GridJob => {
  const sizes = new Map(
    targets.flatMap(({ dimensions, shape }) => dimensions.map((name, i) => [name, shape[i]])),
  );
  const dimensions = [...sizes].map(([name, size]) => ({ name, size }));
  const grid = { dimensions, pointwise: false, leads: [0], targets, coordinates: more.coordinates ?? [] };
  return {
    grid,
    units: undefined,
    classes: null,
    parts: { count: 1, point: 0 },
    masked: true,
    ignored: null,
    checkpoint: "c.pt",
    ...more,
  };
};

const LOOK = `
import sys, warnings, json, numpy as np, xarray as xr
warnings.simplefilter("error")
a = xr.open_dataset(sys.argv[1] + "/numbers.nc")
n = np.arange(2 * 26, dtype="f4").reshape(2, 26)
assert list(a.id.values) == [1, 4] and a.p.dims == ("time", "level", "y", "x"), a
scale = lambda v, k: v * (k + 2) + k
np.testing.assert_allclose(a.p.values, np.stack([scale(n[:, 0:6], 0), scale(n[:, 6:12], 1)], 1).reshape(2, 2, 2, 3))
q = scale(n[:, 12:18], 2).reshape(2, 2, 3)
t = a.q_target.values
assert np.isnan(t[0, 0, 1]) and np.isnan(a.q.values[0, 0, 1]) and np.isnan(t).sum() == 1 == np.isnan(a.q.values).sum()
np.testing.assert_allclose(np.nan_to_num(a.q.values), np.where(np.isnan(t), 0, q))
assert a.q.encoding["_FillValue"] == np.float32(1e20) and a.q.attrs["units"] == "K" and "scale_factor" not in a.q.encoding
np.testing.assert_allclose(a.q_std.values, np.where(np.isnan(t), np.nan, n[:, 12:18].reshape(2, 2, 3) / 100 * 4), rtol=1e-6)
assert a.q_members.dims == ("time", "member", "y", "x") and a.p_members.dims == ("time", "member", "level", "y", "x")
np.testing.assert_allclose(a.q_members.values[:, 1], np.where(np.isnan(t), np.nan, scale(n[:, 12:18] + 100, 2).reshape(2, 2, 3)))
assert a.q_std.attrs["standard_name"] == "air_temperature standard_error" and a.q.attrs["ancillary_variables"] == "q_std"
assert a.lat.dims == ("y", "x") and a.lat.dtype == "i4" and int(a.lat[1, 2]) == 5 and a.far.dtype == "f8"
b = xr.open_dataset(sys.argv[1] + "/images.nc")
np.testing.assert_array_equal(b.rgb.values, np.arange(2 * 2 * 5 * 6, dtype="f4").reshape(2, 2, 5, 6).transpose(0, 2, 3, 1))
c = xr.open_dataset(sys.argv[1] + "/classes.nc", mask_and_scale=False)
assert c.kind.dtype == "i1" and c.kind.attrs["flag_meanings"] == "open_water first_year class_2", c.kind.attrs
assert c.kind.attrs["flag_values"].tolist() == [0, 1, 2] and c.kind.attrs["_FillValue"] == -1
assert c.kind.values.tolist() == [[0, -1, 2], [-1, 1, 0]] and c.kind_target.values.tolist() == [[1, -1, 2], [-1, 1, 1]]
shares = c.kind_probability
assert shares.dims == ("time", "class", "x") and c["class"].attrs["flag_meanings"] == c.kind.attrs["flag_meanings"]
want = np.arange(18.0).reshape(2, 3, 3)
want[0, :, 1] = want[1, :, 0] = np.nan
np.testing.assert_array_equal(shares.values, want)
d = xr.open_dataset(sys.argv[1] + "/times.nc")
assert [str(t)[:10] for t in d.time.values] == ["1999-12-02", "1999-12-05"] and d.p.dims == ("time",) and "id" not in d
assert xr.open_dataset(sys.argv[1] + "/numbers.nc", engine="scipy").equals(a)
days = lambda times: np.datetime_as_string(times, "D").tolist()
e = xr.open_dataset(sys.argv[1] + "/leads.nc")
assert e.p.dims == ("forecast_reference_time", "lead", "x") and e.p.coords["lead"].values.tolist() == [1, 3]
assert days(e.forecast_reference_time.values) == ["1999-12-02", "1999-12-05"] and e.p.valid_time.dims == e.p.dims[:2]
assert days(e.p.valid_time.values[0]) == ["1999-12-03", "1999-12-05"] and e.p.values.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
f = xr.open_dataset(sys.argv[1] + "/later.nc")
assert days(f.time.values) == ["1999-12-03", "1999-12-06"] and f.p.dims == ("time", "x") and f.p_quantile.dims == ("time", "quantile", "x")
assert f["quantile"].values.tolist() == [0.1, 0.5, 0.9] and f.p.values.tolist() == [[2, 3], [8, 9]]
assert f.p_quantile.values.tolist() == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
g = xr.open_dataset(sys.argv[1] + "/beyond.nc")
assert days(g.time.values) == ["1999-12-03", "1999-12-06"] and g.p.dims == ("time", "x") and "valid_time" not in g
h = xr.open_dataset(sys.argv[1] + "/points.nc")
assert h.p.dims == ("forecast_reference_time", "lead", "x") and days(h.forecast_reference_time.values) == ["1999-12-01", "1999-12-03"]
np.testing.assert_array_equal(h.p.values, [[[np.nan, 0], [np.nan, 1]], [[2, np.nan], [3, np.nan]]])
`;

Deno.test("channels, several targets, units, deviations, masks, images and classes lie where xarray looks for them", () =>
  inTemp((folder) => {
    const write = (name: string, columns: PredictionColumn[], job: GridJob) => {
      const written = writeGrid(join(folder, name), columns, job, "hpctrain predict");
      assert(written !== null, name);
    };
    const ids = column("id", [2], [1, 4], true);
    const p = target("p", ["time", "level", "y", "x"], [5, 2, 2, 3]);
    const packed = new Map<string, string | number[]>([
      ["units", "K"],
      ["standard_name", "air_temperature"],
      ["scale_factor", [0.5]],
      ["_FillValue", [1e20]],
    ]);
    const q = target("q", ["time", "y", "x"], [5, 2, 3], { attributes: packed });
    const known = range(36).map((i) => i === 13 ? NaN : i);
    const means = range(2).flatMap((i) => range(18, i * 26)), deviations = means.map((mean) => mean / 100);
    const members = range(2).flatMap((i) => [...range(18, i * 26), ...range(18, 100 + i * 26)]);
    const coordinates = [
      {
        role: "auxiliary",
        name: "lat",
        dimensions: ["y", "x"],
        shape: [2, 3],
        dtype: "i64",
        values: BigInt64Array.from(range(6), BigInt),
        attributes: new Map(),
      },
      {
        role: "auxiliary",
        name: "far",
        dimensions: [],
        shape: [],
        dtype: "u64",
        values: BigUint64Array.of(1n << 40n),
        attributes: new Map(),
      },
    ] as const;
    write(
      "numbers.nc",
      [
        ids,
        column("prediction", [2, 3, 2, 3], means),
        column("std", [2, 3, 2, 3], deviations),
        column("members", [2, 2, 3, 2, 3], members),
        column("target", [2, 3, 2, 3], known),
      ],
      job([p, q], {
        units: { mean: [0, 1, 2], std: [2, 3, 4] },
        coordinates,
      }),
    );
    const rgb = target("rgb", ["time", "y", "x", "c"], [9, 5, 6, 2]);
    write("images.nc", [ids, column("prediction", [2, 2, 5, 6], range(120))], job([rgb]));
    const kind = target("kind", ["time", "x"], [9, 3], { dtype: "i32" });
    const classes = ["open water", "first year", ""];
    write("classes.nc", [
      ids,
      column("label", [2, 1, 3], [0, 1, 2, 2, 1, 0], true),
      column("target", [2, 3], [1, 9, 2, NaN, 1, 1]),
      column("probabilities", [2, 3, 1, 3], range(18)),
    ], job([kind], { classes, ignored: 9 }));
    const time = {
      role: "coordinate",
      name: "time",
      dimensions: ["time"],
      shape: [5],
      dtype: "i16",
      values: Int16Array.from(range(5)),
      attributes: new Map([["units", "days since 1999-12-01"]]),
    } as const;
    write(
      "times.nc",
      [ids, column("prediction", [2, 1], [3, 4])],
      job([target("p", ["time"], [5])], { coordinates: [time] }),
    );
    const lines = target("p", ["time", "x"], [8, 2]);
    const forecast = (leads: number[], size = 8) => {
      const coordinates = [{ ...time, shape: [size], values: Int16Array.from(range(size)) }];
      const { grid } = job([{ ...lines, shape: [size, 2] }], { coordinates });
      return { ...job([lines]), grid: { ...grid, leads } };
    };
    write("leads.nc", [ids, column("prediction", [2, 4], range(8))], forecast([1, 3]));
    const quantiles = { count: 3, point: 1, quantiles: [0.1, 0.5, 0.9] };
    write("later.nc", [ids, column("prediction", [2, 6], range(12))], { ...forecast([1]), parts: quantiles });
    write("beyond.nc", [ids, column("prediction", [2, 2], range(4))], forecast([1], 5));
    const apart = forecast([1, 2]);
    write("points.nc", [column("id", [2], [1, 4], true), column("prediction", [2, 2], range(4))], {
      ...apart,
      grid: { ...apart.grid, pointwise: true },
    });
    python(LOOK, folder);
    const other = [ids, column("prediction", [2, 4], range(8))];
    assertEquals(writeGrid(join(folder, "none.nc"), other, job([q]), ""), null); // what the model gives is no such map
  }));
