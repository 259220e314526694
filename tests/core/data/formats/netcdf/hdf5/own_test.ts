// HDF5 and NetCDF-4 by our own reader: what h5py and netCDF4 write, as the library reads it; and what is left to the library.
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import type { Hdf5 } from "../../../../../../core/data/formats/netcdf/hdf5/datatype.ts";
import { readOwn } from "../../../../../../core/data/formats/netcdf/hdf5/own_reader.ts";
import { isLoaded, loadHdf5 } from "../../../../../../core/data/formats/netcdf/hdf5/library.ts";
import { netcdfReaders } from "../../../../../../core/data/formats/netcdf/netcdf.ts";
import { useLibtorch } from "../../../../../libtorch.ts";
import { inFolder, python } from "../../../../checkpoint/python.ts";
import { settings } from "../../../tables/help.ts";
import { described, sameByLibrary, valuesOf } from "./help.ts";

const { hdf5, netcdf } = netcdfReaders;

useLibtorch();

/** Runs Python with h5py, netCDF4 as nc, and a way to give a dataset the storage of `storage(p)`. */
const written = (folder: string, code: string) =>
  python(
    `import os, sys, numpy as np, h5py, netCDF4 as nc
os.chdir(sys.argv[1]); r = np.random.default_rng(0)
def low(f, name, a, storage):
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE); storage(p)
    h5py.h5d.create(f.id, name.encode(), h5py.h5t.py_create(a.dtype), h5py.h5s.create_simple(a.shape), p); f[name][:] = a
compact = lambda p: p.set_layout(h5py.h5d.COMPACT)
def early(p): p.set_chunk((7, 4)); p.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
${code}`,
    folder,
  );

const filesIn = (folder: string) =>
  [...Deno.readDirSync(folder)].map(({ name }) => `${folder}/${name}`).sort();

/** Every file is read by us, as by the library. */
async function allAlike(folder: string, count: number): Promise<void> {
  await loadHdf5();
  const files = filesIn(folder);
  assertEquals(files.length, count);
  for (const path of files) {
    const own = readOwn(path);
    assertNotEquals(own, null, `${path} is left to the library`);
    assert(sameByLibrary(path, own!), `the library reads ${path}`);
  }
}

Deno.test(
  "what h5py and netCDF4 usually write is opened without the library",
  inFolder(async (folder) => {
    written(
      folder,
      `
with h5py.File("a.h5", "w") as f:
    f["y"] = np.arange(4.0); f.create_dataset("x", data=np.arange(8.0).reshape(4, 2), chunks=(1, 2), compression="gzip", shuffle=True)
with nc.Dataset("a.nc", "w") as d:
    d.createDimension("n", 4)
    for name in "xy": d.createVariable(name, "f4", ("n",), zlib=True)[:] = np.arange(4)`,
    );
    for (const path of filesIn(folder)) {
      const { data, ...rest } = settings({ data: { data_path: path, features: ["x"], targets: ["y"] } });
      await hdf5.prepare!(data);
      const { train } = (path.endsWith(".nc") ? netcdf : hdf5).open({ ...rest, data });
      assertEquals(train.length, 3);
    }
    assert(!isLoaded());
  }),
);

Deno.test(
  "every type, byte order and way of storage of old and new files is read as the library reads it",
  inFolder(async (folder) => {
    written(
      folder,
      `
for lib in ("earliest", "v108", "v110", "latest"):
    with h5py.File(lib + ".h5", "w", libver=lib) as f:
        a = r.normal(size=(11, 4)) * 50
        for t in "?bBhHiIqQefd":
            for order in "<>":
                name = np.dtype(t).name + ("big" if order == ">" else "little")
                f.create_dataset(name, data=a.astype(t).astype(np.dtype(t).newbyteorder(order)), chunks=(3, 2), compression="gzip", shuffle=True, fletcher32=True)
        f["plain"] = a; f["big"] = a.astype(">f4"); f["number"] = 3.5; f["nothing"] = h5py.Empty("f4"); f["no rows"] = np.zeros((0, 4))
        low(f, "compact", np.arange(30, dtype=">i2").reshape(15, 2), compact)
        f.create_dataset("gaps", (20, 5), "f4", chunks=(3, 5), fillvalue=-7.5)[4] = 1
        f.create_dataset("gaps, swapped", (20, 5), ">i2", chunks=(3, 2), fillvalue=-257)[4, 3] = 1
        f.create_dataset("never", (20, 5), ">f4", fillvalue=-7.5); f.create_dataset("zeros", (20, 5), "i4", chunks=(2, 2))
        f["text"] = ["a", "b"]; f["letters"] = np.array([b"abc", b"d"]); f["pair"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
        f["wide"] = np.arange(6, dtype=np.longdouble); f["array"] = np.zeros(2, np.dtype(("f4", (3,)))); f["opaque"] = np.zeros(2, "V5")
        f["references"] = np.array([f["plain"].ref], dtype=h5py.ref_dtype); f.create_dataset("lists", (2,), dtype=h5py.vlen_dtype("i4"))
        f["kinds"] = np.array([1, 2], dtype=h5py.enum_dtype({"A": 1, "B": 2}, basetype="i2")); f["same"] = f["plain"]
        f.create_dataset("lzf", data=a, compression="lzf"); f["deep/er/z"] = np.arange(4); f.create_group("empty"); f["type"] = np.dtype("f4")`,
    );
    await allAlike(folder, 4);
  }),
);

Deno.test(
  "every index of chunks is read as the library reads it, with chunks over the edge, gaps and many pages",
  inFolder(async (folder) => {
    written(
      folder,
      `
a = r.normal(size=(600, 4)).astype("f4")
for lib in ("earliest", "v110", "latest"):
    with h5py.File(lib + ".h5", "w", libver=lib) as f:
        f.create_dataset("one", data=a, chunks=a.shape, compression="gzip"); f.create_dataset("bare", data=a, chunks=a.shape)
        f.create_dataset("array", data=a, chunks=(100, 3), compression="gzip"); f.create_dataset("pages", data=a, chunks=(1, 3), compression="gzip")
        f.create_dataset("unpacked", data=a, chunks=(1, 4)); low(f, "implicit", a, early)
        gaps = f.create_dataset("gaps", a.shape, "f4", chunks=(1, 2), fillvalue=3); gaps[590] = 5
        f.create_dataset("freely", data=a, chunks=(9, 3), maxshape=(None, None)); f.create_dataset("freely packed", data=a, chunks=(2, 1), maxshape=(None, None), compression="gzip")
        some = f.create_dataset("some", (10, 4), "f4", chunks=(1, 4), compression="gzip"); some.id.write_direct_chunk((4, 0), a[4].tobytes(), 1)
        less = f.create_dataset("shrunk", (20, 4), "f4", chunks=(3, 4), maxshape=(None, None)); less[:10] = a[:10]; less.resize(10, 0)
        f.create_dataset("maps", data=a.reshape(10, 5, 6, 8), chunks=(4, 2, 4, 8), compression="gzip", shuffle=True)`,
    );
    await allAlike(folder, 3);
  }),
);

Deno.test(
  "many links, many attributes, their order and their values are told as the library tells them",
  inFolder(async (folder) => {
    written(
      folder,
      `
for lib in ("earliest", "latest"):
    with h5py.File(f"many_{lib}.h5", "w", libver=lib) as f:
        for i in range(700): f[f"v{i}"] = np.arange(3) + i
        f["Übung"] = 1.0
        for i in range(60): f["v7"].attrs[f"note {i}"] = "x" * (20 * i)
        for i in range(250): f["v9"].attrs[f"note {i}"] = np.full(3000 + i, 7, "u1") # blocks of blocks of blocks
        f["v9"].attrs["units"] = "at the end"
        v = f["v7"].attrs; v["units"] = "K"; v["valid_range"] = np.array([1, 2], ">i8"); v["scale_factor"] = np.float32(0.1); v["_FillValue"] = np.array([5], ">f8")
        v = f["v8"].attrs; v["units"] = np.bytes_("m s-1"); v["add_offset"] = np.int16(-3); v["missing_value"] = "none"; v["valid_min"] = h5py.Empty("f4"); v["coordinates"] = np.array(["lat", "lon"], object)
    with h5py.File(f"order_{lib}.h5", "w", libver=lib, track_order=True) as f:
        for i in range(30): f[f"v{i * 7 % 30}"] = np.arange(3)
        f["g/z"] = 1; f["g/a"] = 2`,
    );
    await allAlike(folder, 4);
  }),
);

Deno.test(
  "NetCDF-4: dimensions, groups, attributes and values are told as the library tells them",
  inFolder(async (folder) => {
    written(
      folder,
      `
for format in ("NETCDF4", "NETCDF4_CLASSIC"):
    with nc.Dataset(format + ".nc", "w", format=format) as d:
        for name, size in (("time", None), ("y", 12), ("x", 10), ("letters", 4), ("bare", 3)): d.createDimension(name, size)
        d.createVariable("time", "f8", ("time",))[:] = np.arange(10)
        for name in ("lat", "lon"): d.createVariable(name, "f4", ("y", "x"))[:] = 1
        d.createVariable("crs", "i4", ()).grid_mapping_name = "polar"; d.createVariable("station", "S1", ("x", "letters"))
        d.createVariable("bare", "f4", ("x",))[:] = 2; d.title = "a title"
        for i in range(7):
            v = d.createVariable(f"f{i}", "i2" if i == 2 else "f4", ("time", "y", "x"), fill_value=-9999, zlib=True, shuffle=True, chunksizes=(4, 5, 10))
            for k in range(3 * i): v.setncattr(f"a{k}", k)
            v.coordinates, v.grid_mapping, v.units, v.valid_max = "lat lon", "crs", "é m", np.float32(7)
            v[:] = r.normal(size=(10, 12, 10))
        if format == "NETCDF4":
            d.createVariable("big", "f4", ("y",), fill_value=4.5, endian="big")[:] = np.arange(12); d.createVariable("text", str, ("x",))[0] = "a"
            g = d.createGroup("deep"); g.createDimension("q", 3)
            for name, dims in (("v", ("time", "q")), ("q", ("q",)), ("y", ("q",)), ("time", ("q", "time"))): g.createVariable(name, "f4", dims)[:] = 1`,
    );
    await allAlike(folder, 2);
  }),
);

Deno.test(
  "left to the library: links to names, other filters, types and pieces elsewhere, user blocks, circles, damage",
  inFolder(async (folder) => {
    written(
      folder,
      `
def file(name, **options): f = h5py.File(name + ".h5", "w", **options); f["y"] = np.arange(4.0); return f
f = file("soft"); f["x"] = h5py.SoftLink("/y"); f = file("external"); f["x"] = h5py.ExternalLink("b.h5", "/y"); f = file("circle"); f["g/again"] = f["/"]
f = file("rounded"); f.create_dataset("x", data=np.arange(9.0), chunks=(3,), scaleoffset=3); file("block", userblock_size=512)
f = file("named"); f["type"] = np.dtype("f4"); f.create_dataset("x", data=[1.0], dtype=f["type"]); f = file("virtual")
layout = h5py.VirtualLayout((4,), "f8"); layout[:] = h5py.VirtualSource("soft.h5", "y", (4,)); f.create_virtual_dataset("x", layout)
f = file("odd"); t = h5py.h5t.IEEE_F32LE.copy(); t.set_fields(31, 20, 11, 0, 20); h5py.h5d.create(f.id, b"x", t, h5py.h5s.create_simple((3,)))
f = file("later"); p = h5py.h5p.create(h5py.h5p.DATASET_CREATE); p.set_chunk((2,)); p.set_fill_time(h5py.h5d.FILL_TIME_NEVER); h5py.h5d.create(f.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((3,)), p)`,
    );
    const names = ["block", "circle", "external", "later", "named", "odd", "rounded", "soft", "virtual"];
    assertEquals(filesIn(folder), names.map((name) => `${folder}/${name}.h5`));
    for (const path of filesIn(folder)) assertEquals(readOwn(path), null, path);
    written(folder, `with h5py.File("whole.h5", "w") as f: f["y"] = np.arange(4.0)`);
    const whole = Deno.readFileSync(`${folder}/whole.h5`), short = `${folder}/short.h5`;
    Deno.writeFileSync(short, whole);
    assertNotEquals(readOwn(short), null);
    Deno.writeFileSync(short, whole.subarray(0, whole.length - 1));
    assertEquals(readOwn(short), null);
    const { data, ...rest } = settings({ data: { data_path: `${folder}/soft.h5` } });
    await hdf5.prepare!(data);
    assertEquals(hdf5.open({ ...rest, data }).train.length, 3);
  }),
);

/** The same numbers for the same seed. */
function numbersFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = Math.imul(state ^ state >>> 15, 0x2c1b3c6d) + 0x9e3779b9 | 0;
    return ((state ^ state >>> 13) >>> 0) % below;
  };
}

Deno.test({
  name: "of 2,000 damaged files none ends in anything but values, the library's turn or a sentence",
  fn: inFolder((folder) => {
    written(
      folder,
      `
for lib in ("earliest", "latest"):
    with h5py.File(lib + ".h5", "w", libver=lib) as f:
        f.create_dataset("x", data=r.integers(0, 9, (11, 4)).astype("f4"), chunks=(3, 2), compression="gzip", shuffle=True, fletcher32=True)
        f["y"] = np.arange(7, dtype=">i2"); f["y"].attrs["units"] = "m"; f["y"].attrs["scale_factor"] = 2.0
        f.create_dataset("g/gaps", (9, 5), "f4", chunks=(3, 5), fillvalue=-7.5)[4] = 1; f["b"] = np.array([True, False, True])
        f.create_dataset("g/free", data=np.arange(30.0).reshape(6, 5), chunks=(2, 2), maxshape=(None, None)); low(f, "compact", np.arange(10, dtype=">i2"), compact)
with nc.Dataset("a.nc", "w") as d:
    d.createDimension("t", None); d.createDimension("x", 3); d.createVariable("x", "f8", ("x",))[:] = 1
    v = d.createVariable("v", "i2", ("t", "x"), fill_value=-9, zlib=True); v.scale_factor = 0.5; v.units = "K"; v[:] = r.normal(size=(5, 3)) * 9
    for i in range(8): d.createVariable(f"w{i}", "f4", ("x",))[:] = i`,
    );
    const below = numbersFrom(20);
    const sums = { own: 0, usual: 0 };
    const said = ({ variables }: Hdf5) =>
      JSON.stringify([described(variables), variables.map((v) => valuesOf(v)?.join())]);
    for (const source of filesIn(folder)) {
      const whole = Deno.readFileSync(source), usual = said(readOwn(source)!);
      for (let i = 0; i < 667; i++) {
        const bytes = whole.slice(), path = `${source}-${i}`;
        for (let many = 1 + below(2); many > 0; many--) {
          const at = below(bytes.length), byte = bytes[at];
          bytes[at] =
            [byte ^ 1 << below(8), below(256), [0, 1, 127, 128, 255][below(5)], byte + 1, byte - 1][below(5)];
        }
        Deno.writeFileSync(path, bytes);
        const began = performance.now(), own = readOwn(path);
        assert(performance.now() - began < 20_000, `${path} takes too long`);
        if (own) {
          sums.own++;
          // What can't be told from the undamaged is compared with it: a library on damaged files may never end.
          sums.usual += Number(said(own) === usual);
        }
        Deno.removeSync(path);
      }
    }
    // Most bytes are values, or of no consequence; the others are found out.
    assert(
      sums.own > 400 && sums.own < 1900 && sums.usual > 400 && sums.usual < sums.own,
      JSON.stringify(sums),
    );
  }),
});
