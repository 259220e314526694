// NetCDF of every kind: the numbers that Python's netCDF4 and scipy read, and a sentence for everything that can be wrong.
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { Sources } from "../../../../../core/data/format.ts";
import { netcdfReaders } from "../../../../../core/data/formats/netcdf/netcdf.ts";
import { openData } from "../../../../../core/data/open/open.ts";
import { batchOf, plainPart, type Source } from "../../../../../core/data/source/source.ts";
import { UserError } from "../../../../../core/base/errors.ts";
import type { Config } from "../../../../../core/settings/settings.ts";
import { liveTensors, scope } from "../../../../../ffi/tensor.ts";
import { toNumbers } from "../../../../../ffi/make.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder, python } from "../../../checkpoint/python.ts";
import { range, settings } from "../../tables/help.ts";
import { assertSentence, sentenceNamed } from "../../../../sentences.ts";

const { netcdf } = netcdfReaders;

useLibtorch();

const FORMATS = [
  "NETCDF3_CLASSIC",
  "NETCDF3_64BIT_OFFSET",
  "NETCDF3_64BIT_DATA",
  "NETCDF4",
  "NETCDF4_CLASSIC",
];

interface More {
  readonly data?: Partial<Config["data"]>;
  readonly model?: Partial<Config["model"]>;
}

/** All samples in one source, in the order of the file, unless told otherwise. */
async function open(path: string, { data, model }: More = {}): Promise<Sources> {
  const config = settings({ data: { data_path: path, val_samples: 0, ...data }, model });
  config.training.loss = "mse"; // whole numbers are quantities here
  await netcdf.prepare!(config.data);
  return netcdf.open(config);
}

async function refused(path: string, more: More = {}): Promise<string> {
  const error = await assertRejects(() => open(path, more), UserError);
  assertEquals(error.kind, "data");
  return error.message;
}

/** Runs Python with netCDF4 as nc and numpy as np in `folder`; what it prints, as JSON. */
const written = (folder: string, code: string, ...args: string[]) =>
  JSON.parse(
    python(
      `import os, sys, json, numpy as np, netCDF4 as nc\nos.chdir(sys.argv[1])\nr = np.random.default_rng(0)\n${code}`,
      folder,
      ...args,
    ) || "null",
  );

const all = (source: Source, field: "input" | "target") =>
  scope(() => [...toNumbers(batchOf(source, plainPart(range(0, source.length)))[field])]);

/** What netCDF4 makes of each variable: the values, NaN where it masks them. */
const TO_JSON = `
def read(path):
    with nc.Dataset(path) as d:
        return {k: [None if np.isnan(x) else float(x) for x in np.ma.filled(np.ma.asarray(v[:]).astype("f8"), np.nan).astype("f4").ravel()]
                for k, v in d.variables.items() if v.dtype != str and v.dtype.kind in "iuf"}
`;

for (const format of FORMATS) {
  Deno.test(
    `${format}: every type, with and without records, gives netCDF4's numbers`,
    inFolder(async (folder) => {
      const values = written(
        folder,
        `
types = "b h i f d".split() + (["B", "H", "I", "q", "Q"] if sys.argv[2] in ("NETCDF3_64BIT_DATA", "NETCDF4") else [])
with nc.Dataset("a.nc", "w", format=sys.argv[2]) as d:
    d.title = "a title of odd length"
    d.createDimension("time", None); d.createDimension("x", 3)
    for kind, dims, shape in (("r", ("time", "x"), (5, 3)), ("w", ("x",), (3,)), ("s", ("time",), (5,))):
        for t in types:
            v = d.createVariable(kind + np.dtype(t).str[1:], t, dims)
            v.units = "m s-1"
            v[:] = (r.normal(size=shape) * 40).clip(0 if t.isupper() else -99).astype(t)
${TO_JSON}
print(json.dumps(read("a.nc")))`,
        format,
      ) as Record<string, number[]>;
      assertEquals(
        Object.keys(values).length,
        format === "NETCDF3_64BIT_DATA" || format === "NETCDF4" ? 30 : 15,
      );
      for (const [name, expected] of Object.entries(values)) {
        const partner = Object.keys(values).find((other) => other !== name && other[0] === name[0])!;
        const { train } = await open(`${folder}/a.nc`, { data: { features: [name], targets: [partner] } });
        assertEquals(all(train, "input"), expected, name);
      }
    }),
  );

  Deno.test(
    `${format}: fills, missing values, valid ranges, scale and offset are done as netCDF4 does them`,
    inFolder(async (folder) => {
      const values = written(
        folder,
        `
with nc.Dataset("a.nc", "w", format=sys.argv[2]) as d:
    d.createDimension("n", 12)
    def make(name, type, fill=None, **attributes):
        v = d.createVariable(name, type, ("n",), fill_value=fill)
        for k, a in attributes.items(): setattr(v, k, a)
        v.set_auto_maskandscale(False)
        return v
    make("fill", "f4", -9999.9)[:] = [1, -9999.9] * 6
    make("nan", "f8", np.nan)[:] = [1, np.nan] * 6
    make("default", "f4")[:6] = np.arange(6)
    make("whole", "i4")[:6] = np.arange(6)
    make("packed", "i2", np.int16(-1), scale_factor=0.25, add_offset=100.0)[:] = np.arange(12) - 1
    make("missing", "f4", missing_value=np.float32(5))[:] = np.arange(12)
    make("several", "i4", missing_value=np.array([5, 7], "i4"))[:] = np.arange(12)
    make("range", "i2", valid_range=np.array([2, 8], "i2"))[:] = np.arange(12)
    make("limits", "f4", valid_min=np.float32(3), valid_max=np.float32(9))[:] = np.arange(12)
    make("unsigned", "i1", _Unsigned="true", scale_factor=2.0)[:] = np.arange(-6, 6)
    make("unsigned_fill", "i1", np.int8(-1), _Unsigned="true", missing_value=np.int8(-3), scale_factor=2.0)[:] = np.arange(-6, 6)
    make("unsigned_range", "i2", _Unsigned="true", valid_range=np.array([2, -4], "i2"))[:] = np.arange(-6, 6)
    make("unsigned_bare", "i2", _Unsigned="true")[:] = np.arange(-6, 6)
    make("offset", "f4", add_offset=np.float32(0.5))[:] = np.arange(12)
${TO_JSON}
print(json.dumps(read("a.nc")))`,
        format,
      ) as Record<string, (number | null)[]>;
      for (const [name, expected] of Object.entries(values)) {
        const target = name === "fill" ? "offset" : "fill";
        const { train, notes } = await open(`${folder}/a.nc`, {
          data: { features: [name], targets: [target] },
        });
        const kept = expected.filter((value, i) => value !== null && values[target][i] !== null);
        assertEquals(all(train, "input"), kept, name);
        const absent = expected.length - kept.length;
        if (absent > 0) {
          assert(notes.includes(`Left out ${absent} of 12 samples marked as missing`), notes.join());
        }
      }
    }),
  );
}

Deno.test(
  "classic files of scipy give their numbers, with one record variable of odd size and with two",
  inFolder(async (folder) => {
    const values = written(
      folder,
      `
from scipy.io import netcdf_file
for path, many in (("one.nc", 1), ("two.nc", 2)):
    with netcdf_file(path, "w") as d:
        d.createDimension("time", None); d.createDimension("x", 3); d.createDimension("n", 7)
        for i in range(many):
            d.createVariable(f"v{i}", "i1", ("time", "x"))[:] = np.arange(21).reshape(7, 3) + i
        d.createVariable("y", "f8", ("n",))[:] = np.arange(7) / 2
${TO_JSON}
print(json.dumps({path: read(path) for path in ("one.nc", "two.nc")}))`,
    );
    for (const path of ["one.nc", "two.nc"]) {
      const { train, notes } = await open(`${folder}/${path}`, {
        data: { features: ["v0"], targets: ["y"] },
      });
      assertEquals(all(train, "input"), values[path].v0);
      assertEquals(all(train, "target"), values[path].y);
      assertEquals(notes, [sentenceNamed("core/data/formats/netcdf/netcdf: samples paired position")]);
    }
  }),
);

Deno.test(
  "many records of small variables, and a few of large ones, are read right",
  inFolder(async (folder) => {
    for (const [records, wide] of [[3000, 3], [4, 40_000]]) {
      const [sum] = written(
        folder,
        `
n, w = ${records}, ${wide}
with nc.Dataset("a.nc", "w", format="NETCDF3_64BIT_OFFSET") as d:
    d.createDimension("time", None); d.createDimension("x", w)
    for name in ("a", "b"): d.createVariable(name, "i2", ("time", "x"))
    d.createDimension("between", 500); d.createVariable("between", "f8", ("time", "between"))
    d["a"][:] = np.arange(n * w).reshape(n, w) % 31013
    d["b"][:] = np.arange(n * w).reshape(n, w) % 29
    print(json.dumps([int((np.arange(n * w) % 31013 * np.arange(1, n * w + 1) % 1009).sum())]))`,
      );
      const { train } = await open(`${folder}/a.nc`, { data: { train_samples: 1e6 } });
      assertEquals([train.length, train.input.shape], [records * wide, [1]]);
      const found = all(train, "input").reduce((total, value, i) => total + value * (i + 1) % 1009, 0);
      assertEquals(found, sum);
    }
  }),
);

/** Seven features on a grid, of which some are packed, and a target that follows from them. */
const ICE = `
with nc.Dataset("ice.nc", "w", format=sys.argv[2]) as d:
    for name, size in (("time", None), ("y", 12), ("x", 10)): d.createDimension(name, size)
    d.createVariable("time", "f8", ("time",))[:] = np.arange(10)
    for name in ("lat", "lon"): d.createVariable(name, "f4", ("y", "x"))[:] = 1
    d.createVariable("crs", "i4", ()).grid_mapping_name = "polar_stereographic"
    d.createDimension("letters", 4); d.createVariable("station", "S1", ("x", "letters"))
    fs = [r.normal(size=(10, 12, 10)) for _ in range(7)]
    land = r.random((10, 12, 10)) < 0.1
    for i, f in enumerate(fs):
        packed = dict(zlib=True, shuffle=True, chunksizes=(4, 5, 10)) if sys.argv[2] == "NETCDF4" else {}
        v = d.createVariable(f"f{i}", "i2" if i == 2 else "f4", ("time", "y", "x"), fill_value=-9999, **packed)
        if i == 2: v.scale_factor, v.add_offset = 0.001, 1.0
        v.coordinates, v.grid_mapping = "lat lon", "crs"
        v[:] = np.ma.array(f, mask=land if i < 3 else False)
    v = d.createVariable("thickness", "f4", ("time", "y", "x"), fill_value=1e20)
    v[:] = sum((i + 1) * f for i, f in enumerate(fs)) / 7
print(int(land.sum()))`;

for (const format of ["NETCDF3_CLASSIC", "NETCDF4"]) {
  Deno.test(
    `${format}: variables on one grid are taken point by point, land left out, coordinates and text aside`,
    inFolder(async (folder) => {
      const land = written(folder, ICE, format) as number;
      const alive = liveTensors();
      const found = await open(`${folder}/ice.nc`, { data: { validation_split: 0.1, val_samples: 10_000 } });
      const left = 1200 - land;
      assertEquals(found.notes, [
        sentenceNamed("core/data/formats/netcdf/netcdf: left aside time"),
        sentenceNamed("core/data/formats/netcdf/netcdf: time points sample"),
        `Left out ${land} of 1200 samples marked as missing`,
      ]);
      assertEquals(found.train.length + found.val!.length, left);
      assertEquals([found.train.input.shape, found.train.facts.outputs], [[7], 1]);
      assertEquals(found.train.facts.task, "regression");
      const x = all(found.train, "input"), y = all(found.train, "target");
      y.forEach((value, row) => {
        const expected = range(0, 7).reduce((sum, i) => sum + (i + 1) * x[7 * row + i], 0) / 7;
        assert(Math.abs(value - expected) < 1e-3, `row ${row}: ${value}, expected ${expected}`);
      });
      assert(liveTensors() - alive <= 4, "the fields of both sources, and nothing else");
    }),
  );
}

Deno.test(
  "for a model of maps each first index is a sample; the variables are its channels",
  inFolder(async (folder) => {
    written(
      folder,
      `
with nc.Dataset("a.nc", "w") as d:
    for name, size in (("sim", 5), ("y", 8), ("x", 6)): d.createDimension(name, size)
    for name in ("t", "u"): d.createVariable(name, "f4", ("sim", "y", "x"))[:] = np.arange(240).reshape(5, 8, 6)
    d.createVariable("omega", "f4", ("sim",))[:] = np.arange(5)`,
    );
    const path = `${folder}/a.nc`;
    for (const name of ["unet", "fno", "mine.ts", "mine.pt2"]) {
      const { train } = await open(path, { data: { targets: ["u"], features: ["t"] }, model: { name } });
      assertEquals([train.length, train.input.shape, train.target.shape], [5, [1, 8, 6], [1, 8, 6]]);
    }
    const points = await open(path, { data: { targets: ["u"], features: ["t"] } });
    assertEquals(points.train.length, 240);
    const omega = await open(path, { model: { name: "cosmo-cnn" } });
    assertEquals([omega.train.length, omega.train.input.shape], [5, [2, 8, 6]]);
    assertEquals(all(omega.train, "target"), [0, 1, 2, 3, 4]);
  }),
);

Deno.test(
  "NaN that no attribute announces ends the run, or is left out when asked",
  inFolder(async (folder) => {
    written(
      folder,
      `
with nc.Dataset("a.nc", "w") as d:
    d.createDimension("n", 6)
    d.createVariable("a", "f4", ("n",), fill_value=-1)[:] = [1, 2, np.nan, -1, 5, 6]
    d.createVariable("b", "f4", ("n",))[:] = np.arange(6)`,
    );
    const message = await refused(`${folder}/a.nc`);
    assertSentence("core/data/formats/netcdf/netcdf: nan infinite missing", message);
    const { train } = await open(`${folder}/a.nc`, { data: { bad_samples: "skip" } });
    assertEquals(all(train, "input"), [1, 2, 5, 6]);
  }),
);

Deno.test(
  "NetCDF-4: groups by path, dimensions without variables and odd names; unusable variables are aside, with the reason when named",
  inFolder(async (folder) => {
    written(
      folder,
      `
with nc.Dataset("a.nc", "w") as d:
    d.createDimension("n", 4); d.createDimension("m", 3)
    d.createVariable("text", str, ("n",))[:] = np.array(["a", "b", "c", "d"], dtype=object)
    e = d.createEnumType(np.int8, "kinds", {"A": 0, "B": 1}); d.createVariable("kind", e, ("n",))[:] = [0, 1, 1, 0]
    pair = d.createCompoundType(np.dtype([("a", "i4"), ("b", "f4")]), "pairs"); d.createVariable("pair", pair, ("n",))
    d.createVariable("m", "f4", ("n",))[:] = np.arange(4)
    d.createGroup("deep").createVariable("x", "f4", ("n",))[:] = np.arange(4) * 2`,
    );
    const path = `${folder}/a.nc`;
    const found = await open(path, { data: { features: ["kind", "m"], targets: ["deep/x"] } });
    assertEquals(all(found.train, "input"), [0, 0, 1, 1, 1, 2, 0, 3]);
    assertEquals(all(found.train, "target"), [0, 2, 4, 6]);
    assertEquals((await open(path)).notes, [
      sentenceNamed("core/data/formats/netcdf/netcdf: left aside text"),
    ]);
    const pair = await refused(path, { data: { features: ["pair"] } });
    assert(pair.includes('the variable "pair" holds compound values'), pair);
  }),
);

const WRITE = `
with nc.Dataset("a.nc", "w", format=sys.argv[2]) as d:
    d.createDimension("n", 50); d.createDimension("k", 3)
    for name in ("a", "b"): d.createVariable(name, "f4", ("n",))[:] = np.arange(50)
    d.createVariable("wide", "f4", ("k", "n"))[:] = 1`;

for (const format of ["NETCDF3_CLASSIC", "NETCDF4"]) {
  // The HDF5 library leaves a file open whose reading failed, and would go on with it under the same name.
  Deno.test({
    name: `${format}: refused: a variable that is not there, other shapes, truncated and damaged files`,
    sanitizeResources: false,
    fn: inFolder(async (folder) => {
      written(folder, WRITE, format);
      const because = (data: Partial<Config["data"]>) => refused(`${folder}/a.nc`, { data });
      const missing = await because({ features: ["aa"] });
      assertSentence("core/data/formats/netcdf/netcdf: variable features did", missing);
      const shapes = await because({ features: ["wide"], targets: ["a"] });
      assert(shapes.includes('"wide" has 3 samples, but "a" has 50'), shapes);
      const bytes = Deno.readFileSync(`${folder}/a.nc`);
      for (const at of range(1, 25).map((i) => 4 * i)) {
        const path = `${folder}/${at}.nc`;
        Deno.writeFileSync(path, bytes.map((byte, i) => i >= at && i < at + 8 ? 0xff : byte));
        // Some bytes are of no consequence; others end in a sentence about this file.
        const error = await open(path).then(() => null, (error) => error);
        assert(
          error === null || (error instanceof UserError && error.message.startsWith(path)),
          `${at}: ${error}`,
        );
      }
      for (const length of [500, 30]) {
        const path = `${folder}/cut-to-${length}.nc`;
        Deno.writeFileSync(path, bytes.slice(0, length));
        const short = await refused(path, { data: { features: ["a"], targets: ["b"] } });
        assert(short.includes(format === "NETCDF4" ? "can't be read as HDF5" : "is truncated"), short);
      }
    }),
  });
}

Deno.test(
  "refused: other formats, no file, a folder, an unknown version, an empty record dimension, no path",
  inFolder(async (folder) => {
    const path = `${folder}/a.nc`;
    const because = async (bytes: string) => {
      Deno.writeFileSync(path, Uint8Array.from(bytes, (c) => c.charCodeAt(0)));
      return await refused(path);
    };
    assert((await because("")).includes("is no NetCDF file"));
    assert((await because("PK\x03\x04 and more")).includes("is no NetCDF file"));
    assert((await because("CDF\x07 and more")).includes("version 7"));
    assert((await refused(`${folder}/none.nc`)).includes("no such file"));
    Deno.mkdirSync(`${folder}/none`);
    assert((await refused(`${folder}/none`)).includes("has no file in it that ends in .nc, .nc4, .cdf"));
    written(
      folder,
      `
with nc.Dataset("a.nc", "w", format="NETCDF3_CLASSIC") as d:
    d.createDimension("time", None)
    for name in ("a", "b"): d.createVariable(name, "f4", ("time",))`,
    );
    assert((await refused(path)).includes("holds no samples"));
    const { data, training, model } = settings({ data: { type: "netcdf" } });
    const none = assertThrows(() => openData(data, training, model), UserError);
    assertEquals([none.kind, none.message.includes("--data-path")], ["usage", true]);
    const data_path = "http://127.0.0.1:9/x.nc";
    for (const type of ["netcdf", "auto"] as const) {
      const away = settings({ data: { type, data_path } });
      const served = assertThrows(() => openData(away.data, training, model), UserError).message;
      assert(served.includes("Copy it first (curl -LO"), served);
    }
  }),
);
