// HDF5 and NetCDF-4 read a sample at a time: the numbers that memory has, which are those of h5py and netCDF4.
import { assert, assertEquals } from "@std/assert";
import type { ArraysSpec } from "../../../../../../core/data/tables/reader.ts";
import { openPipeline } from "../../../../../../core/data/source/pipeline.ts";
import type { Source } from "../../../../../../core/data/source/source.ts";
import { useLibtorch } from "../../../../../libtorch.ts";
import { inFolder } from "../../../../checkpoint/python.ts";
import { range } from "../../../tables/help.ts";
import { alike, layouts, numbers, open, refusedReading, written } from "../../../streamed.ts";
import { type ChunkRows, chunkRows } from "../../../../../../core/data/formats/netcdf/hdf5/chunk_rows.ts";
import { sentenceNamed } from "../../../../../sentences.ts";

useLibtorch();

const hdf5 = (folder: string, code: string) => written(folder, `import h5py\n${code}`);

Deno.test(
  "every type, byte order and way of storage",
  inFolder(async (folder) => {
    const ways = hdf5(
      folder,
      `
ways = dict(plain={}, chunked=dict(chunks=(3, 2)), gzip=dict(chunks=(3, 2), compression="gzip"),
            shuffled=dict(chunks=(1, 4), compression="gzip", compression_opts=9, shuffle=True), checked=dict(chunks=(2, 4), fletcher32=True),
            all=dict(chunks=(4, 3), compression="gzip", shuffle=True, fletcher32=True), only=dict(chunks=(5, 4), shuffle=True),
            growing=dict(maxshape=(None, 4), compression="gzip"))
for way, options in ways.items():
    with h5py.File(way + ".h5", "w") as f:
        f["y"] = np.arange(11) * 0.5
        for t in "?bBhHiIqQefd":
            for order in "<>":
                a = (r.normal(size=(11, 4)) * 50).astype(t).astype(np.dtype(t).newbyteorder(order))
                f.create_dataset(("big" if order == ">" else "little") + np.dtype(t).name, data=a, **options)
print(json.dumps([*ways]))`,
    ) as string[];
    for (const way of ways) {
      const features = ["little", "big"].flatMap((order) =>
        ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"].concat([
          "float16",
          "float32",
          "float64",
        ]).map((type) => `${order}${type}`)
      );
      const { train } = await alike(`${folder}/${way}.h5`, { data: { features, targets: ["y"] } });
      assertEquals(layouts(train), features.map(() => way === "plain" ? "file" : "chunks"), way);
      for (const name of ["littleint16", "biguint32", "littlefloat16", "bigfloat64", "littleuint8"]) {
        await alike(`${folder}/${way}.h5`, { data: { features: [name], targets: ["y"] } });
      }
    }
  }),
);

Deno.test(
  "maps in chunks of every shape, with their edges over the end, gaps that were never written, and channels last",
  inFolder(async (folder) => {
    hdf5(
      folder,
      `
a = r.normal(size=(10, 3, 13, 12)).astype("f4")
with h5py.File("a.h5", "w") as f:
    f["y"] = np.arange(10.0)
    for i, chunks in enumerate([(1, 3, 13, 12), (4, 3, 13, 12), (10, 1, 5, 12), (3, 2, 5, 7), (1, 1, 1, 1), (10, 3, 13, 5), (2, 3, 4, 12)]):
        f.create_dataset(f"x{i}", data=a, chunks=chunks, compression="gzip", maxshape=(None,) * 4)
    f.create_dataset("wide", data=a, chunks=(16, 4, 16, 16), maxshape=(None,) * 4, compression="gzip")
    gaps = f.create_dataset("gaps", a.shape, "f4", chunks=(2, 3, 5, 5), fillvalue=-7.5); gaps[3, :, 3:9, 2:8] = 1.25
    gaps = f.create_dataset("swapped", a.shape, ">i2", chunks=(1, 3, 5, 5), fillvalue=-257); gaps[3, :, 3:9, 2:8] = 259
    f.create_dataset("last", data=a.transpose(0, 2, 3, 1), chunks=(2, 13, 12, 3), compression="gzip")
    some = f.create_dataset("some", a.shape, "f4", chunks=(1, 3, 13, 12), compression="gzip"); some.id.write_direct_chunk((4, 0, 0, 0), a[4].tobytes(), 1)
    early = f.create_dataset("shrunk", (20, 3, 13, 12), "f4", chunks=(3, 3, 13, 12), maxshape=(None, 3, 13, 12)); early[:10] = a; early.resize(10, 0)`,
    );
    const all = [...range(0, 7).map((i) => `x${i}`), "wide", "gaps", "swapped", "last", "some", "shrunk"];
    for (const name of all) {
      const { train } = await alike(`${folder}/a.h5`, { data: { features: [name], targets: ["y"] } });
      assertEquals(layouts(train), ["chunks"], name);
      assertEquals(train.input.shape, [3, 13, 12]);
    }
    await alike(`${folder}/a.h5`, { data: { features: ["last", "x3", "swapped"], targets: ["y"] } });
    const { notes } = await open(`${folder}/a.h5`, "no", { data: { features: ["x1"], targets: ["y"] } });
    assert(notes.some((note) => note.startsWith("x1 is packed in chunks of 4 samples")), notes.join("\n"));
  }),
);

// What the library reads stays open for as long as the program runs.
Deno.test({
  name:
    "the newer indices of chunks are read here or by the library, with the same numbers; so are odd ways of storage",
  sanitizeResources: false,
  fn: inFolder(async (folder) => {
    hdf5(
      folder,
      `
a = r.normal(size=(1500, 4)).astype("f4"); y = np.arange(1500.0)
with h5py.File("new.h5", "w", libver="latest") as f:
    f["y"] = y; f["plain"] = a
    f.create_dataset("one", data=a, chunks=a.shape, compression="gzip"); f.create_dataset("bare", data=a, chunks=a.shape)
    f.create_dataset("array", data=a, chunks=(100, 4), compression="gzip"); f.create_dataset("pages", data=a, chunks=(1, 3), compression="gzip")
    f.create_dataset("unpacked", data=a, chunks=(1, 4))
    gaps = f.create_dataset("gaps", a.shape, "f4", chunks=(1, 2), fillvalue=3); gaps[1400] = 5
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE); p.set_chunk((7, 4)); p.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    h5py.h5d.create(f.id, b"implicit", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple(a.shape), p); f["implicit"][:] = a
    f.create_dataset("growing", data=a, chunks=(9, 4), maxshape=(None, 4), compression="gzip")
    f.create_dataset("freely", data=a, chunks=(9, 3), maxshape=(None, None))
with h5py.File("odd.h5", "w") as f:
    f["y"] = y; f.create_dataset("rounded", data=a, chunks=(10, 4), scaleoffset=3); f["twice"] = a
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE); p.set_layout(h5py.h5d.COMPACT)
    h5py.h5d.create(f.id, b"compact", h5py.h5t.STD_I16BE, h5py.h5s.create_simple((1500, 2)), p); f["compact"][:] = a[:, :2] * 100
    f.create_dataset("empty", (1500, 3), "f4", fillvalue=2.5); f.create_dataset("untouched", (1500, 3), ">f8", chunks=(10, 3), fillvalue=2.5)
    for i in range(40): f["twice"].attrs[f"note {i}"] = "x" * 200
with h5py.File("block.h5", "w", userblock_size=1024) as f:
    f["y"] = y; f["plain"] = a; f.create_dataset("packed", data=a, chunks=(8, 4), compression="gzip")`,
    );
    const expected: Record<string, Record<string, string>> = {
      new: {
        plain: "file",
        one: "chunks",
        bare: "chunks",
        array: "chunks",
        pages: "chunks",
        unpacked: "chunks",
        gaps: "chunks",
        implicit: "chunks",
        growing: "library",
        freely: "chunks",
      },
      odd: { rounded: "library", twice: "file", compact: "file", empty: "chunks", untouched: "chunks" },
      block: { plain: "library", packed: "library" },
    };
    for (const [file, names] of Object.entries(expected)) {
      for (const [name, layout] of Object.entries(names)) {
        const { train } = await alike(`${folder}/${file}.h5`, { data: { features: [name], targets: ["y"] } });
        assertEquals(layouts(train), [layout], name);
      }
    }
  }),
});

Deno.test(
  "NetCDF-4: fills, scales and limits; a missing value is told of, or the sample is passed over",
  inFolder(async (folder) => {
    written(
      folder,
      `
import netCDF4
with netCDF4.Dataset("a.nc", "w") as d:
    d.createDimension("s", 12); d.createDimension("h", 6); d.createDimension("w", 5); d.createDimension("t", None)
    x = d.createVariable("x", "i2", ("s", "h", "w"), zlib=True, chunksizes=(1, 6, 5), fill_value=-99); x.scale_factor = 0.5; x.add_offset = 10
    x[:] = r.normal(size=(12, 6, 5)) * 20
    b = d.createVariable("b", "f4", ("s", "h", "w"), zlib=True, chunksizes=(5, 3, 5)); b[:] = r.normal(size=(12, 6, 5)); b.valid_max = np.float32(9)
    k = d.createVariable("k", "i8", ("s",)); k[:] = np.arange(12) % 3; y = d.createVariable("y", "f8", ("s",)); y[:] = np.arange(12) * 0.25
    g = d.createVariable("g", "f4", ("s", "h", "w"), zlib=True); v = r.normal(size=(12, 6, 5)); g[:] = np.ma.masked_where((np.arange(12) == 4)[:, None, None] & (v > 0), v)`,
    );
    const model = { name: "cosmo-cnn" as const };
    await alike(`${folder}/a.nc`, { data: { features: ["x", "b"], targets: ["y"] }, model });
    await alike(`${folder}/a.nc`, {
      data: { features: ["b"], targets: ["k"] },
      model,
      training: { loss: "auto" },
    });
    const { train } = await open(`${folder}/a.nc`, "no", {
      data: { features: ["g"], targets: ["y"], val_samples: 0, missing: "fail" },
      model,
    });
    const sentence = refusedReading(train, [3, 4]);
    assert(/^Sample 4 \(.*a\.nc\) has \d+ missing values of "g"\. Repair it/.test(sentence), sentence);
    const skipping = await open(`${folder}/a.nc`, "no", {
      data: { features: ["g"], targets: ["y"], val_samples: 0, bad_samples: "skip" },
      model,
    });
    assertEquals(numbers(skipping.train, [3, 4])[1], [0.75, 1.25]);
  }),
);

Deno.test(
  "NetCDF-4: the points of a grid are samples, without those that are marked as missing in the target",
  inFolder(async (folder) => {
    written(
      folder,
      `
import netCDF4
with netCDF4.Dataset("sea.nc", "w") as d:
    for name, size in dict(time=5, lat=7, lon=9).items(): d.createDimension(name, size)
    land = r.random((7, 9)) < 0.3
    for name, chunks in dict(sst=(1, 7, 9), wind=(2, 3, 4), ice=(5, 7, 9)).items():
        v = d.createVariable(name, "f4", ("time", "lat", "lon"), zlib=True, chunksizes=chunks); v[:] = np.ma.masked_where(np.broadcast_to(land, (5, 7, 9)), r.normal(size=(5, 7, 9)))`,
    );
    const { train, notes } = await alike(`${folder}/sea.nc`);
    assertEquals(train.input.shape, [2]);
    assert(notes.some((note) => note.startsWith("Left out ")), notes.join("\n"));
  }),
);

/** The first chunk of a source's one part: where it is, and how long. */
function firstChunk({ threaded }: Source): { at: number; size: number } {
  const [{ rows }] = (threaded!.reader as ArraysSpec).parts;
  if (rows.layout !== "format" || rows.module !== chunkRows) throw new Error("no chunks");
  const { addresses, sizes } = (rows as ChunkRows).table;
  return { at: addresses[1], size: sizes[1] };
}

// The HDF5 library leaves a file open whose reading failed.
Deno.test({
  name: "a damaged chunk is told of or passed over; a file that becomes shorter ends with a sentence",
  sanitizeResources: false,
  fn: inFolder(async (folder) => {
    hdf5(
      folder,
      `
a = r.normal(size=(40, 50)).astype("f4")
for name, options in dict(gzip=dict(compression="gzip"), sums=dict(fletcher32=True), both=dict(compression="gzip", fletcher32=True)).items():
    with h5py.File(name + ".h5", "w") as f: f.create_dataset("x", data=a, chunks=(1, 50), **options); f["y"] = np.arange(40.0)
with h5py.File("packed.h5", "w", libver="latest") as f:
    f["y"] = np.arange(40.0); f.create_dataset("x", data=r.normal(size=(40, 500)).astype("f4"), chunks=(1, 500), maxshape=(None, 500), compression="gzip")
with h5py.File("growing.h5", "w", libver="latest") as f: f.create_dataset("x", data=a, chunks=(1, 50), maxshape=(None, 50)); f["y"] = np.arange(40.0)`,
    );
    const data = { features: ["x"], targets: ["y"], val_samples: 0 };
    const reasons: [string, string][] = [["gzip", "can't be unpacked"], ["sums", "fails its checksum"], [
      "both",
      "fails its checksum",
    ]];
    for (const [name, reason] of reasons) {
      const path = `${folder}/${name}.h5`;
      const { train } = await open(path, "no", { data });
      const skipping = await open(path, "no", { data: { ...data, bad_samples: "skip" } });
      const { at, size } = firstChunk(train);
      const bytes = Deno.readFileSync(path);
      bytes.fill(0x5a, at + (size >> 1), at + (size >> 1) + 8);
      const { mtime } = Deno.statSync(path);
      Deno.writeFileSync(path, bytes);
      Deno.utimeSync(path, mtime!, mtime!); // on the disk, without anybody's doing
      const sentence = refusedReading(train, [0, 1]);
      const expected = sentenceNamed("core/data/formats/netcdf/hdf5/hdf5_streamed: sample lies damaged", {
        path,
        size,
        at,
        reason,
      });
      assert(sentence.startsWith(expected), sentence);
      assertEquals(numbers(skipping.train, [0, 1, 2])[1], [0, 2, 2]);
    }
    // The same by the library, of which only the reason is its own.
    const packed = `${folder}/packed.h5`, bytes = Deno.readFileSync(packed);
    bytes.fill(0x5a, bytes.length / 2, bytes.length / 2 + 300);
    Deno.writeFileSync(packed, bytes);
    const { train } = await open(packed, "no", { data });
    assertEquals(layouts(train), ["library"]);
    const sentence = refusedReading(train, range(0, 40));
    assert(
      /^Sample \d+ \(.*\) lies in a part of "\/x" that the HDF5 library can't read: \w/.test(sentence),
      sentence,
    );
    const { train: some } = await open(packed, "no", { data: { ...data, bad_samples: "skip" } });
    numbers(some, range(0, 40));
    const passed = some.passedOver!();
    assert(passed > 0 && passed < 40, `${passed} passed over`);
    for (const name of ["both", "growing"]) {
      const { train } = await open(`${folder}/${name}.h5`, "no", { data });
      const reader = openPipeline(train.threaded!);
      Deno.truncateSync(`${folder}/${name}.h5`, 3000);
      const sentence = refusedReading(train, range(0, 40));
      assert(sentence.includes(`${name}.h5`) && sentence.includes("shorter"), sentence);
      reader.close();
    }
  }),
});
