// TIFF and GeoTIFF files as rasterio (GDAL) and tifffile write them: the same bits in memory and a sample at a time.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { openRows } from "../../../core/data/arrays/open_rows.ts";
import type { Rows } from "../../../core/data/arrays/rows.ts";
import type { Variable } from "../../../core/data/arrays/table.ts";
import { detect } from "../../../core/data/open/formats.ts";
import { unpackBits, unpackLzw } from "../blocks.ts";
import { withTiff } from "../tiff.ts";
import { useLibtorch } from "../../../tests/libtorch.ts";
import { inFolder } from "../../../tests/core/checkpoint/python.ts";
import { alike, numbers, open } from "../../../tests/core/data/streamed.ts";
import { writtenBy } from "../../../tests/core/data/formats/written.ts";
import { assertSentence } from "../../../tests/sentences.ts";

useLibtorch();

const variablesIn = (path: string) =>
  withTiff(path, ({ columns }) => new Map(columns.map(({ name, variable }) => [name, variable])));

function streamed({ name, dtype, shape, rows }: Variable, bytes: number): Uint8Array {
  const reader = openRows({ name, raw: dtype!, rows: rows(1) as Rows }), each = bytes / shape[0];
  const all = new Uint8Array(bytes);
  for (let row = shape[0] - 1; row >= 0; row--) reader.read(row, all.subarray(row * each, (row + 1) * each));
  reader.close();
  return all;
}

function assertSame(found: Uint8Array, expected: Uint8Array, what: string): void {
  assertEquals(found.length, expected.length, what);
  const at = expected.findIndex((byte, i) => byte !== found[i]);
  assertEquals(at, -1, `${what} differs from byte ${at} on`);
}

const WALK = `
import rasterio, tifffile, warnings, os
warnings.simplefilter("ignore")
def walk(shape, t):
    a = np.cumsum(r.integers(-3, 4, size=shape), axis=-1) * (1.25 if np.dtype(t).kind == "f" else 1)
    return a.astype(t)
def keep(name, a): np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<")).tofile(name + ".bin")
`;

Deno.test(
  "each type by each codec, predictor, order of bytes and layout, as GDAL and tifffile read it, bit for bit",
  inFolder((folder) => {
    const count = writtenBy(
      folder,
      `${WALK}
n = 0
for i, t in enumerate(["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]):
    for j, c in enumerate(["NONE", "LZW", "DEFLATE", "ZSTD", "PACKBITS"]):
        for p in ([1, 2, 3] if t[0] == "f" else [1, 2]) if c in ("LZW", "DEFLATE", "ZSTD") else [1]:
            k = n % 8; n += 1
            if t == "float64" and p == 2: continue
            bands = [1, 3, 5][n % 3]; a = walk((bands, 37, 53), t); name = f"{t}-{c}-{p}"
            options = dict(tiled=bool(k & 1), interleave=["pixel", "band"][k >> 1 & 1], ENDIANNESS=["LITTLE", "BIG"][k >> 2 & 1], BIGTIFF=["NO", "YES"][n % 2], compress=c)
            if k & 1: options.update(blockxsize=32, blockysize=16)
            else: options.update(blockysize=[8, 37][n % 2])
            if p > 1: options["predictor"] = p
            with rasterio.open(name + ".tif", "w", driver="GTiff", height=37, width=53, count=bands, dtype=t, **options) as f: f.write(a)
            keep(name, rasterio.open(name + ".tif").read())
for i, t in enumerate(["u1", "i1", "<u2", ">i2", "<u4", ">i4", "<f2", ">f2", "<f4", ">f4", "<f8", ">u8"]):
    for j, (shape, options) in enumerate([((4, 19, 23), {}), ((4, 19, 23, 3), dict(photometric="rgb")), ((4, 3, 19, 23), dict(photometric="rgb", planarconfig="separate")),
                                          ((3, 40, 50), dict(tile=(16, 32))), ((2, 19, 23), dict(rowsperstrip=5))]):
        if t[-2:] in ("f2", "f8", "u8", "i1") and "photometric" in options and t[-1] == "8": continue
        name = f"t{i}-{j}"; a = walk(shape, t[-2:]).astype(np.dtype(t[-2:]))
        extra = dict(compression="zlib", **({} if t[-2] == "f" else dict(predictor=2))) if (i + j) % 3 == 0 else {}
        tifffile.imwrite(name + ".tif", a, byteorder=">" if t[0] == ">" else "<", bigtiff=(i + j) % 2 == 0, metadata=None, **{"photometric": "minisblack", **options}, **extra)
        b = tifffile.imread(name + ".tif").reshape(shape); assert (b == a).all()
        keep(name, np.moveaxis(b, -1, 1) if j == 1 else b); n += 1
print(n)`,
    ) as number;
    const files = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) =>
      name.endsWith(".tif")
    );
    assert(files.length > 100 && count >= files.length, `${files.length} files`);
    for (const file of files) {
      const image = variablesIn(`${folder}/${file}`).get("image")!;
      assertEquals(image.unusable, undefined, file);
      const expected = Deno.readFileSync(`${folder}/${file.replace(".tif", ".bin")}`);
      assertSame(image.read(), expected, file);
      assertSame(streamed(image, expected.length), expected, `${file}, streamed`);
      const bands = [...variablesIn(`${folder}/${file}`).values()].filter(({ name }) =>
        name.startsWith("band_")
      );
      if (bands.length === 0) continue;
      const last = bands.at(-1)!, [pages, all] = image.shape, part = expected.length / pages / all;
      const own = Array.from(
        { length: pages },
        (_, i) => [...expected.subarray(((i + 1) * all - 1) * part, (i + 1) * all * part)],
      );
      assertSame(last.read(), Uint8Array.from(own.flat()), `${file}: ${last.name}`);
    }
  }),
);

Deno.test(
  "a folder of GeoTIFFs is a data set: files as samples, bands by name, missing values, and where the pixels lie",
  inFolder(async (folder) => {
    const made = writtenBy(
      folder,
      `${WALK}
from rasterio.transform import from_origin
os.makedirs("x"); os.makedirs("stacks")
for i in range(4): tifffile.imwrite(f"stacks/{i}.tif", r.normal(size=(5, 8, 8)).astype("f4"), photometric="minisblack")
os.makedirs("set/images"); os.makedirs("set/masks")
a = r.normal(size=(12, 3, 16, 24)).astype("f4"); a[2, :, 3, 4] = -9999; sea = a.copy()
place = from_origin(500000, 4100000, 30, 30)
for i in range(12):
    with rasterio.open(f"x/{i + 1}.tif", "w", driver="GTiff", height=16, width=24, count=3, dtype="float32", crs="EPSG:32633", transform=place, nodata=-9999, compress="lzw", tiled=True, blockxsize=16, blockysize=16) as f:
        f.write(a[i]); f.descriptions = ("red", "nir", "ndvi"); f.units = ("1", "1", "1")
    tifffile.imwrite(f"set/images/s{i}.tif", r.integers(0, 255, (16, 24, 3)).astype("u1"), photometric="rgb")
    tifffile.imwrite(f"set/masks/s{i}.tif", (a[i, 0] > 0).astype("u1"))
with rasterio.open("x/1.tif") as f: centres = [f.xy(0, 0), f.xy(15, 23)]
with rasterio.open("point.tif", "w", driver="GTiff", height=4, width=6, count=1, dtype="int16", crs="EPSG:4326", transform=from_origin(-10, 60, .5, .25), nodata=-1) as f:
    f.write(np.arange(24, dtype="i2").reshape(1, 4, 6)); f.scales = (0.5,); f.offsets = (10,)
with rasterio.open("point.tif", "r+") as f: f.update_tags(AREA_OR_POINT="Point")
with rasterio.open("point.tif") as f: point = [f.xy(0, 0), f.xy(3, 5)]
a[2, :, 3, 4] = np.nan; a.tofile("a.bin")
print(json.dumps({"centres": centres, "point": point}))`,
    ) as Record<"centres" | "point", [x: number, y: number][]>;
    assertThrows(() => detect("http://127.0.0.1:9/x.TIF?key=1"), UserError, "Copy it first (curl -LO");
    assertEquals(detect(`${folder}/x`), "tiff");
    const ends = (path: string) =>
      withTiff(path, ({ columns }) => {
        const of = (name: string) => columns.find((column) => column.name === name)!;
        const [x, y] = ["x", "y"].map((name) => new Float64Array((of(name).read() as Uint8Array).buffer));
        return { ends: [[x[0], y[0]], [x.at(-1)!, y.at(-1)!]], of };
      });
    const { ends: found, of } = ends(`${folder}/x`);
    assertEquals(found, made.centres);
    assertEquals(of("image").dimensions, ["file", "band", "y", "x"]);
    assertEquals(of("image").variable.attributes.get("crs"), "EPSG:32633");
    const values = of("image").read() as Float32Array;
    assertSame(new Uint8Array(values.buffer), Deno.readFileSync(`${folder}/a.bin`), "missing values");
    assertEquals(of("ndvi").units, "1");
    const other = ends(`${folder}/point.tif`);
    assertEquals(other.ends, made.point);
    assertEquals([...(other.of("image").read() as Float32Array)].slice(0, 3), [10, 10.5, 11]);
    assertEquals(other.of("x").variable.attributes.get("standard_name"), "longitude");

    const bands = { features: ["red", "nir"], targets: ["ndvi"], missing: "mask" } as const;
    const { train } = await alike(`${folder}/x`, {
      data: { ...bands, features: [...bands.features], targets: ["ndvi"] },
      model: { name: "unet" },
    });
    assertEquals([train.input.shape, train.target.shape], [[2, 16, 24], [1, 16, 24]]);
    const grid = train.grid!()!;
    assertEquals(grid.dimensions.map(({ name }) => name), ["file", "y", "x"]);
    assertEquals(grid.coordinates.map(({ name }) => name).filter((name) => /^[xy]$/.test(name)).sort(), [
      "x",
      "y",
    ]);
    const points = await open(`${folder}/x`, "yes", {
      data: { features: ["red", "nir"], targets: ["ndvi"] },
      model: { name: "mlp" },
    });
    assertEquals(points.train.input.shape, [2]);

    const shapeOf = (path: string, along = "") =>
      withTiff(path, ({ columns: [{ shape, dimensions }] }) => [shape, dimensions], along);
    assertEquals(shapeOf(`${folder}/stacks`), [[20, 8, 8], ["page", "y", "x"]]);
    assertEquals(shapeOf(`${folder}/stacks`, "file"), [[4, 5, 8, 8], ["file", "page", "y", "x"]]);
    assertEquals(shapeOf(`${folder}/stacks/1.tif`, "file"), [[1, 5, 8, 8], ["file", "page", "y", "x"]]);

    const { train: masks } = await alike(`${folder}/set`, {
      data: { features: ["images"], targets: ["masks"] },
      model: { name: "unet" },
      training: { loss: "auto" },
    });
    assertEquals([masks.input.shape, masks.facts.task, masks.facts.outputs], [
      [3, 16, 24],
      "segmentation",
      2,
    ]);
    assert(numbers(masks).length === 2);
  }),
);

Deno.test(
  "damaged, odd and hostile files end in a sentence that names the file and the page, and take little memory",
  inFolder((folder) => {
    writtenBy(
      folder,
      `${WALK}
a = walk((3, 40, 50), "i2")
tifffile.imwrite("good.tif", a, compression="zlib", rowsperstrip=40, metadata=None, photometric="minisblack")
good = open("good.tif", "rb").read()
open("cut.tif", "wb").write(good[:len(good) // 2]); open("none.tif", "wb").write(b"MZ" * 200); open("empty.tif", "wb")
with tifffile.TiffWriter("odd.tif") as f: f.write(a[0]); f.write(a[0, :9])
with tifffile.TiffFile("good.tif") as f:
    first, last = f.pages[0], f.pages[2]; at = {t.code: (t.valueoffset, {3: 2, 4: 4}.get(int(t.dtype), 0)) for t in first.tags}
    end = lambda page: page.offset + 2 + 12 * len(page.tags)
def put(name, values, place=None, number=0):
    b = bytearray(good)
    for tag, value in values.items(): o, n = at[tag]; b[o:o + n] = value.to_bytes(n, "little")
    if place: b[place:place + 4] = number.to_bytes(4, "little")
    open(name + ".tif", "wb").write(b)
put("high", {257: 60000}); put("rows", {278: 60000}); put("size", {279: 10**9}); put("where", {273: 10**9}); put("jpeg", {259: 7}); put("bits", {258: 12}, end(first))
put("loop", {}, end(last), first.offset); put("bomb", {256: 60000, 257: 20000, 278: 20000}, end(first))`,
    );
    const sentence = (name: string): string => {
      const error = assertThrows(() => {
        const { unusable, read } = variablesIn(`${folder}/${name}.tif`).get("image")!;
        if (unusable) throw new UserError("data", `${name}.tif ${unusable}`);
        read();
      }, UserError);
      assert(["data", "memory"].includes(error.kind), error.message);
      return error.message;
    };
    assertSentence("extensions/tiff/tests/tiff: cut tif damaged", sentence("cut"));
    assertMatch(sentence("none"), /none\.tif is no TIFF file/);
    assertMatch(sentence("empty"), /empty\.tif is no TIFF file/);
    assertSentence("extensions/tiff/tests/tiff: odd tif page", sentence("odd"));
    assertSentence("extensions/tiff/tests/tiff: page strips tiles", sentence("high"));
    assertSentence("extensions/tiff/tests/tiff: strip bytes far", sentence("size"));
    assertMatch(sentence("where"), /strip 0 lies outside of the file, or is cut off/);
    assertSentence("extensions/tiff/tests/tiff: packed jpeg read", sentence("jpeg"));
    assertMatch(sentence("bits"), /has numbers of 12 bits: .*gdal_translate -ot/);
    assertMatch(sentence("loop"), /its page 3 leads back to one before/);
    assertMatch(sentence("bomb"), /which can't become the 2400000000 of a chunk|smaller tiles/);
    assertEquals(variablesIn(`${folder}/rows.tif`).get("image")!.shape, [3, 40, 50]);
  }),
);

Deno.test("LZW and PackBits survive any damage: a sentence or wrong numbers, never a crash", () => {
  const random = new Uint8Array(4096), into = new Uint8Array(3000);
  let seed = 7;
  for (let round = 0; round < 1000; round++) {
    for (let i = 0; i < random.length; i++) {
      random[i] = (seed = Math.imul(seed, 1103515245) + 12345 >>> 0) >>> 16;
    }
    random[0] = 128;
    unpackLzw(random.subarray(0, seed % 4096), into);
    unpackBits(random.subarray(0, seed % 4096), into);
  }
});
