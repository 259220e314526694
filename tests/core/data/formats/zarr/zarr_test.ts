// Zarr stores as zarr-python and xarray write them: the same bits in memory and a sample at a time.
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { openRows } from "../../../../../core/data/arrays/open_rows.ts";
import type { Rows } from "../../../../../core/data/arrays/rows.ts";
import type { Variable } from "../../../../../core/data/arrays/table.ts";
import { withZarr, zarrVariables } from "../../../../../core/data/formats/zarr/zarr.ts";
import {
  openBlosc,
  unpackBloscLz,
  unpackLz4,
  unpackLz4Locally,
} from "../../../../../core/data/codecs/blosc.ts";
import { UserError } from "../../../../../core/base/errors.ts";
import { gzipSync } from "node:zlib";
import { detect } from "../../../../../core/data/open/formats.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder } from "../../../checkpoint/python.ts";
import { alike, layouts, numbers } from "../../streamed.ts";
import { writtenBy } from "../written.ts";
import { assertSentence } from "../../../../sentences.ts";

useLibtorch();

const variablesIn = (path: string) => new Map(zarrVariables(path).variables.map((one) => [one.name, one]));

/** All rows by a reader, joined. */
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

/** Each array `n` of the store has its numbers in `n.bin`. */
function assertStore(folder: string, store: string, names: readonly string[]): void {
  const variables = variablesIn(`${folder}/${store}`);
  for (const name of names) {
    const variable = variables.get(name)!, what = `${store}/${name}`;
    assertEquals(variable.unusable, undefined, what);
    const expected = Deno.readFileSync(`${folder}/${store}.${name}.bin`);
    assertSame(variable.read(), expected, what);
    assertSame(streamed(variable, expected.length), expected, `${what}, streamed`);
  }
}

const SAVE = `
import zarr, warnings
from numcodecs import Blosc, Zlib, GZip, Zstd, LZ4, Shuffle, BitRound
warnings.simplefilter("ignore")
listed = {}
def save(store, name, a):
    np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<")).tofile(f"{store}.{name}.bin")
    listed.setdefault(store, []).append(name)
def walk(shape, t):
    a = np.cumsum(r.integers(-3, 4, size=shape), axis=-1) * (1.25 if np.dtype(t).kind == "f" else 1)
    return a.astype(t)
`;

Deno.test(
  "versions 2 and 3: each type by each codec, in both orders, with edges and gaps, as written bit for bit",
  inFolder((folder) => {
    const stores = writtenBy(
      folder,
      `${SAVE}
types = ["?", "i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u4", "<i8", ">u8", "<f2", ">f4", "<f4", "<f8", ">f8"]
ways = dict(plain=dict(compressor=None), zlib=dict(compressor=Zlib(4)), gzip=dict(compressor=GZip(4)), zstd=dict(compressor=Zstd(3)),
            lz4=dict(compressor=LZ4()), filtered=dict(compressor=Zlib(1), filters=[Shuffle(4)]), only=dict(compressor=None, filters=[Shuffle(2)]))
for c in ("lz4", "lz4hc", "zstd", "zlib", "blosclz"):
    for s in (0, 1, 2): ways[f"{c}{s}"] = dict(compressor=Blosc(c, 5, s))
zarr.open_group("two.zarr", mode="w", zarr_format=2)
for i, t in enumerate(types):
    for j, (way, options) in enumerate(ways.items()):
        if (i + j) % 3: continue
        if "filters" in options: options["filters"] = [Shuffle(np.dtype(t).itemsize)]
        for order in "CF" if (i + j) % 2 else "C":
            a = walk((11, 7, 9), t); name = f"{np.dtype(t).name}{'b' if t[0] == '>' else ''}-{way}-{order}"
            z = zarr.create(a.shape, chunks=[(4, 7, 9), (1, 3, 5), (11, 7, 4)][j % 3], dtype=a.dtype, order=order, store="two.zarr",
                            path=name, zarr_format=2, fill_value=0, dimension_separator="./"[i % 2], **options)
            z[:] = a; save("two.zarr", name, a)
from zarr.codecs import BytesCodec, BloscCodec, GzipCodec, ZstdCodec, Crc32cCodec, TransposeCodec, ShardingCodec
packs = dict(plain=[], gzip=[GzipCodec()], zstd=[ZstdCodec(level=3, checksum=True)], crc=[Crc32cCodec()], both=[ZstdCodec(), Crc32cCodec()], inner=[Crc32cCodec(), GzipCodec()])
for c in ("lz4", "zstd", "zlib", "blosclz", "lz4hc"):
    for s in ("noshuffle", "shuffle", "bitshuffle"): packs[f"{c}-{s}"] = [BloscCodec(cname=c, shuffle=s)]
for i, t in enumerate(["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]):
    for j, (way, codecs) in enumerate(packs.items()):
        if (i + j) % 3: continue
        a = walk((11, 6, 9), t); name = f"{np.dtype(t).name}-{way}"; kind = (i + j) // 3 % 4
        bytes_ = BytesCodec(endian=None if a.itemsize == 1 else ["little", "big"][i % 2])
        turn = [TransposeCodec(order=(2, 0, 1))] if kind == 1 else []
        inner = [*turn, bytes_, *codecs]
        if kind >= 2: chunks, full = (8, 6, 10), [ShardingCodec(chunk_shape=(2, 3, 5), codecs=inner, index_location=["start", "end"][kind - 2])]
        else: chunks, full = [(1, 6, 9), (4, 4, 4)][kind], inner
        z = zarr.create(a.shape, chunks=chunks, dtype=a.dtype, store="three.zarr", path=name, zarr_format=3, fill_value=0, codecs=full,
                        chunk_key_encoding=[("default", "/"), ("default", "."), ("v2", ".")][i % 3])
        z[:] = a; save("three.zarr", name, a)
print(json.dumps(listed))`,
    ) as Record<string, string[]>;
    assertEquals(Object.keys(stores), ["two.zarr", "three.zarr"]);
    for (const [store, names] of Object.entries(stores)) assertStore(folder, store, names);
  }),
);

Deno.test(
  "gaps, all of a shard or some of it, have the fill value of their type; samples are alike in memory and streamed",
  inFolder(async (folder) => {
    writtenBy(
      folder,
      `${SAVE}
from zarr.codecs import ZstdCodec, BytesCodec, ShardingCodec
for version, store in ((2, "two.zarr"), (3, "three.zarr")):
    zarr.open_group(store, mode="w", zarr_format=version)
    def make(name, fill, t, shape=(10, 3, 13, 12), chunks=(2, 3, 5, 5), **options):
        return zarr.create(shape, chunks=chunks, dtype=t, store=store, path=name, zarr_format=version, fill_value=fill, **options)
    for t, fill in (("f4", -7.5), ("f4", float("nan")), ("f8", float("-inf")), ("i8", -2**63), ("u8", 2**64 - 1), ("i2", -257), ("?", True), ("f2", 1.5)):
        name = f"{t.replace('?', 'bool')}-{fill}"; z = make(name, fill, t); z[3, :, 3:9, 2:8] = 1; save(store, name, z[:])
    if version == 3:
        # zarr-python writes no chunk that is all fill, inside of a shard or out of it.
        z = make("shards", 5, "f4", chunks=(4, 3, 15, 15), codecs=[ShardingCodec(chunk_shape=(2, 1, 5, 5), codecs=[BytesCodec(), ZstdCodec()])])
        z[3, :, 3:9, 2:8] = 1; z[9, 0, 12, 11] = 2; save(store, "shards", z[:])
    x = make("x", 0, "f4"); x[:] = r.normal(size=x.shape)
    last = make("last", 0, "u1", (10, 13, 12, 3), (3, 13, 12, 3)); last[:] = r.integers(0, 255, last.shape)
    make("deep/row", 0, "f4", (10, 6), (4, 4))[:] = 1.5; make("single", 3, "i4", (), ()); zarr.open_group(store, mode="a", path="deep")
    y = make("y", 0, "f8", (10,), (4,)); y[:] = np.arange(10) * 0.5
print(json.dumps(listed))`,
    );
    for (const store of ["two.zarr", "three.zarr"]) {
      const names = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) =>
        name.endsWith(".bin")
      );
      const mine = names.filter((name) => name.startsWith(store)).map((name) =>
        name.slice(store.length + 1, -4)
      );
      assert(mine.length >= 8);
      assertStore(folder, store, mine);
      for (const features of [["x"], ["last"], ["deep/row"], ["f4--7.5", "x", "i2--257"]]) {
        const { train } = await alike(`${folder}/${store}`, { data: { features, targets: ["y"] } });
        assertEquals(layouts(train), features.map(() => "store"));
      }
      const single = variablesIn(`${folder}/${store}`).get("single")!;
      assertEquals([single.shape, [...single.read()]], [[], [3, 0, 0, 0]]);
    }
  }),
);

Deno.test(
  "what xarray writes has its dimensions, coordinates, fills, scales and units; consolidated metadata or none are the same",
  inFolder((folder) => {
    const expected = writtenBy(
      folder,
      `
import xarray as x, pandas as pd, zarr, warnings
warnings.simplefilter("ignore")
sst = r.normal(size=(12, 5, 6)).astype("f4"); sst[:, 1:3, 2] = np.nan
ds = x.Dataset({"sst": (("time", "lat", "lon"), sst, {"units": "degC"}), "ice": (("time", "lat", "lon"), np.abs(sst)), "count": (("time",), np.arange(12))},
               {"time": pd.date_range("2000-01-01", periods=12), "lat": np.arange(5.0), "lon": np.arange(6.0), "area": (("lat", "lon"), np.ones((5, 6)))})
ds["ice"].encoding = {"dtype": "i2", "_FillValue": -32767, "scale_factor": 0.01, "add_offset": 1.5}
found = {}
for version in (2, 3):
    for consolidated in (True, False):
        store = f"{version}{consolidated}.zarr"; ds.to_zarr(store, zarr_format=version, consolidated=consolidated)
        back = x.open_zarr(store, consolidated=consolidated)
        found[store] = {k: np.where(np.isnan(back[k].values), None, back[k].values).tolist() for k in ("sst", "ice")}
print(json.dumps(found))`,
    ) as Record<string, Record<string, (number | null)[][][]>>;
    const numbers = (values: ArrayLike<number>) =>
      Array.from(values, (value) => Number.isNaN(value) ? null : value);
    for (const [store, arrays] of Object.entries(expected)) {
      assertEquals(detect(`${folder}/${store}`), "zarr");
      withZarr(`${folder}/${store}`, ({ columns, isNetcdf }) => {
        assert(isNetcdf, "dimensions have names");
        for (const name of ["sst", "ice"]) {
          const column = columns.find((column) => column.name === name)!;
          assertEquals(column.dimensions, ["time", "lat", "lon"]);
          const found = numbers(column.read() as Float32Array), theirs = arrays[name].flat(2);
          assertEquals(
            found.map((value) => value === null),
            theirs.map((value) => value === null),
            `${store}: ${name}`,
          );
          found.forEach((value, i) =>
            assert(value === null || Math.abs(value - theirs[i]!) < 1e-5, `${value} ${theirs[i]}`)
          );
        }
        assertEquals(columns.find(({ name }) => name === "sst")!.units, "degC");
        const aside = columns.filter(({ onlyByName }) => onlyByName).map(({ name }) => name).sort();
        assertEquals(aside, ["area", "lat", "lon", "time"]);
      });
    }
  }),
);

/** A store of version 2 with one array, whose metadata have these changes. */
function storeOf(folder: string, changes: object, chunks: Record<string, Uint8Array> = {}): string {
  const path = Deno.makeTempDirSync({ dir: folder, suffix: ".zarr" });
  const about = { zarr_format: 2, shape: [4, 4], chunks: [2, 4], dtype: "<f4", fill_value: 0, order: "C" };
  Deno.writeTextFileSync(`${path}/.zgroup`, `{"zarr_format": 2}`);
  Deno.mkdirSync(`${path}/a`);
  const all = { ...about, filters: null, compressor: null, ...changes };
  Deno.writeTextFileSync(`${path}/a/.zarray`, JSON.stringify(all));
  for (const [name, bytes] of Object.entries(chunks)) Deno.writeFileSync(`${path}/a/${name}`, bytes);
  return path;
}

Deno.test(
  "what is not read is told in one sentence with the way to convert it",
  inFolder((folder) => {
    const cases: [object, RegExp][] = [
      [
        { compressor: { id: "bz2", level: 1 } },
        /^is packed by "bz2", .*drop_encoding\(\)\.to_zarr\('NEW'\)"$/,
      ],
      [{ filters: [{ id: "delta", dtype: "<f4" }] }, /^is packed by "delta"/],
      [{ filters: [{ id: "zlib" }], compressor: { id: "blosc" } }, /^is packed twice \(zlib, then blosc\)/],
      [{ dtype: "|O" }, /^holds Python objects: .*astype/],
      [{ dtype: "<U8" }, /^holds text/],
      [{ dtype: "<c8" }, /^holds complex numbers: .*z\[:\]\.real/],
      [{ dtype: "<M8[ns]" }, /^holds dates/],
      [{ dtype: [["a", "<f4"]] }, /^has records with named fields/],
      [{ chunks: [-1, 4] }, /^has damaged metadata \(chunks is \[-1, 4\]\)$/],
      [{ chunks: [0, 4] }, /chunks is \[0, 4\]/],
      [{ chunks: [2] }, /in chunks of \[2\]/],
      [{ shape: [2 ** 40, 2 ** 40] }, /a shape of/],
      [{ shape: [1.5, 4] }, /shape is \[1\.5, 4\]/],
      [{ shape: "all" }, /no shape/],
      [{ chunks: [2 ** 20, 2 ** 20] }, /chunks of more than 2 GiB/],
      [{ dimension_separator: "/../" }, /dimension_separator is/],
      [{ fill_value: "x" }, /fill_value is "x"/],
      [{ order: "?" }, /order is/],
    ];
    for (const [changes, reason] of cases) {
      const [{ unusable }] = zarrVariables(storeOf(folder, changes)).variables;
      assertMatch(unusable ?? "", reason, JSON.stringify(changes));
    }
  }),
);

Deno.test(
  "damaged stores end in a sentence that names the chunk, and take no more memory than a chunk has",
  inFolder((folder) => {
    const sentence = (run: () => unknown): string => {
      try {
        run();
      } catch (error) {
        assert(error instanceof UserError, String(error));
        assertEquals(error.kind, "data");
        return error.message;
      }
      throw new Error("nothing was refused");
    };
    const read = (changes: object, chunks: Record<string, Uint8Array>) =>
      sentence(() => zarrVariables(storeOf(folder, changes, chunks)).variables[0].read());
    const cut = new Uint8Array(31);
    assertStringIncludes(read({}, { "0.0": cut }), "0.0 (31 bytes) has 31 bytes, and 32 belong there");
    for (const id of ["gzip", "zlib", "zstd", "lz4", "blosc"]) {
      assertMatch(read({ compressor: { id } }, { "1.0": new Uint8Array(40) }), /1\.0 \(40 bytes\)/, id);
    }
    const bomb = gzipSync(new Uint8Array(2 ** 24));
    assertStringIncludes(read({ compressor: { id: "gzip" } }, { "0.0": bomb }), "can't be unpacked");
    assertStringIncludes(read({}, { "0.0": new Uint8Array(2 ** 20) }), "far larger than it can be");
    for (const name of ["../../a", "/etc", "a//b", "..", "a\\b"]) {
      const path = storeOf(folder, {});
      const metadata = { [`${name}/.zarray`]: {}, ".zgroup": {} };
      Deno.writeTextFileSync(`${path}/.zmetadata`, JSON.stringify({ zarr_consolidated_format: 1, metadata }));
      assertStringIncludes(sentence(() => zarrVariables(path)), "which is no array inside of it");
    }
    const odd = storeOf(folder, {});
    Deno.symlinkSync("..", `${odd}/again`);
    assertEquals(zarrVariables(odd).variables.map(({ name }) => name), ["a"]);
    Deno.writeTextFileSync(`${odd}/a/.zarray`, "{");
    assertStringIncludes(sentence(() => zarrVariables(odd)), "is no JSON");
    assertStringIncludes(sentence(() => withZarr(`${folder}/none.zarr`, () => 0)), "there is no such file");
    Deno.mkdirSync(`${folder}/empty`);
    assertStringIncludes(sentence(() => withZarr(`${folder}/empty`, () => 0)), "is no Zarr store");
  }),
);

Deno.test("Blosc's and LZ4's streams survive any damage: a sentence or wrong numbers, never a crash", () => {
  const unpack = openBlosc(), random = new Uint8Array(4096), into = new Uint8Array(1024);
  let seed = 1;
  const next = () => seed = Math.imul(seed, 1103515245) + 12345 >>> 0;
  for (let round = 0; round < 3000; round++) {
    for (let i = 0; i < random.length; i++) random[i] = next() >>> 16;
    unpackLz4(random.subarray(0, next() % 4096), into);
    unpackLz4Locally(random.subarray(0, next() % 4096), into);
    unpackBloscLz(random.subarray(0, next() % 4096), into);
    const view = new DataView(random.buffer);
    random[2] = next() >>> 16 & 0xfd;
    view.setUint32(4, into.length, true);
    view.setUint32(8, 1 + next() % 1024, true);
    view.setUint32(12, random.length, true);
    unpack(random, into);
  }
});

Deno.test(
  "yearly stores are one data set by a folder, a glob or a list, in memory and a sample at a time",
  inFolder(async (folder) => {
    writtenBy(
      folder,
      `
import xarray as x, pandas as pd, warnings
warnings.simplefilter("ignore")
t = pd.date_range("1999-12-29", periods=9); a = r.normal(size=(9, 3, 8, 8)).astype("f4")
ds = x.Dataset({"x": (("time", "c", "lat", "lon"), a), "y": (("time", "k", "lat", "lon"), a[:, :1] * 2)}, {"time": t})
ds.to_zarr("whole.zarr"); os.mkdir("years")
for year, part in ds.groupby("time.year"): part.to_zarr(f"years/{year}.zarr", zarr_format=[2, 3][year % 2], encoding={"x": {"chunks": (2, 3, 8, 5)}})`,
    );
    const years = `${folder}/years`;
    const of = (path: string) =>
      alike(path, { data: { features: ["x"], targets: ["y"] }, model: { name: "unet" } });
    const whole = numbers((await of(`${folder}/whole.zarr`)).train);
    for (const path of [years, `${years}/*.zarr`, `${years}/1999.zarr,${years}/2000.zarr`]) {
      assertEquals(detect(path), "zarr", path);
      const { train, notes } = await of(path);
      assertEquals(numbers(train), whole, path);
      assert(notes.some((note) => note.includes("joined along time")), notes.join("\n"));
    }
  }),
);

Deno.test(
  "a named pipe in place of a chunk is refused with a sentence, and nobody waits for its writer",
  inFolder((folder) => {
    const array = {
      zarr_format: 2,
      shape: [4, 2],
      chunks: [2, 2],
      dtype: "<f4",
      compressor: null,
      fill_value: 0,
    };
    Deno.mkdirSync(`${folder}/s/x`, { recursive: true });
    Deno.writeTextFileSync(`${folder}/s/.zgroup`, JSON.stringify({ zarr_format: 2 }));
    Deno.writeTextFileSync(
      `${folder}/s/x/.zarray`,
      JSON.stringify({ ...array, order: "C", filters: null }),
    );
    Deno.writeFileSync(`${folder}/s/x/0.0`, new Uint8Array(16));
    assert(new Deno.Command("mkfifo", { args: [`${folder}/s/x/1.0`] }).outputSync().success);
    const error = assertThrows(() => variablesIn(`${folder}/s`).get("x")!.read(), Error);
    assertSentence("core/data/formats/zarr/zarr: read file pipe", error.message);
  }),
);
