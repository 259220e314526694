// Classic NetCDF read a sample at a time: the numbers that memory has, which are those of netCDF4 and scipy.
import { assert, assertEquals } from "@std/assert";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder } from "../../../checkpoint/python.ts";
import { range } from "../../tables/help.ts";
import { alike, layouts, numbers, open, refusedReading, written } from "../../streamed.ts";

useLibtorch();

/** Of a type each: rows of 3, maps of 2 x 3, numbers; all of them records, or none. */
const writer = (format: string, records: boolean) => `
import netCDF4
types = ["i1", "i2", "i4", "f4", "f8"] + (["u1", "u2", "u4", "i8", "u8"] if "5" in "${format}" or "64BIT_DATA" in "${format}" else [])
with netCDF4.Dataset("${format}${records}.nc", "w", format="${format}") as d:
    d.createDimension("s", ${records ? "None" : "9"}); d.createDimension("c", 3); d.createDimension("h", 2)
    for t in types:
        v = d.createVariable("row_" + t, t, ("s", "c")); v[:] = (np.abs(r.normal(size=(9, 3))) * 40).astype(t)
        v = d.createVariable("map_" + t, t, ("s", "h", "c")); v[:] = (np.abs(r.normal(size=(9, 2, 3))) * 40).astype(t)
        v = d.createVariable("one_" + t, t, ("s",)); v[:] = (np.abs(r.normal(size=9)) * 40).astype(t)
    y = d.createVariable("y", "f8", ("s",)); y[:] = np.arange(9) * 0.5
print(json.dumps(types))`;

for (const format of ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]) {
  for (const records of [false, true]) {
    Deno.test(
      `${format}: every type${records ? ", in records" : ""}`,
      inFolder(async (folder) => {
        const types = written(folder, writer(format, records)) as string[];
        const path = `${folder}/${format}${records}.nc`;
        const names = (kind: string) => types.map((type) => `${kind}_${type}`);
        for (
          const features of [
            [...names("row"), ...names("one")],
            names("map"),
            ...names("row").map((name) => [name]),
          ]
        ) {
          const { train } = await alike(path, {
            data: { features, targets: ["y"] },
            model: { name: "cosmo-cnn" },
          });
          assertEquals(layouts(train), features.map(() => "file"));
        }
      }),
    );
  }
}

Deno.test(
  "scipy's files: one variable has the records to itself, and the points of a grid are samples",
  inFolder(async (folder) => {
    const expected = written(
      folder,
      `
from scipy.io import netcdf_file
def make(name, rows, **variables):
    with netcdf_file(name, "w") as f:
        f.createDimension("t", rows); f.createDimension("x", 3); f.createDimension("y", 5)
        for key, (values, dims) in variables.items(): f.createVariable(key, values.dtype.char, dims)[:] = values
a = (r.normal(size=(8, 3)) * 9).astype("i2"); y = np.arange(8.0)
make("alone.nc", None, a=(a, ("t", "x"))); make("fixed.nc", 8, a=(a, ("t", "x")), y=(y, ("t",)))
grid = lambda: (r.normal(size=(8, 3, 5)).astype("f4"), ("t", "x", "y"))
make("grid.nc", None, u=grid(), v=grid(), w=grid())
print(json.dumps(a.tolist()))`,
    );
    const fixed = await alike(`${folder}/fixed.nc`);
    assertEquals(numbers(fixed.train)[0], [...fixed.train.indices!].flatMap((row) => expected[row]));
    const { train } = await alike(`${folder}/grid.nc`);
    assertEquals([train.length + 30, train.input.shape], [120, [2]]);
  }),
);

Deno.test(
  "scaled values, fills and other bad ones; a file that becomes shorter",
  inFolder(async (folder) => {
    written(
      folder,
      `
import netCDF4
with netCDF4.Dataset("a.nc", "w", format="NETCDF3_CLASSIC") as d:
    d.createDimension("s", None); d.createDimension("c", 4000)
    x = d.createVariable("x", "i2", ("s", "c"), fill_value=-1); x.scale_factor = 0.25; x.add_offset = -3; x.set_auto_maskandscale(False)
    v = r.integers(0, 999, (20, 4000)); v[11, 5] = -1; x[:] = v
    y = d.createVariable("y", "f4", ("s",)); y[:] = np.arange(20)`,
    );
    const path = `${folder}/a.nc`, data = { val_samples: 0, features: ["x"], targets: ["y"] };
    const { train } = await open(path, "no", { data });
    const held = await open(path, "yes", { data: { ...data, bad_samples: "skip" } });
    assertEquals(numbers(train, range(0, 11)), numbers(held.train, range(0, 11)));
    const sentence = refusedReading(train, [11]);
    assert(/^Sample 11 \(.*a\.nc\) has 1 missing values? of "x"/.test(sentence), sentence);
    Deno.truncateSync(path, 100_000);
    assert(refusedReading(train, [19]).includes("became shorter while it was being read"));
  }),
);
