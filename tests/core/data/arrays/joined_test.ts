// Many files as one data set: the numbers that netCDF4 and h5py read of each, one after the other, in memory
// and a sample at a time; and a sentence about every file that disagrees.
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { filesNamed } from "../../../../core/data/arrays/paths.ts";
import { withPreview } from "../../../../core/data/open/preview.ts";
import type { Preview } from "../../../../core/data/preview/preview.ts";
import { withColumns } from "../../../../commands/run/pack.ts";
import { netcdfReaders } from "../../../../core/data/formats/netcdf/netcdf.ts";
import { openReader } from "../../../../core/data/source/reader.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { alike, type Changes, layouts, numbers, open, written } from "../streamed.ts";
import { settings } from "../tables/help.ts";

const { netcdf } = netcdfReaders;

useLibtorch();

const MAPS = { model: { name: "unet" } } as const;

/** A function that writes a year, and one that reads all of a variable as netCDF4 does: floats, NaN if missing. */
const PYTHON = `
import netCDF4 as nc, glob
def year(path, times, *variables, units="days since 1979-01-01", calendar="standard", fmt="NETCDF4", lat=4, lats=None, record=True, raw=False, **of):
    with nc.Dataset(path, "w", format=fmt) as d:
        d.createDimension("time", None if record else len(times)); d.createDimension("lat", lat); d.createDimension("lon", 3)
        t = d.createVariable("time", "f8", ("time",)); t.units = units; t.calendar = calendar; t[:] = times; t.bounds = "time_bnds"
        d.createDimension("two", 2)
        d.createVariable("time_bnds", "f8", ("time", "two"))[:] = np.stack([np.asarray(times), np.asarray(times) + 1], 1)
        d.createVariable("lat", "f4", ("lat",))[:] = np.linspace(60, 90, lat) if lats is None else lats
        d.createVariable("lon", "f4", ("lon",))[:] = [0, 120, 240]
        for name, type, values, *more in variables:
            more = dict(more[0]) if more else {}
            chunks = more.pop("chunks", None)
            packed = dict(zlib=True, chunksizes=chunks) if chunks else {}
            v = d.createVariable(name, type, ("time", "lat", "lon"), fill_value=more.pop("_FillValue", None), **packed)
            v.set_auto_maskandscale(not raw)
            for k, a in more.items(): setattr(v, k, a)
            v[:] = values
def maps(n, scale=1.0, lat=4): return (r.standard_normal((n, lat, 3)) * scale).astype("f4")
def read(paths, name):
    def one(path):
        with nc.Dataset(path) as d:
            return np.ma.filled(d[name][:].astype("f8"), np.nan)
    return np.concatenate([one(p) for p in paths]).astype("f4")
def out(*parts): print(json.dumps([[None if np.isnan(x) else float(x) for x in part.reshape(-1)] for part in parts]))
`;

const write = (folder: string, code: string) => written(folder, PYTHON + code);

async function refused(path: string, changes: Changes = {}): Promise<string> {
  const error = await assertRejects(
    () => open(path, "yes", { ...MAPS, ...changes }),
    UserError,
    undefined,
    path,
  );
  return error.message;
}

/** All samples in the data's order. */
const every: Changes["data"] = { val_samples: 0, features: ["u"], targets: ["v"] };

for (const fmt of ["NETCDF4", "NETCDF3_64BIT_OFFSET"]) {
  Deno.test(
    `${fmt}: yearly files in any order of names, with time counted from each year, are one data set`,
    inFolder(async (folder) => {
      const expected = write(
        folder,
        `
fmt = "${fmt}"
files = []
# Names that sort wrongly, and a first file that is not the earliest.
for i, (name, first) in enumerate([("b10.nc", 1980), ("a2.nc", 1982), ("c.nc", 1979), ("a10.nc", 1981)]):
    n = 3 + i
    year(name, np.arange(n) * 30.0, ("u", "f4", maps(n)), ("v", "i2", maps(n, 10), dict(scale_factor=0.01 * (i + 1), add_offset=float(i))),
        ("w", "f8", maps(n)), ("k", "i4", maps(n, 100)), units=f"days since {first}-01-01", fmt=fmt)
    files.append((first, name))
paths = [name for _, name in sorted(files)]
units = "days since 1980-01-01"  # the first file's in the order of names
def times(path, name):
    with nc.Dataset(path) as d: return nc.date2num(nc.num2date(d[name][:], d["time"].units, "standard"), units, "standard")
out(*[read(paths, name) for name in "uvwk"], *[np.concatenate([times(p, n) for p in paths]) for n in ("time", "time_bnds")])`,
      );
      const [u, v, w, k, time, bounds] = expected as number[][];
      netcdf.table!(`${folder}/b10.nc,${folder}/a*.nc,${folder}/c.nc`, ({ columns }) => {
        const of = (name: string) => columns.find((column) => column.name === name)!;
        const values = (name: string) => [...new Float64Array((of(name).read() as Uint8Array).buffer)];
        assertEquals([values("time"), values("time_bnds")], [time, bounds]);
        assertEquals(of("time").units, "days since 1980-01-01");
      });
      for (
        const path of [
          folder,
          `${folder}/*.nc`,
          `${folder}/{a2,a10,c,b10}.nc`,
          `${folder}/a2.nc,${folder}/[b-c]*.nc,${folder}/a10.nc`,
        ]
      ) {
        for (const in_memory of ["yes", "no"] as const) {
          const { train } = await open(path, in_memory, { ...MAPS, data: every });
          assertEquals(numbers(train), [u, v], `${path} ${in_memory}`);
          const { train: other } = await open(path, in_memory, {
            ...MAPS,
            data: { ...every, features: ["v", "k"], targets: ["w"] },
          });
          const joined = Array.from(
            { length: 18 },
            (_, i) => [...v.slice(12 * i, 12 * i + 12), ...k.slice(12 * i, 12 * i + 12)],
          );
          assertEquals(numbers(other), [joined.flat(), w], `${path} ${in_memory}`);
        }
      }
      const streamed = await alike(`${folder}/*.nc`, {
        ...MAPS,
        data: { features: ["u", "v"], targets: ["w"] },
      });
      assertEquals(layouts(streamed.train), ["parts", "parts"]);
      // Points of a grid are samples of other models.
      await alike(folder, { data: { features: ["u", "v"], targets: ["w"] } });
    }),
  );
}

Deno.test(
  "files of other variables are merged, static ones come from the first, and archives and HDF5 go by the first axis",
  inFolder(async (folder) => {
    const expected = write(
      folder,
      `
import h5py
os.mkdir("nc"); os.mkdir("nc/u"); os.mkdir("nc/v"); os.mkdir("h5"); os.mkdir("npz"); os.mkdir("loop"); os.mkdir("loop/1990")
for k, n in enumerate((3, 5)): year(f"nc/u/{k}.nc", np.arange(n) + 3 * k, ("u", "f4", maps(n)))
# v has other years in its files, and is packed in chunks of several maps.
year("nc/v/all.nc", np.arange(8), ("v", "i2", maps(8, 50), dict(_FillValue=np.int16(-9), scale_factor=0.5, chunks=(3, 4, 3))))
with nc.Dataset("nc/static.nc", "w") as d:
    d.createDimension("lat", 4); d.createDimension("lon", 3)
    d.createVariable("land", "i1", ("lat", "lon"))[:] = np.eye(4, 3)
for k, n in enumerate((4, 2, 7)):
    name = f"{[2, 10, 9][k]}"
    x, y = r.standard_normal((n, 2, 3)).astype("f4"), r.standard_normal((n, 1))
    np.savez(f"npz/{name}.npz", x=x, y=y)
    with h5py.File(f"h5/{name}.h5", "w") as f:
        f.create_dataset("x", data=x, chunks=(2, 2, 3), compression="gzip"); f["y"] = y; f["scale"] = np.arange(2.0)
xs, ys = [np.concatenate([np.load(f"npz/{n}.npz")[k] for n in (2, 9, 10)]) for k in "xy"]
os.symlink("..", "loop/1990/again"); os.symlink(".", "loop/me")
year("loop/1990/b.nc", [9, 10], ("u", "f4", maps(2)), ("v", "f4", maps(2)))
year("loop/a.nc", [1, 2], ("u", "f4", maps(2)), ("v", "f4", maps(2)))
os.symlink("a.nc", "loop/latest.nc")
out(read(["nc/u/0.nc", "nc/u/1.nc"], "u"), read(["nc/v/all.nc"], "v"), xs, ys.astype("f4"), read(["loop/a.nc", "loop/1990/b.nc"], "u"))`,
    );
    const [u, v, x, y, loop] = expected as number[][];
    for (const in_memory of ["yes", "no"] as const) {
      const { train } = await open(`${folder}/nc`, in_memory, { ...MAPS, data: every });
      assertEquals(numbers(train), [u, v], `nc ${in_memory}`);
      const data = { val_samples: 0, features: ["x"], targets: ["y"] };
      for (const kind of ["npz", "h5"]) {
        const { train } = await open(`${folder}/${kind}`, in_memory, { data });
        assertEquals(numbers(train), [x, y], `${kind} ${in_memory}`);
      }
      const { train: once } = await open(`${folder}/loop`, in_memory, { ...MAPS, data: every });
      assertEquals(numbers(once)[0], loop);
      const { train: deep } = await open(`${folder}/loop/**/*.nc`, in_memory, { ...MAPS, data: every });
      assertEquals(numbers(deep)[0], loop);
    }
    const streamed = await alike(`${folder}/h5`, { data: { features: ["x"], targets: ["y"] } });
    const { groupOf, close } = openReader(streamed.train.threaded!.reader);
    // Rows of one chunk are one group, and no group goes over the end of a file.
    assertEquals(Array.from({ length: 13 }, (_, i) => groupOf!(i)), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 6]);
    close();
  }),
);

// The HDF5 library leaves a file open whose reading failed.
Deno.test({
  name: "a file that disagrees is named with what it disagrees in",
  sanitizeResources: false,
  fn: inFolder(async (folder) => {
    write(
      folder,
      `
def pair(name, first, second, more=None):
    os.mkdir(name)
    for path, of in (("1.nc", first), ("2.nc", second)):
        of = dict(of); times = of.pop("times"); variables = of.pop("variables", None)
        n, lat = len(times), of.get("lat", 4)
        year(f"{name}/{path}", times, *(variables or [("u", of.pop("u", "f4"), maps(n, 1, lat)), ("v", "f4", maps(n, 1, lat), of.pop("v", {}))]), **of)
a, b = dict(times=[0, 1]), dict(times=[2, 3])
pair("grid", a, dict(b, lats=[60, 70, 80, 91]))
pair("size", a, dict(b, lat=5))
pair("type", a, dict(b, u="f8"))
pair("units", dict(a, v=dict(units="K")), dict(b, v=dict(units="degC")))
pair("calendar", a, dict(b, calendar="noleap"))
pair("time", a, dict(b, units="years since 1979-01-01"))
pair("lacks", a, dict(b, variables=[("v", "f4", maps(2))]))
pair("overlaps", a, dict(times=[1, 2]))
pair("repeats", a, dict(times=[2, 2]))
pair("backwards", a, dict(times=[5, 4]))
pair("untimed", a, dict(times=[np.nan]))
pair("order", a, b)
for f in ("1.nc", "2.nc"):
    with nc.Dataset(f"order/{f}", "a") as d:
        d.createVariable("z", "f4", ("lat", "lon"))[:] = 1.0 if f == "1.nc" else 2.0
pair("cut", a, b)
year("cut/3.nc", [4, 5], ("u", "f4", maps(2)), ("v", "f4", maps(2)))
data = open("cut/2.nc", "rb").read(); open("cut/2.nc", "wb").write(data[:len(data) // 2])
pair("old", dict(a, fmt="NETCDF3_CLASSIC"), dict(b, fmt="NETCDF3_CLASSIC"))
data = open("old/2.nc", "rb").read(); open("old/2.nc", "wb").write(data[:-40])
pair("empty", a, dict(times=[]))
`,
    );
    const at = (name: string) => `${folder}/${name}`, data = { features: ["u"], targets: ["v"] };
    const expected: Record<string, RegExp> = {
      grid:
        /variable "u" lies on another grid in .*grid\/2.nc: the variable lat\[3\] is 91 there, and 90 in .*grid\/1.nc/,
      size: /variable "u" has the shape \[samples, 5, 3\] in .*2.nc, but \[samples, 4, 3\] in .*1.nc/,
      type: /"u" has numbers of the type f64 in .*2.nc, but f32 in .*1.nc/,
      units: /"v" has the units "degC" in .*2.nc, but "K" in .*1.nc/,
      calendar:
        /2.nc: the variable "time" has the units "days since 1979-01-01" in the calendar noleap, but in .*1.nc it has .* standard/,
      time: /2.nc: the variable "time" has the units "years since .*days/,
      lacks: /"u" is missing in .*lacks\/2.nc, which the other variables are in/,
      overlaps: /1.nc and .*2.nc both have the variable "u" for the time 1979-01-02/,
      repeats: /2.nc: the variable "time" repeats 1979-01-03 at index 1/,
      backwards: /2.nc: the variable "time" goes back to 1979-01-05 at index 1 .*after 1979-01-06/,
      untimed: /2.nc: the variable "time" has no number at index 0/,
      cut: /cut\/2.nc/,
      old: /old\/2.nc is truncated/,
    };
    for (const [name, sentence] of Object.entries(expected)) {
      assertMatch(await refused(at(name), { data }), sentence, name);
    }
    assertMatch(
      await refused(at("order"), { data: { features: ["z"], targets: ["v"] } }),
      /"z" is the same for all samples, but it has other values in .*order\/2.nc than in .*order\/1.nc/,
    );
    const { notes } = await open(at("empty"), "yes", { ...MAPS, data });
    assert(notes.some((note) => /Left aside, without samples: .*2.nc/.test(note)), notes.join("\n"));
  }),
});

Deno.test(
  "40 files of 100 steps: only some are open at once, and the path may be a folder, a glob or a list",
  inFolder(async (folder) => {
    const expected = write(
      folder,
      `
for i in range(40):
    year(f"{i}.nc", np.arange(100) + 100 * i, ("u", "f4", np.full((100, 4, 3), i, "f4") + np.arange(100)[:, None, None] / 128), ("v", "f4", maps(100)),
        fmt="NETCDF4" if i % 2 else "NETCDF3_CLASSIC")
out(read([f"{i}.nc" for i in range(40)], "u"))`,
    );
    const { train } = await open(folder, "no", { ...MAPS, data: every });
    assertEquals(train.length, 4000);
    const { read, close } = openReader(train.threaded!.reader);
    const target = new Uint8Array(48), files = () => [...Deno.readDirSync("/proc/self/fd")].length;
    const before = files();
    for (let i = 0; i < 4000; i++) {
      const row = (i * 1013) % 4000;
      const { data } = read(row, target, 0);
      assertEquals([...data as Float32Array], expected[0].slice(row * 12, row * 12 + 12));
    }
    assert(files() - before <= 48, `${files() - before} files are open`);
    close();
    assertEquals(files(), before);
  }),
);

Deno.test(
  "paths: what no file is called, several kinds, and kinds that are not joined are refused",
  inFolder(async (folder) => {
    for (const name of ["a.nc", "b.h5", "1.csv", "2.csv"]) {
      Deno.writeTextFileSync(`${folder}/${name}`, "x,y\n1,2\n");
    }
    assertMatch(await refused(`${folder}/*.nc4`), /No file is called .*\*.nc4/);
    assertMatch(await refused(`${folder}/a.nc,${folder}/none.nc`), /There is no .*none.nc/);
    assertMatch(await refused(`${folder}/?.*`), /names files of several kinds, .*1.csv and .*a.nc/);
    assertMatch(
      await refused(`${folder}/*.csv`),
      /names 2 files \(1.csv to 2.csv\), and csv data is one file/,
    );
    assertMatch(await refused(`${folder}/{a.nc`), /opens a brace/);
    assertMatch(await refused(`${folder}/*.nc`), /a.nc is no NetCDF file/);
    assertMatch(await refused(`${folder}/{a,b}.nc`), /There is no .*b.nc, which .*{a,b}.nc names/);
    const names = (pattern: string) =>
      filesNamed(`${folder}/${pattern}`)?.map((path) => path.slice(folder.length + 1));
    for (const name of ["x08.nc", "x09.nc", "x10.nc", "y[1].nc"]) {
      Deno.writeTextFileSync(`${folder}/${name}`, "");
    }
    assertEquals(names("x{08..10}.nc"), ["x08.nc", "x09.nc", "x10.nc"]);
    assertEquals(names("x{10,0[!8]}.nc"), ["x10.nc", "x09.nc"]);
    assertEquals(names("{x0?,[x-y]{10,?1?}}.nc"), ["x08.nc", "x09.nc", "x10.nc", "y[1].nc"]);
    assertEquals(names("y[1].nc"), undefined);
  }),
);

Deno.test(
  "globs are looked at, measured and staged like one file",
  inFolder(async (folder) => {
    const [u] = write(
      folder,
      `
os.mkdir("maps")
for i in range(3): year(f"maps/{i}.nc", np.arange(4) + 4 * i, ("u", "i2", maps(4, 9), dict(scale_factor=0.5 + i)), ("v", "f4", maps(4)), fmt="NETCDF3_CLASSIC")
out(read([f"maps/{i}.nc" for i in range(3)], "u"))`,
    ) as number[][];
    const path = `${folder}/maps/*.nc`;
    const look = ({ fields, samples, kind }: Preview) => {
      const { read } = fields.find(({ name }) => name === "u")!;
      return { samples, kind, values: Array.from(read!(0, 12) as Float64Array) };
    };
    assertEquals(await withPreview(path, "auto", look), { samples: 12, kind: "NetCDF files", values: u });
    const data = { ...every, normalise: "measured" } as const;
    for (const again of [false, true]) {
      const { notes, train, normalisation } = await open(path, "no", { ...MAPS, data });
      assertEquals(notes.some((note) => note.includes("as measured before")), again);
      const mean = u.reduce((sum, value) => sum + value, 0) / u.length;
      assert(Math.abs(normalisation!.mean[0] - mean) < 1e-5 && train.length === 12);
    }
    // An archive has whole variables: what was chosen would be lost.
    const { data: chosen } = settings({ data: { data_path: path, sel: ["lat=60"] } });
    assertThrows(
      () => withColumns(chosen, () => 0),
      UserError,
      "--resample and --coarsen have no place here",
    );
    const staged = await open(path, "no", { ...MAPS, data: { ...every, stage: `${folder}/node` } });
    assertEquals(numbers(staged.train)[0], u);
    assert(staged.notes.some((note) => note.startsWith("Staged to") && note.includes("3 files")));
  }),
);

Deno.test(
  "each type and packing, joined and cut, is what xarray's combine_by_coords and sel give",
  inFolder(async (folder) => {
    const found = write(
      folder,
      `
import xarray as xr
types = ["i1", "u1", "i2", "u2", "i4", "f4", "f8"]
for k, n in enumerate((3, 5, 2)):
    of = []
    for t in types:
        whole = t[0] != "f"
        values = r.integers(-90 if t[0] == "i" else 1, 100, (n, 4, 3)).astype(t) if whole else r.standard_normal((n, 4, 3)).astype(t)
        of.append((t, t, values, dict(chunks=(2, 4, 2)) if k % 2 else {}))
        if whole:
            v = values.copy(); v[0, 0, 0] = 7
            of.append((f"packed_{t}", t, v, dict(_FillValue=np.array(7, t)[()], scale_factor=0.5 * (k + 1), add_offset=-3.0 + k)))
        else: of.append((f"packed_{t}", t, values, dict(missing_value=np.array(values[0, 0, 1], t)[()])))
    year(f"{2 - k}.nc", np.arange(n) * 31 + 5, *of, units=f"days since {1990 + k}-01-01", calendar="noleap", raw=True)
ds = xr.combine_by_coords([xr.open_dataset(f"{i}.nc") for i in range(3)], data_vars="minimal", coords="minimal", compat="override", combine_attrs="override", join="exact")
cut = ds.sel(time=slice("1990-02", "1991-03"), lat=slice(65, 85))
names = [n for t in types for n in (t, f"packed_{t}")]
print(json.dumps({n: [[None if np.isnan(x) else float(x) for x in d[n].values.astype("f4").reshape(-1)] for d in (ds, cut)] for n in names}))`,
    ) as Record<string, (number | null)[][]>;

    const values = (numbers: number[]) => numbers.map((value) => Number.isNaN(value) ? null : value);
    for (const [name, [all, cut]] of Object.entries(found)) {
      for (const in_memory of ["yes", "no"] as const) {
        const read = async (sel: string[]) => {
          const features = [name], targets = [name === "u1" ? "f4" : "u1"];
          const data = { val_samples: 0, missing: "mask" as const, fill: ["none"], features, targets, sel };
          return values(numbers((await open(`${folder}/?.nc`, in_memory, { ...MAPS, data })).train)[0]);
        };
        assertEquals(await read([]), all, `${name} ${in_memory}`);
        assertEquals(await read(["time=1990-02..1991-03", "lat=65..85"]), cut, `${name} ${in_memory}`);
      }
    }
  }),
);
