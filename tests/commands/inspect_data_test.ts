// `hpctrain inspect` of data: what real writers wrote, as a user sees it.
import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { inspect } from "../../commands/run/inspect.ts";
import type { FieldSummary, Summary } from "../../core/data/preview/summary.ts";
import { UserError } from "../../core/base/errors.ts";
import { inFolder, python } from "../core/checkpoint/python.ts";
import { writeEncoded } from "../../core/data/shards/write.ts";
import { pack } from "../core/data/shards/make.ts";
import { useLibtorch } from "../libtorch.ts";
import { printed } from "./printed.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

useLibtorch();

async function lines(...argv: string[]): Promise<string[]> {
  const [code, text] = await printed(() => inspect(argv));
  assertEquals(code, 0);
  return text.split("\n");
}

async function summary(...argv: string[]): Promise<Summary & { field: Record<string, FieldSummary> }> {
  const found: Summary = JSON.parse((await lines(...argv, "--json")).join("\n"));
  return { ...found, field: Object.fromEntries(found.fields.map((field) => [field.name, field])) };
}

async function refusal(...argv: string[]): Promise<UserError> {
  return await assertRejects(() => printed(() => inspect(argv)), UserError);
}

const NUMPY = `
import sys, json, numpy as np
rng = np.random.default_rng(0)
a = {"maps": np.asfortranarray(rng.normal(size=(30, 16, 20)).astype(">f4")), "small": rng.integers(-9, 9, (30, 5)).astype("i2"),
     "half": rng.normal(size=30).astype("f2"), "label": np.arange(30) % 3, "objects": np.array([{}] * 30)}
a["half"][3] = np.nan
np.savez_compressed(sys.argv[1] + "/packed.npz", **a)
np.savez(sys.argv[1] + "/plain.npz", **a)
np.save(sys.argv[1] + "/alone.npy", a["maps"])
def about(v):
    v = v.astype("f8")
    spread = [np.nanmin(v), np.nanmax(v), np.nanmean(v), np.nanstd(v)]
    return [*map(float, spread), np.histogram(v[np.isfinite(v)], bins=16)[0].tolist()]
print(json.dumps({k: about(v) for k, v in a.items() if k != "objects"}))`;

Deno.test(
  "numpy's arrays: ranges, means, histograms, missing values, counts and first values are numpy's, packed or not",
  inFolder(async (folder) => {
    const ranges: Record<string, [number, number, number, number, number[]]> = JSON.parse(
      python(NUMPY, folder),
    );
    for (const name of ["packed.npz", "plain.npz"]) {
      const { samples, kind, field, examples } = await summary(`${folder}/${name}`);
      assertEquals([samples, kind], [30, "npz archive"]);
      for (const [name, [min, max, mean, std, counts]] of Object.entries(ranges)) {
        const range = field[name].range!;
        assertEquals([range.min, range.max, range.histogram?.counts], [min, max, counts], name);
        assertAlmostEquals(range.mean!, mean, 1e-12 * Math.abs(max));
        assertAlmostEquals(range.std!, std, 1e-12 * Math.abs(max));
      }
      assertEquals(field.maps.shape, [30, 16, 20]);
      assertEquals([field.half.dtype, field.half.range?.missing], ["f16", 1]);
      assertEquals(field.label.range?.counts, [0, 1, 2].map((value) => ({ value, count: 10 })));
      assertEquals(examples.values.label, [[0], [1], [2], [0], [1]]);
      assertEquals(examples.values.half[3], [null]);
      assertEquals(field.objects.range, null);
      assertStringIncludes(field.objects.remark!, "Python objects");
    }
    assertEquals((await summary(`${folder}/alone.npy`)).field.alone.range?.max, ranges.maps[1]);
  }),
);

Deno.test(
  "--sample shows that one, and a number outside is refused with the numbers there are",
  inFolder(async (folder) => {
    python(NUMPY, folder);
    const { examples } = await summary(`${folder}/plain.npz`, "--sample", "29");
    assertEquals([examples.first, examples.values.label], [29, [[2]]]);
    const shown = await lines(`${folder}/plain.npz`, "--sample", "29");
    assertEquals(shown.at(-1), "  maps of sample 29");
    for (const text of ["30", "-1", "x", "1.5"]) {
      assertStringIncludes(
        (await refusal(`${folder}/plain.npz`, `--sample=${text}`)).message,
        "from 0 to 29",
      );
    }
  }),
);

Deno.test(
  "a text table: names, texts as counted classes, and no picture",
  inFolder(async (folder) => {
    const rows = ["20,red,1", "30,blue,", "41.5,red,3", "20,red,4"].join("\n");
    Deno.writeTextFileSync(`${folder}/t.csv`, `age,colour,y\n${rows}`);
    assertEquals((await lines(`${folder}/t.csv`)).slice(1), [
      "  layout: commas between cells, names in line 1",
      "  column  type  shape  range       mean ± std     histogram",
      "  age     f32   [4]    20 to 41.5  27.88 ± 8.863  █      ▄       ▄",
      "  colour  text  [4]",
      "  y       f32   [4]    1 to 4      2.667 ± 1.247  █         █    █  1 missing (25%)",
      "  colour has 2 values: blue (1), red (3)",
      "  sample  0    1        2     3",
      "  age     20   30       41.5  20",
      "  colour  red  blue     red   red",
      "  y       1    missing  3     4",
    ]);
    Deno.writeTextFileSync(`${folder}/evil.csv`, `age,\x1b[31mred,y\n${rows.replaceAll("red", "\x1b[2J")}`);
    assert(!(await lines(`${folder}/evil.csv`)).join("").includes("\x1b"), "no escape code out of the file");
    assertStringIncludes((await refusal(`${folder}/t.csv`, "--png", "a.png")).message, "no images or maps");
  }),
);

const NETCDF = `
import sys, json, numpy as np, netCDF4
rng = np.random.default_rng(1)
for name, format in [("four.nc", "NETCDF4"), ("classic.nc", "NETCDF3_64BIT_OFFSET")]:
    d = netCDF4.Dataset(sys.argv[1] + "/" + name, "w", format=format)
    d.createDimension("time", None); d.createDimension("lat", 8); d.createDimension("lon", 12)
    t = d.createVariable("time", "f8", ("time",)); t.units = "days since 2000-01-01"; t[:] = np.arange(6)
    v = d.createVariable("thickness", "i2", ("time", "lat", "lon"), fill_value=-999)
    v.units = "m"; v.scale_factor = 0.5
    x = np.ma.masked_array(rng.integers(0, 100, (6, 8, 12)) / 2, rng.random((6, 8, 12)) < 0.2)
    v[:] = x
    d.createVariable("depth", "f4", ("lat", "lon"))[:] = rng.random((8, 12))
    d.createVariable("version", "i4", ())[...] = 3
    d.close()
    print(json.dumps([float(x.min()), float(x.max()), int(x.mask.sum())]))`;

Deno.test(
  "NetCDF: dimensions, units, fill values and scale are honoured, of NetCDF-4 and of classic files",
  inFolder(async (folder) => {
    const wanted = python(NETCDF, folder).trim().split("\n").map((line) => JSON.parse(line));
    for (const [i, name] of ["four.nc", "classic.nc"].entries()) {
      const { kind, samples, field } = await summary(`${folder}/${name}`);
      assertEquals([kind, samples], ["NetCDF file", null], "depth has no time");
      const { range, dimensions, units } = field.thickness;
      assertEquals([range?.min, range?.max, range?.missing], wanted[i]);
      assertEquals([dimensions, units], [["time", "lat", "lon"], "m"]);
      assertEquals(field.time.remark, "describes others");
      assertEquals([field.version.dtype, field.version.range?.max], ["i32", 3], "as it is stored");
      const shown = await lines(`${folder}/${name}`);
      const line = shown.find((line) => line.includes("thickness"))!;
      assertMatch(line, /\[time=6, lat=8, lon=12\] +\S+ to \S+ m +\S+ ± \S+ +\S+ +\d+ missing \([\d.]+%\)$/);
      assertEquals(shown.at(-1), "  thickness of samples 0, 1, 2, 3");
    }
  }),
);

const HDF5 = `
import sys, h5py, numpy as np
with h5py.File(sys.argv[1] + "/a.h5", "w") as f:
    f.create_dataset("deep/maps", data=np.arange(4 * 8 * 8, dtype="f4").reshape(4, 8, 8), chunks=(1, 8, 8), compression="gzip", shuffle=True)
    f["y"] = np.array([1, 2, 1, 2], "u1")
    f["note"] = "hello"`;

Deno.test(
  "HDF5: datasets by their paths, and what holds no numbers says so",
  inFolder(async (folder) => {
    python(HDF5, folder);
    const { kind, samples, noun, field } = await summary(`${folder}/a.h5`);
    assertEquals([kind, samples, noun], ["HDF5 file", 4, "dataset"]);
    assertEquals([field["deep/maps"].range?.max, field["deep/maps"].dimensions], [255, undefined]);
    assertEquals(field.y.range?.counts, [{ value: 1, count: 2 }, { value: 2, count: 2 }]);
    assertEquals(field.note.remark, "holds text");
  }),
);

const LARGE = `
import sys, h5py, numpy as np
x = np.lib.format.open_memmap(sys.argv[1] + "/x.npy", mode="w+", dtype=">f8", shape=(200000, 64))
x[:] = np.arange(64); x[3] = 7000; x[199999] = 12345.0
x.flush()
with h5py.File(sys.argv[1] + "/x.h5", "w") as f:
    f.create_dataset("x", data=x.astype("f4").repeat(2, 1), chunks=(1000, 128), compression="gzip", compression_opts=1)`;

Deno.test(
  "of a large file the first samples are looked at, and any one that is asked for",
  inFolder(async (folder) => {
    python(LARGE, folder);
    for (const [name, rows] of [["x.npy", 32768], ["x.h5", 16384]] as const) {
      const { field: { x: { range } } } = await summary(`${folder}/${name}`);
      assertEquals([range?.min, range?.max, range?.rows], [0, 7000, rows], name);
      const line = (await lines(`${folder}/${name}`)).find((line) => line.includes("7000"))!;
      assertStringIncludes(line, `in the first ${rows} of 200000`);
      const { examples } = await summary(`${folder}/${name}`, "--sample", "199999");
      assertEquals(examples.values.x[0].slice(0, 2), [12345, 12345]);
    }
  }),
);

const IMAGES = `
import sys, json, os, numpy as np
from PIL import Image
rng = np.random.default_rng(2)
for name, count in [("cats", 3), ("dogs", 2)]:
    os.makedirs(f"{sys.argv[1]}/im/{name}")
    for i in range(count):
        Image.fromarray(rng.integers(0, 255, (70, 80, 3)).astype("u1")).save(f"{sys.argv[1]}/im/{name}/{i}.png")`;

const SHEET = `
import sys, json, numpy as np
from PIL import Image
folder, *files = sys.argv[1:]
sheet = np.asarray(Image.open(folder + "/sheet.png"))
same = [(sheet[:70, i * 82:i * 82 + 80] == np.asarray(Image.open(f"{folder}/im/{f}"))).all() for i, f in enumerate(files)]
print(json.dumps([bool(all(same)), *sheet.shape]))`;

Deno.test(
  "images in class folders: counts, sizes, a picture, and a sheet that Pillow reads as the same pixels",
  inFolder(async (folder) => {
    python(IMAGES, folder);
    const { samples, classes, facts } = await summary(`${folder}/im`);
    assertEquals([samples, classes], [5, [{ name: "cats", samples: 3 }, { name: "dogs", samples: 2 }]]);
    assertStringIncludes(facts["train with"], "5 images of 70 x 80");
    const shown = await lines(`${folder}/im/`, "--png", `${folder}/sheet.png`);
    assertMatch(shown.at(-2)!, /^ {2}images of samples 0 \(cats, cats\/0\.png\), .*dogs/);
    assertEquals(shown.at(-1), `Wrote 5 samples to ${folder}/sheet.png`);
    const files = ["cats/0.png", "cats/1.png", "cats/2.png", "dogs/0.png", "dogs/1.png"];
    assertEquals(JSON.parse(python(SHEET, folder, ...files)), [true, 70, 5 * 82 - 2, 3]);
    Deno.writeTextFileSync(`${folder}/im/dogs/1.png`, "no picture");
    const error = await refusal(`${folder}/im`, "--sample", "4");
    assertEquals(error.kind, "data");
    assertStringIncludes(error.message, "im/dogs/1.png");
  }),
);

Deno.test(
  "MNIST's files: by folder and one by one, with the digit drawn",
  inFolder(async (folder) => {
    const pixels = new Uint8Array(3 * 4 * 4);
    pixels.fill(255, 16, 32);
    const idx = (...head: number[]) => new Uint8Array(Uint32Array.from(head.map(swapped)).buffer);
    const file = (name: string, head: Uint8Array, bytes: Uint8Array) =>
      Deno.writeFileSync(`${folder}/${name}`, Uint8Array.from([...head, ...bytes]));
    file("train-images-idx3-ubyte", idx(0x803, 3, 4, 4), pixels);
    file("train-labels-idx1-ubyte", idx(0x801, 3), Uint8Array.of(7, 12, 7));
    const { samples, field } = await summary(folder);
    assertEquals([samples, field["train images"].range?.max], [3, 255]);
    assertEquals(field["train labels"].range?.max, 12);
    const shown = await lines(folder, "--sample", "1");
    assertEquals(shown.at(-2), "  " + "█".repeat(16));
    assertEquals(shown.at(-1), "  train images of sample 1 (12)");
    assertEquals((await summary(`${folder}/train-labels-idx1-ubyte`)).field.labels.shape, [3]);
  }),
);

const swapped = (value: number) =>
  ((value & 255) << 24 | (value & 0xff00) << 8 | (value >>> 8) & 0xff00 | value >>> 24) >>> 0;

Deno.test(
  "files of tokens: how they are stored and which tokens there are",
  inFolder(async (folder) => {
    Deno.writeFileSync(`${folder}/train.bin`, new Uint8Array(Uint16Array.of(5, 50_000, 3, 7).buffer));
    Deno.writeFileSync(`${folder}/val.bin`, new Uint8Array(Uint16Array.of(9, 60_000).buffer));
    const { field, facts, examples } = await summary(folder);
    assertEquals([facts.stored, facts["validate with"]], ["uint16", "val.bin"]);
    assertEquals([field["train.bin"].shape, field["train.bin"].range?.max], [[4], 50_000]);
    assertEquals(examples.values["val.bin"], [[9], [60_000]]);
    assertEquals((await summary(`${folder}/val.bin`)).field["val.bin"].range?.min, 9);
  }),
);

Deno.test(
  "packed shards: what the index says, and the samples",
  inFolder(async (folder) => {
    await pack(`${folder}/packed`);
    const { samples, facts, field, examples } = await summary(`${folder}/packed`);
    assertEquals(samples, 103);
    assertStringIncludes(facts.origin, "numbers of a test");
    assertStringIncludes(facts.shards, "10 with 92 samples");
    assertStringIncludes(facts.shards, "2 with 11 samples");
    assertEquals([field.map.shape, field.map.range?.max], [[103, 2, 3], 10_205]);
    assertEquals(examples.values.amount[2], [2 / 7]);
    const verified = await lines(`${folder}/packed`, "--verify");
    assertMatch(verified.at(-1)!, /^verified: every checksum is right \(12 shards, .*\)$/);
    const shard = `${folder}/packed/shard-00003.bin`, bytes = Deno.readFileSync(shard);
    bytes[64 + 5] ^= 1;
    Deno.writeFileSync(shard, bytes);
    const error = await refusal(`${folder}/packed`);
    assertEquals(error.kind, "data");
    assertStringIncludes(error.message, "shard-00003.bin");
    // Damage that no shown sample has to do with is found by its sum alone.
    bytes[64 + 5] ^= 1;
    bytes[bytes.length - 9] ^= 1;
    Deno.writeFileSync(shard, bytes);
    Deno.truncateSync(`${folder}/packed/shard-00011.bin`, 100);
    assertSentence(
      "commands/inspect_data: damaged shard bin",
      (await refusal(`${folder}/packed`, "--verify")).message,
    );
  }),
);

Deno.test(
  "packed images as their files hold them are drawn too, with the names of their classes",
  inFolder(async (folder) => {
    python(IMAGES, folder);
    const names = ["cats/0.png", "dogs/1.png"];
    const files = names.map((name) => Deno.readFileSync(`${folder}/im/${name}`));
    const field = { shape: [], dtype: "i64", seen: "i64" } as const;
    const schema = {
      encoding: "encoded",
      input: { ...field, name: "images", dtype: "u8", seen: "f32" },
      target: { ...field, name: "labels" },
      task: "classification",
      outputs: 2,
      names: ["cats", "dogs"],
    } as const;
    const origin = { kind: "test", hash: "abc", said: "two images" };
    await writeEncoded(
      { out: `${folder}/packed`, schema, samples: 2, origin },
      { rank: 0, world: 1 },
      (sample) => ({
        input: files[sample],
        target: new Uint8Array(BigInt64Array.of(BigInt(sample)).buffer),
      }),
    );
    const shown = await lines(`${folder}/packed`, "--png", `${folder}/sheet.png`);
    assertEquals(shown.at(-2), "  images of samples 0 (cats), 1 (dogs)");
    assertEquals(JSON.parse(python(SHEET, folder, ...names)), [true, 70, 2 * 82 - 2, 3]);
  }),
);

Deno.test(
  "what can't be read is refused in the words of training",
  inFolder(async (folder) => {
    python(NUMPY, folder);
    const said = async (...argv: string[]) => {
      const { kind, message } = await refusal(...argv);
      assertEquals(kind, "data", message);
      return message;
    };
    const whole = Deno.readFileSync(`${folder}/alone.npy`);
    Deno.writeFileSync(`${folder}/short.npy`, whole.subarray(0, 500));
    assertMatch(await said(`${folder}/short.npy`), /is truncated: 3\d+ bytes expected .* 500 found/);
    Deno.writeTextFileSync(`${folder}/no.h5`, "nothing");
    assertStringIncludes(await said(`${folder}/no.h5`), "is no HDF5 file");
    Deno.writeTextFileSync(`${folder}/train-images-idx3-ubyte`, "PK");
    assertStringIncludes(await said(`${folder}/train-images-idx3-ubyte`), "is no idx file of images");
    assertStringIncludes(await said(`${folder}/nowhere.nc`), "there is no such file");
    Deno.mkdirSync(`${folder}/empty`);
    assertStringIncludes(await said(`${folder}/empty`), "what kind of data");
    Deno.writeFileSync(`${folder}/t.csv.gz`, new Uint8Array([0x1f, 0x8b, 8, 0]));
    assertStringIncludes(
      await said(`${folder}/t.csv.gz`),
      "packed by gzip, and that is not read. Convert it",
    );
  }),
);

Deno.test(
  "flags of the other half, and names that would write over data, are refused",
  inFolder(async (folder) => {
    python(NUMPY, folder);
    const path = `${folder}/plain.npz`;
    for (
      const [argv, part] of [
        [[path, "--verify"], sentenceNamed("commands/inspect_data: verify compares checksums")],
        [[`${folder}/a.pt`, "--png", "a.png"], "is taken for a checkpoint"],
        [[path, "--png", `${folder}/alone.npy`], "ends in .png"],
        [[path, "--data-type", "nectdf"], 'Did you mean "netcdf"?'],
      ] as const
    ) {
      const { kind, message } = await refusal(...argv);
      assertEquals(kind, "usage");
      assertStringIncludes(message, part);
    }
    const before = Deno.statSync(`${folder}/alone.npy`).size;
    assert(before > 1000, "and nothing was written over it");
    assertSentence(
      "commands/inspect_data: png written such",
      (await refusal(path, "--png", `${folder}/no/where.png`)).message,
      { folder },
    );
  }),
);

const GRID = `
import sys, numpy as np, xarray as xr
def grid(path, time, **encoding):
    n = len(time)
    ice = np.arange(n * 12.0).reshape(n, 3, 4)
    ice[:, 0, 1] = np.nan
    ds = xr.Dataset({"ice": (("time", "lat", "lon"), ice)}, coords={"time": time,
        "lat": ("lat", [80.0, 75.0, 70.0], {"units": "degrees_north"}), "lon": ("lon", [0.0, 1.0, 3.0, 10.0])})
    ds.time.encoding = encoding
    ds.to_netcdf(f"{sys.argv[1]}/{path}.nc")
months = xr.date_range("1990-01-01", periods=14, freq="MS", calendar="noleap", use_cftime=True)
grid("months", months[[0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13]], units="days since 1900-01-01", calendar="noleap")
grid("hours", np.arange("2000-01-01", "2000-01-03", dtype="M8[6h]").astype("M8[ns]"), units="hours since 2000-01-01")
grid("back", np.array(["2000-01-01", "2000-01-03", "2000-01-02"], dtype="M8[ns]"), units="days since 2000-01-01")
days = np.array(["01", "02", "02", "03", "05", "06", "07"])
grid("twice", np.char.add("2000-01-", days).astype("M8[ns]"), units="hours since 2000-01-01")
`;

Deno.test(
  "a grid: times with their calendar and gaps, the range and steps of each dimension, and the share that is missing",
  inFolder(async (folder) => {
    python(GRID, folder);
    const [, ...shown] = await lines(`${folder}/months.nc`);
    assertEquals(shown.slice(0, 6), [
      "  dimension  size  range",
      "  time       12    1990-01-01 to 1991-02-01 (noleap)  steps of 1 month; 2 missing: 1990-05-01 to 1990-06-01 (after index 3)",
      "  lat        3     80 to 70 degrees_north             steps of -5",
      "  lon        4     0 to 10                            uneven steps",
      "  variable  type  shape                    range     mean ± std     histogram",
      "  ice       f64   [time=12, lat=3, lon=4]  0 to 143  71.91 ± 41.56  ████████████████  12 missing (8.3%)",
    ]);
    const [time] = (await summary(`${folder}/hours.nc`)).dimensions;
    assertEquals(time.range, {
      ...{ from: "2000-01-01", to: "2000-01-02T18:00:00", step: "6 hours", gaps: [], repeats: [] },
      ...{ backwards: null, absent: null },
    });
    const back = (await summary(`${folder}/back.nc`)).dimensions[0].range!;
    assertEquals([back.backwards, back.step], [2, null]);
    assertStringIncludes((await lines(`${folder}/back.nc`))[2], "not in order at index 2");
    const twice = (await summary(`${folder}/twice.nc`)).dimensions[0].range!;
    assertEquals([twice.step, twice.backwards, twice.repeats], ["1 day", null, [{
      index: 2,
      at: "2000-01-02",
    }]]);
    assertEquals(twice.gaps, [
      { index: 3, from: "2000-01-03", to: "2000-01-05", steps: 1, missing: ["2000-01-04"] },
    ]);
    assertMatch(
      (await lines(`${folder}/twice.nc`))[2],
      /steps of 1 day; 1 missing: 2000-01-04 \(after index 3\); 1 repeated: 2000-01-02 \(index 2\)$/,
    );
  }),
);
