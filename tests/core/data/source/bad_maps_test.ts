// Bad files of maps, over all of their readers: one sentence with the file, the variable and the place, and little
// memory.
import { assertEquals } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { BadSample } from "../../../../core/data/arrays/rows.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder, python } from "../../checkpoint/python.ts";
import { type Changes, numbers, open } from "../streamed.ts";
import { writtenBy } from "../formats/written.ts";

useLibtorch();

const HDF5 = `
import os, sys, numpy as np, h5py, netCDF4, warnings
warnings.simplefilter("ignore")
os.chdir(sys.argv[1]); r = np.random.default_rng(0)
x = r.normal(size=(20, 2, 8, 8)).astype("f4"); y = x[:, :1] * 2
def maps(name, extra=lambda f: None, **options):
    with h5py.File(name, "w") as f:
        f.create_dataset("x", data=x, chunks=(4, 2, 8, 8), compression="gzip", **options); f["y"] = y; extra(f)
        return f["x"].id.get_chunk_info(3).byte_offset
at = maps("chunk.h5"); b = bytearray(open("chunk.h5", "rb").read()); b[at + 20:at + 400] = bytes(380); open("chunk.h5", "wb").write(b)
maps("cut.h5"); os.truncate("cut.h5", 3000)
maps("cyclic.h5", lambda f: (f.create_group("a"), f["a"].__setitem__("b", f["a"]), f["a"].__setitem__("up", f["/"])))
maps("soft.h5", lambda f: f.__setitem__("again", h5py.SoftLink("/")))
maps("attributes.h5", lambda f: (f["x"].attrs.create("long", np.zeros(6000)), f["x"].attrs.create("text", "a" * 50000)))
with h5py.File("bomb.h5", "w", libver="latest") as f:
    d = f.create_dataset("x", (4, 1, 16384, 16384), "f4", chunks=(1, 1, 16384, 16384), compression="gzip"); f["y"] = np.zeros((4, 1, 2, 2), "f4")
    d.id.write_direct_chunk((0, 0, 0, 0), b"x\\x9c" + bytes(400)); d.id.write_direct_chunk((1, 0, 0, 0), b"x\\x9c" + bytes(400))
with h5py.File("codec.h5", "w") as f:
    f.create_dataset("x", data=x, chunks=(4, 2, 8, 8), compression=h5py.h5z.FILTER_SZIP if False else "lzf"); f["y"] = y
b = open("codec.h5", "rb").read().replace((32000).to_bytes(2, "little") + b"\\x04\\x00", (32099).to_bytes(2, "little") + b"\\x04\\x00"); open("codec.h5", "wb").write(b)
def year(name, times, lat=8, units="days since 2000-01-01", more=None):
    with netCDF4.Dataset(name, "w", format="NETCDF3_64BIT_OFFSET") as f:
        for d, n in (("time", None), ("c", 2), ("lat", lat), ("lon", 8)): f.createDimension(d, n)
        t = f.createVariable("time", "f8", ("time",)); t.units = units; t.calendar = "noleap"; t[:] = times
        f.createVariable("lat", "f4", ("lat",))[:] = np.arange(lat); v = f.createVariable("x", "f4", ("time", "c", "lat", "lon")); v[:] = np.ones((len(times), 2, lat, 8))
        w = f.createVariable("y", "f4", ("time", "c", "lat", "lon")); w[:] = np.full((len(times), 2, lat, 8), np.nan if more == "nan" else 2.0)
for d in ("back", "grid", "repeat", "mixed"): os.mkdir(d)
year("back/1.nc", [0, 1, 2, 3]); year("back/2.nc", [4, 6, 5, 7])
year("grid/1.nc", [0, 1]); year("grid/2.nc", [2, 3], 6)
year("repeat/1.nc", [0, 1, 2]); year("repeat/2.nc", [2, 3])
year("mixed/1.nc", [0, 1]); year("mixed/2.nc", [2, 3], units="years of the dragon")
year("nan.nc", range(20), more="nan"); year("cut.nc", range(20)); os.truncate("cut.nc", 9000)
year("long.nc", range(4)); b = bytearray(open("long.nc", "rb").read()); i = b.index(b"calendar") + 8 + 4; b[i:i + 4] = (2**31 - 1).to_bytes(4, "big"); open("long.nc", "wb").write(b)`;

const ZARR = `
import zarr, shutil, warnings
warnings.simplefilter("ignore")
x = r.normal(size=(20, 2, 8, 8)).astype("f4")
def store(name, version=2, chunks=(4, 2, 8, 8), **options):
    g = zarr.open_group(name, mode="w", zarr_format=version)
    for k, v in (("x", x), ("y", x[:, :1] * 2)): z = zarr.create(v.shape, chunks=(chunks[0], v.shape[1], *chunks[2:]), dtype="f4", store=name, path=k, zarr_format=version, **options); z[:] = v
def cut(path): os.truncate(path, os.path.getsize(path) // 2)
store("cut.zarr"); cut("cut.zarr/x/3.0.0.0"); store("cut3.zarr", 3); cut("cut3.zarr/x/c/3/0/0/0")
store("codec.zarr"); a = json.load(open("codec.zarr/x/.zarray")); a["compressor"] = {"id": "gzip", "level": 1}; json.dump(a, open("codec.zarr/x/.zarray", "w"))
store("bomb.zarr"); a = json.load(open("bomb.zarr/x/.zarray")); a.update(shape=[20, 2, 7000, 7000], chunks=[4, 2, 7000, 7000], compressor={"id": "gzip"}); json.dump(a, open("bomb.zarr/x/.zarray", "w"))
store("huge.zarr"); a = json.load(open("huge.zarr/y/.zarray")); a["shape"] = [2**40, 1, 8, 8]; json.dump(a, open("huge.zarr/y/.zarray", "w"))
os.mkdir("times"); store("times/a.zarr"); zarr.create((20,), chunks=(1024,), dtype="f8", store="times/a.zarr", path="time", zarr_format=2)
for k, d in (("x", ["time", "c", "lat", "lon"]), ("y", ["time", "k", "lat", "lon"]), ("time", ["time"])): json.dump({"_ARRAY_DIMENSIONS": d}, open(f"times/a.zarr/{k}/.zattrs", "w"))
a = json.load(open("times/a.zarr/time/.zarray")); a["shape"] = [2**40]; json.dump(a, open("times/a.zarr/time/.zarray", "w"))
store("attributes.zarr"); open("attributes.zarr/x/.zattrs", "w").write('{"a": "' + "b" * (65 * 2**20) + '"}')
store("loop.zarr"); os.symlink("..", "loop.zarr/again"); os.symlink(".", "loop.zarr/me"); os.mkdir("many"); shutil.copytree("loop.zarr", "many/a.zarr", symlinks=True); os.symlink(".", "many/up")
with zarr.storage.ZipStore("zip.zarr.zip", mode="w") as z: g = zarr.open_group(z, mode="w", zarr_format=2); g.create_array("x", data=x, chunks=(4, 2, 8, 8), compressors=None); g.create_array("y", data=x[:, :1], chunks=(20, 1, 8, 8))
b = bytearray(open("zip.zarr.zip", "rb").read()); i = b.index(x[12].tobytes()); b[i:i + 64] = bytes(64); open("zip.zarr.zip", "wb").write(b)
print("null")`;

type Mode = "yes" | "no";

interface Case {
  readonly path: string;
  /** It is told of both ways to read, or of one. */
  readonly modes?: readonly Mode[];
  readonly changes?: Changes;
  /** Null means that the data is good after all. */
  readonly says: RegExp | null;
}

const BOTH: readonly Mode[] = ["yes", "no"];

const CASES: readonly Case[] = [
  { path: "cut.zarr", modes: ["yes"], says: /cut\.zarr\/x: a chunk is damaged: 3\.0\.0\.0 \(\d+ bytes\)/ },
  {
    path: "cut.zarr",
    modes: ["no"],
    says: /[Ss]ample 1[2-5] .*cut\.zarr\/x.*damaged chunk of "x": 3\.0\.0\.0/,
  },
  {
    path: "cut3.zarr",
    modes: ["no"],
    says: /[Ss]ample 1[2-5] .*cut3\.zarr\/x.*damaged chunk of "x": c\/3\/0\/0\/0/,
  },
  { path: "codec.zarr", says: /codec\.zarr\/x.*0\.0\.0\.0 \(\d+ bytes\) can't be unpacked/ },
  {
    path: "bomb.zarr",
    says: /bomb\.zarr.*(which can't become the 1568000000 of a chunk|would take .* of memory)/,
  },
  { path: "huge.zarr", says: /huge\.zarr.*(would take|has 20 samples, but "y" has 1099511627776)/ },
  { path: "times", says: /times\/a\.zarr: the array "time" would take 8\.0 TiB of memory/ },
  { path: "attributes.zarr", says: /attributes\.zarr\/x\/\.zattrs is far larger than it can be/ },
  { path: "loop.zarr", says: null },
  { path: "many", says: null },
  {
    path: "zip.zarr.zip",
    modes: ["yes"],
    says: /zip\.zarr\.zip\/x: a chunk is damaged: 3\.0\.0\.0 is damaged in the zip file/,
  },
  {
    path: "zip.zarr.zip",
    modes: ["no"],
    says: /[Ss]ample 1[2-5] .*zip\.zarr\.zip\/x.*3\.0\.0\.0 is damaged in the zip file/,
  },
  {
    path: "chunk.h5",
    modes: ["yes"],
    says: /chunk\.h5: x can't be read as HDF5: what is stored of it .* can't be unpacked/,
  },
  {
    path: "chunk.h5",
    modes: ["no"],
    says: /[Ss]ample 1[2-5] .*chunk\.h5.*damaged chunk of "x".*can't be unpacked/,
  },
  { path: "cut.h5", says: /cut\.h5 can't be read as HDF5: truncated file/ },
  { path: "cyclic.h5", says: null },
  { path: "soft.h5", says: null },
  { path: "attributes.h5", says: null },
  {
    path: "bomb.h5",
    says: /bomb\.h5.*(which can't become the 1073741824 of a chunk|would take .* of memory)/,
  },
  { path: "codec.h5", says: /codec\.h5.*"x".*/ },
  {
    path: "back",
    says: /back\/2\.nc: the variable "time" goes back to .*2000-01-06.* at index 2 \(counted from 0\)/,
  },
  { path: "repeat", says: /repeat\/1\.nc and .*repeat\/2\.nc both have .*2000-01-03/ },
  {
    path: "grid",
    says:
      /"x" .*\[samples, 2, 6, 8\] in .*grid\/2\.nc, but \[samples, 2, 8, 8\] in .*grid\/1\.nc|lies on another grid in .*grid\/2\.nc/,
  },
  { path: "mixed", says: /mixed\/2\.nc.*"time".*dragon/ },
  { path: "cut.nc", says: /cut\.nc/ },
  { path: "long.nc", says: /long\.nc/ },
  { path: "nan.nc", says: /nan\.nc.*"y".*(missing|NaN)/ },
];

/** The most memory that this process has had since the last call. */
function peak(): number {
  const found = Number(/VmHWM:\s+(\d+)/.exec(Deno.readTextFileSync("/proc/self/status"))![1]) * 1024;
  Deno.writeTextFileSync("/proc/self/clear_refs", "5");
  return found;
}

const resident = () => Number(/VmRSS:\s+(\d+)/.exec(Deno.readTextFileSync("/proc/self/status"))![1]) * 1024;
const MOST = 200 * 2 ** 20;

// The HDF5 library leaves a file open whose reading failed.
Deno.test({
  name: "each fault is a sentence with the file, the variable and the place, and takes little memory",
  sanitizeResources: false,
  fn: inFolder(async (folder) => {
    python(HDF5, folder);
    writtenBy(folder, ZARR);
    const wrong: string[] = [];
    await open(`${folder}/soft.h5`, "yes", { data: { features: ["x"], targets: ["y"] } }); // the library is loaded once
    for (const { path, modes = BOTH, says, changes } of CASES) {
      for (const mode of modes) {
        peak();
        const before = resident();
        let said: string | null = null;
        try {
          const { train } = await open(`${folder}/${path}`, mode, {
            data: { features: ["x"], targets: ["y"], val_samples: 0, validation_split: 0 },
            model: { name: "unet" },
            ...changes,
          });
          for (let id = 0; id < train.length; id++) numbers(train, [id]);
        } catch (error) {
          if (!(error instanceof UserError || error instanceof BadSample)) {
            throw new Error(`${path}, ${mode}`, { cause: error });
          }
          if (error instanceof UserError && !["data", "memory"].includes(error.kind)) {
            wrong.push(`${path}: ${error.kind}`);
          }
          said = error.message;
        }
        const taken = peak() - before;
        if (taken > MOST) wrong.push(`${path}, ${mode}: ${Math.round(taken / 2 ** 20)} MiB were taken`);
        if (says === null ? said !== null : said === null || !says.test(said) || !/\.$/.test(said)) {
          wrong.push(`${path}, ${mode}: ${said ?? "nothing was refused"}`);
        }
      }
    }
    assertEquals(wrong, []);
  }),
});
