// --sel and static features: what numpy takes by the same coordinates, in memory and a sample at a time, of one
// file and of many.
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { openData } from "../../../../core/data/open/open.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { alike, type Changes, numbers, open, written } from "../streamed.ts";
import { settings } from "../tables/help.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();

const MAPS = { model: { name: "unet" } } as const;

/** t2m (time, lat, lon), z (time, level, lat, lon), e (member, time, lat, lon), land (lat, lon): 9 months from 1979-11. */
const WRITE = `
import netCDF4 as nc
months = np.array([0, 30, 61, 92, 121, 152, 182, 213, 243.0])
lat, lon, level = np.linspace(90, -90, 7), np.arange(8) * 45.0, np.array([1000, 850, 500, 250.0])
t2m = r.integers(-500, 500, (9, 7, 8)).astype("i2"); z = r.standard_normal((9, 4, 7, 8)).astype("f4"); e = r.standard_normal((2, 9, 7, 8))
land = (r.random((7, 8)) > 0.5).astype("i1")
def write(path, rows, scale, fmt="NETCDF4", **chunks):
    with nc.Dataset(path, "w", format=fmt) as d:
        d.set_auto_maskandscale(False)
        for name, size in (("time", None), ("lat", 7), ("lon", 8), ("level", 4), ("member", 2)): d.createDimension(name, size)
        def make(name, type, dims, values, **more):
            c = dict(zlib=True, chunksizes=chunks[name]) if name in chunks else {}
            v = d.createVariable(name, type, dims, **c); v.set_auto_maskandscale(False)
            for k, a in more.items(): setattr(v, k, a)
            v[:] = values
        make("time", "f8", ("time",), months[rows], units="days since 1979-11-01", calendar="standard")
        make("lat", "f4", ("lat",), lat); make("lon", "f4", ("lon",), lon); make("level", "i4", ("level",), level)
        make("t2m", "i2", ("time", "lat", "lon"), t2m[rows], scale_factor=scale, add_offset=1.0)
        make("z", "f4", ("time", "level", "lat", "lon"), z[rows])
        if fmt == "NETCDF4": make("e", "f8", ("member", "time", "lat", "lon"), e[:, rows])
        make("land", "i1", ("lat", "lon"), land)
def temp(rows, scales): return np.concatenate([(t2m[i:i + 1].astype("f8") * scales[i] + 1.0).astype("f4") for i in rows])
def out(*parts): print(json.dumps([np.asarray(p, "f4").astype("f8").reshape(-1).tolist() for p in parts]))
`;

const chosen = (sel: string, features: string, targets: string): Changes["data"] => ({
  sel: sel.split(","), // as flags are
  features: features.split(","),
  targets: [targets],
  val_samples: 0,
});

Deno.test(
  "times by their dates, ranges in either direction, levels as channels, a single value without its dimension",
  inFolder(async (folder) => {
    const [around, months, north, levels, one, west, odd, member] = written(
      folder,
      WRITE + `
write("one.nc", slice(0, 9), 0.25, z=(2, 4, 3, 8), t2m=(1, 7, 8))
write("classic.nc", slice(0, 9), 0.25, "NETCDF3_64BIT_OFFSET")
os.mkdir("years")
write("years/b.nc", slice(0, 2), 0.25); write("years/a.nc", slice(2, 9), 0.25, z=(3, 2, 7, 3))
same = [0.25] * 9
out(z[:, :, :, [7, 0, 1]], temp(range(2, 9), same), temp(range(9), same)[:, :2], z[:, [1, 2]], z[:, 2], z[:, :, :, 1:4], z[:, :, 1:6][:, [3, 0]][:, :, :, [7, 0, 2]], e[1])`,
    ) as number[][];
    const cases = [
      ["time=1980..", "t2m", months],
      ["time=1980..1980-07", "t2m", months],
      ["lat=60..90", "t2m", north],
      ["level=850,500", "z", levels],
      ["level=500", "z", one],
      ["lon=45..135", "z", west],
      ["lon=315..45", "z", around],
      ["lon=-45..45", "z", around],
      ["lon=-70..60", "z", around],
      ["lat=-60..60,level=250,1000,lon=315,0,90", "z", odd],
      ["member=1", "e", member],
    ] as const;
    for (const path of ["one.nc", "classic.nc", "years"]) {
      for (const in_memory of ["yes", "no"] as const) {
        for (const [sel, name, expected] of cases) {
          if (name === "e" && path !== "one.nc") continue;
          const data = chosen(sel, name, name === "z" ? "t2m" : "z");
          // A target along other dimensions would not fit the cut map.
          const { train } = await open(`${folder}/${path}`, in_memory, { ...MAPS, data });
          assertEquals(numbers(train)[0], expected, `${path} ${sel} ${in_memory}`);
        }
      }
    }
    // Points of the cut grid are samples, too.
    const data = chosen("lat=0..60,lon=90..270,time=1979", "land", "t2m");
    const { train } = await open(`${folder}/one.nc`, "yes", { data });
    assertEquals([train.length, train.input.shape], [2 * 3 * 5, [1]]);
    await alike(`${folder}/one.nc`, { data: { ...data, val_samples: 100 } });
  }),
);

Deno.test(
  "files packed in their own ways keep them where samples are chosen",
  inFolder(async (folder) => {
    const [some, single] = written(
      folder,
      WRITE + `
os.mkdir("years")
for k, (rows, scale) in enumerate(((slice(0, 2), 0.25), (slice(2, 4), 0.5), (slice(4, 9), 2.0))): write(f"years/{k}.nc", rows, scale)
scales = [0.25] * 2 + [0.5] * 2 + [2.0] * 5
out(temp([1, 2, 3, 6], scales)[:, 5:], temp([6], scales))`,
    ) as number[][];
    for (const in_memory of ["yes", "no"] as const) {
      const read = async (sel: string) => {
        const data = chosen(sel, "t2m", "z");
        return numbers((await open(`${folder}/years`, in_memory, { ...MAPS, data })).train)[0];
      };
      assertEquals(await read("lat=..-60,time=1979-12..1980-02,1980-05"), some);
      assertEquals(await read("time=1980-05-01"), single);
    }
  }),
);

Deno.test(
  "static features are the same channel of every sample, and of every point",
  inFolder(async (folder) => {
    const [maps, points] = written(
      folder,
      WRITE + `
write("one.nc", slice(0, 9), 0.25)
import h5py
with h5py.File("plain.h5", "w") as f:
    f["land"] = land.astype("f4"); f["x"] = z[:, 0]; f["y"] = z[:, 1]
every = lambda a: np.broadcast_to(a, (9, 7, 8))
lats = every(lat[:, None])
t = temp(range(9), [0.25] * 9)
out(np.stack([every(land), t, lats], 1), np.stack([every(land), lats, every(lon)], -1))`,
    ) as number[][];
    const path = `${folder}/one.nc`, own = { val_samples: 0, targets: ["t2m"] };
    for (const in_memory of ["yes", "no"] as const) {
      const data = { val_samples: 0, features: ["land", "t2m", "lat"], targets: ["z"] };
      const { train, notes } = await open(path, in_memory, { ...MAPS, data });
      assertEquals(numbers(train)[0], maps, in_memory);
      assert(notes.includes("The same for all samples: land, lat"), notes.join("\n"));
      const { train: flat } = await open(path, in_memory, {
        data: { ...own, features: ["land", "lat", "lon"] },
      });
      assertEquals([flat.length, numbers(flat)[0]], [504, points], in_memory);
    }
    await alike(path, { ...MAPS, data: { features: ["land", "t2m", "lat"], targets: ["z"] } });
    await alike(`${folder}/plain.h5`, { ...MAPS, data: { features: ["land", "x"], targets: ["y"] } });
    // The latitude of a cut map is cut alike.
    const cut = { targets: ["z"], features: ["land", "t2m", "lat"], sel: ["lat=..0"] };
    await alike(path, { ...MAPS, data: cut });
  }),
);

Deno.test(
  "what --sel can't mean is told with the coordinate's own range",
  inFolder(async (folder) => {
    written(folder, WRITE + `write("one.nc", slice(0, 9), 0.25); np.savez("a.npz", x=lat, y=lat)`);
    const refused = async (sel: string, path = "one.nc") => {
      const open_ = () => open(`${folder}/${path}`, "yes", { ...MAPS, data: chosen(sel, "t2m", "z") });
      return (await assertRejects(open_, UserError, undefined, sel)).message;
    };
    assertSentence("core/data/arrays/select: nothing lies sel", await refused("time=2010"));
    assertSentence("core/data/arrays/select: level goes nearest", await refused("level=700"));
    assertMatch(await refused("lat=91..95"), /lat goes from 90 to -90/);
    assertMatch(await refused("time=spring"), /is no date: time goes from/);
    assertMatch(await refused("lat=north"), /is no number/);
    assertSentence("core/data/arrays/select: member coordinate places", await refused("member=2"));
    assertSentence("core/data/arrays/select: dimension lats did", await refused("lats=0"));
    assertMatch(await refused("60..90"), /--sel 60..90 chooses nothing/);
    assertMatch(await refused("lat="), /chooses nothing/);
    assertMatch(await refused("lat=0,lat=30"), /chooses along lat twice/);
    assertMatch(await refused("time=1980", "a.npz"), /data.sel .* and npz data has none: zarr, netcdf, hdf5/);
    const { data, training, model } = settings({ data: { sel: ["x=1"], type: "synthetic" } });
    assertMatch(
      (await assertRejects(async () => await openData(data, training, model), UserError)).message,
      /synthetic data has none/,
    );
  }),
);

Deno.test(
  "--sample-dim: another dimension than the first, in one file and in many; each file as one sample",
  inFolder(async (folder) => {
    const [turned, wide, maps, omega] = written(
      folder,
      WRITE + `
import h5py
write("one.nc", slice(0, 9), 0.25, e=(1, 4, 7, 8))
os.mkdir("years"); os.mkdir("maps"); os.mkdir("h5"); os.mkdir("npz")
write("years/b.nc", slice(0, 4), 0.25); write("years/a.nc", slice(4, 9), 0.25, e=(2, 2, 4, 8))
omega = r.random(12)
for k in range(12):
    with nc.Dataset(f"maps/{k}.nc", "w") as d:
        d.createDimension("lat", 7); d.createDimension("lon", 8)
        d.createVariable("lat", "f4", ("lat",))[:] = lat
        d.createVariable("kappa", "f4", ("lat", "lon"))[:] = z.reshape(-1, 7, 8)[k]
        d.createVariable("omega", "f8", ())[...] = omega[k]
    with h5py.File(f"h5/{k}.h5", "w") as f: f.create_dataset("kappa", data=z.reshape(-1, 7, 8)[k], chunks=(3, 8), compression=1); f["omega"] = omega[k]
    np.savez(f"npz/{k}.npz", kappa=z.reshape(-1, 7, 8)[k], omega=omega[k])
out(e.transpose(1, 0, 2, 3), z.transpose(3, 0, 1, 2), z.reshape(-1, 7, 8)[:12], omega)`,
    ) as number[][];
    for (const in_memory of ["yes", "no"] as const) {
      for (const path of ["one.nc", "years"]) {
        const data = { val_samples: 0, sample_dim: "time", features: ["e"], targets: ["t2m"] };
        const { train } = await open(`${folder}/${path}`, in_memory, { ...MAPS, data });
        assertEquals([train.input.shape, numbers(train)[0]], [[2, 7, 8], turned], `${path} ${in_memory}`);
        const first = { ...data, sel: ["member=1"] };
        const half = turned.filter((_, i) => Math.floor(i / 56) % 2 === 1);
        const { train: member } = await open(`${folder}/${path}`, in_memory, { ...MAPS, data: first });
        assertEquals([member.input.shape, numbers(member)[0]], [[1, 7, 8], half], `${path} ${in_memory}`);
      }
      const along = { val_samples: 0, sample_dim: "level", features: ["z"], targets: ["level"] };
      const { train } = await open(`${folder}/one.nc`, in_memory, {
        ...MAPS,
        data: { ...along, sample_dim: "lat", targets: ["lat"] },
      });
      assertEquals(train.length, 7);
      const { train: far } = await open(`${folder}/one.nc`, in_memory, {
        data: { ...along, sample_dim: "lon", targets: ["lon"] },
      });
      assertEquals([far.length, numbers(far)[0]], [8, wide]);
      for (const path of ["maps", "h5", "npz"]) {
        const data = { val_samples: 0, sample_dim: "file", features: ["kappa"], targets: ["omega"] };
        const { train } = await open(`${folder}/${path}`, in_memory, { model: { name: "cosmo-cnn" }, data });
        assertEquals(
          [train.input.shape, ...numbers(train)],
          [[1, 7, 8], maps, omega],
          `${path} ${in_memory}`,
        );
      }
    }
    const wrong = (path: string, sample_dim: string) =>
      assertRejects(() => open(`${folder}/${path}`, "yes", { data: { sample_dim } }), UserError);
    assertMatch(
      (await wrong("one.nc", "times")).message,
      /no dimension "times" \(--sample-dim\). Did you mean "time"/,
    );
    assertMatch((await wrong("years", "times")).message, /no dimension "times"/);
    assertMatch((await wrong("npz", "time")).message, /npz data has none/);
  }),
);

Deno.test(
  "whole numbers of a coordinate are chosen as they are, however large; others as single precision has them",
  inFolder(async (folder) => {
    written(
      folder,
      `
import netCDF4 as nc
with nc.Dataset("s.nc", "w") as d:
    d.createDimension("station", 4); d.createDimension("time", 6); d.createDimension("depth", 3)
    d.createVariable("station", "i4", ("station",))[:] = 7000000 + np.arange(4)
    d.createVariable("depth", "f4", ("depth",))[:] = [0.1, 0.2, 0.3]
    d.createVariable("flow", "f4", ("time", "station"))[:] = np.arange(24).reshape(6, 4)
    d.createVariable("salt", "f4", ("time", "depth"))[:] = np.arange(18).reshape(6, 3)
    d.createVariable("rain", "f4", ("time",))[:] = np.arange(6)`,
    );
    const of = async (sel: string, feature: string) => {
      const data = { ...chosen(sel, feature, "rain"), data_path: `${folder}/s.nc` };
      return numbers((await open(`${folder}/s.nc`, "yes", { ...MAPS, data })).train)[0];
    };
    assertEquals(await of("station=7000001", "flow"), [1, 5, 9, 13, 17, 21]);
    assertEquals(await of("station=7000001..7000002", "flow"), [1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22]);
    assertEquals(await of("depth=0.3", "salt"), [2, 5, 8, 11, 14, 17]);
  }),
);
