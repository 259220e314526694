// HDF5: the numbers that h5py reads, however they are stored, and a sentence for everything that can be wrong.
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Config } from "../../../../../../core/settings/settings.ts";
import { netcdfReaders } from "../../../../../../core/data/formats/netcdf/netcdf.ts";
import { batchOf, plainPart, type Source } from "../../../../../../core/data/source/source.ts";
import { UserError } from "../../../../../../core/base/errors.ts";
import { toNumbers } from "../../../../../../ffi/make.ts";
import { scope } from "../../../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../../../libtorch.ts";
import { inFolder, python } from "../../../../checkpoint/python.ts";
import { range, settings } from "../../../tables/help.ts";
import { assertSentence, sentenceNamed } from "../../../../../sentences.ts";

const { hdf5 } = netcdfReaders;

useLibtorch();

async function open(path: string, data: Partial<Config["data"]> = {}) {
  const config = settings({ data: { data_path: path, val_samples: 0, ...data } });
  config.training.loss = "mse";
  await hdf5.prepare!(config.data);
  return hdf5.open(config);
}

async function refused(path: string, data: Partial<Config["data"]> = {}): Promise<string> {
  const error = await assertRejects(() => open(path, data), UserError);
  assertEquals(error.kind, "data");
  return error.message;
}

/** Runs Python with h5py and numpy as np in `folder`; what it prints, as JSON. */
const written = (folder: string, code: string) =>
  JSON.parse(
    python(
      `import os, sys, json, numpy as np, h5py\nos.chdir(sys.argv[1])\nr = np.random.default_rng(0)\n${code}`,
      folder,
    ) || "null",
  );

const all = (source: Source, field: "input" | "target") =>
  scope(() => [...toNumbers(batchOf(source, plainPart(range(0, source.length)))[field])]);

Deno.test(
  "every type, byte order and way of storage gives h5py's numbers",
  inFolder(async (folder) => {
    const values = written(
      folder,
      `
ways = dict(plain={}, chunked=dict(chunks=(3, 2)), gzip=dict(chunks=(3, 2), compression="gzip"),
            shuffled=dict(chunks=(7, 3), compression="gzip", compression_opts=9, shuffle=True), checked=dict(chunks=(2, 4), fletcher32=True),
            growing=dict(maxshape=(None, 4), compression="gzip"))
out = {}
with h5py.File("a.h5", "w") as f:
    f["y"] = np.arange(7) * 0.5
    for t in "?bBhHiIqQefd":
        for order in "<>":
            a = (r.normal(size=(7, 4)) * 50).astype(t).astype(np.dtype(t).newbyteorder(order))
            for way, options in ways.items():
                name = f"{'big' if order == '>' else 'little'}/{way}/{np.dtype(t).name}"
                f.create_dataset(name, data=a, **options)
                out[name] = a.astype("f4").ravel().tolist()
print(json.dumps(out))`,
    ) as Record<string, number[]>;
    assertEquals(Object.keys(values).length, 12 * 2 * 6);
    for (const [name, expected] of Object.entries(values)) {
      const { train } = await open(`${folder}/a.h5`, { features: [name], targets: ["y"] });
      assertEquals([train.length, train.input.shape], [7, [4]]);
      assertEquals(all(train, "input"), expected, name);
    }
  }),
);

Deno.test(
  "a data set larger than a slab is read right, whatever its chunks are",
  inFolder(async (folder) => {
    const sums = written(
      folder,
      `
a = (np.arange(3000 * 4000) % 8191).astype("f4").reshape(3000, 4000)
with h5py.File("a.h5", "w") as f:
    f["y"] = np.arange(3000.0)
    f["plain"] = a
    f.create_dataset("chunked", data=a, chunks=(700, 1300), compression="gzip", compression_opts=1)
print(json.dumps(a.astype("f8").sum(1)[[0, 1, 2096, 2097, 2098, 2999]].tolist()))`,
    );
    for (const name of ["plain", "chunked"]) {
      const { train } = await open(`${folder}/a.h5`, { features: [name], targets: ["y"] });
      scope(() => {
        const rows = toNumbers(batchOf(train, plainPart([0, 1, 2096, 2097, 2098, 2999])).input);
        const found = range(0, 6).map((i) =>
          rows.subarray(i * 4000, (i + 1) * 4000).reduce((a, b) => a + b, 0)
        );
        assertEquals(found, sums);
      });
    }
  }),
);

Deno.test(
  "datasets are found in groups, by path; links are followed, circles end, and text is left aside",
  inFolder(async (folder) => {
    written(
      folder,
      `
with h5py.File("b.h5", "w") as f: f["y"] = np.arange(4.0)
with h5py.File("a.h5", "w") as f:
    f["sim/x"] = np.arange(8.0).reshape(4, 2); f["sim/z"] = np.arange(4.0)
    f["sim/again"] = f["/"]; f["back"] = h5py.SoftLink("/sim")
    f["broken"] = h5py.SoftLink("/nowhere"); f["elsewhere"] = h5py.ExternalLink("b.h5", "/y"); f["gone"] = h5py.ExternalLink("c.h5", "/y")
    f["names"] = ["a", "b", "c", "d"]; f["number"] = 3.5; f["none"] = h5py.Empty("f4")`,
    );
    const { train, notes } = await open(`${folder}/a.h5`, { external_files: true });
    assertEquals(notes, [
      sentenceNamed("core/data/formats/netcdf/hdf5/hdf5: left aside number"),
    ]);
    assertEquals(all(train, "input"), [0, 0, 1, 1, 2, 3, 2, 4, 5, 3, 6, 7]);
    assertEquals(all(train, "target"), range(0, 4));
    const link = await refused(`${folder}/a.h5`, { features: ["gone"], external_files: true });
    assertSentence("core/data/formats/netcdf/hdf5/hdf5: gone link another", link);
    const number = await refused(`${folder}/a.h5`, { features: ["number"] });
    assert(number.includes('"number" is a single number'), number);
  }),
);

Deno.test(
  "whole numbers are classes when they are the target",
  inFolder(async (folder) => {
    written(
      folder,
      `
with h5py.File("a.h5", "w") as f:
    f["x"] = r.normal(size=(30, 5)); f["y"] = np.arange(30) % 3`,
    );
    const config = settings({ data: { data_path: `${folder}/a.h5` } });
    await hdf5.prepare!(config.data);
    const { train, val } = hdf5.open(config);
    assertEquals([train.facts.task, train.facts.outputs, train.length, val!.length], [
      "classification",
      3,
      27,
      3,
    ]);
  }),
);

Deno.test(
  "refused with the reason: other filters, wide floats, pieces elsewhere, other shapes, names that are not there",
  inFolder(async (folder) => {
    written(
      folder,
      `
with h5py.File("a.h5", "w") as f:
    f["x"] = np.arange(6.0); f["wide"] = np.arange(6, dtype=np.longdouble); f["complex"] = np.arange(6) * 1j
    f.create_dataset("lzf", data=np.arange(6.0), compression="lzf"); f["y"] = np.arange(5.0)
    layout = h5py.VirtualLayout((6,), "f8"); layout[:] = h5py.VirtualSource("gone.h5", "x", (6,))
    f.create_virtual_dataset("virtual", layout)`,
    );
    const because = (name: string) => refused(`${folder}/a.h5`, { features: [name], targets: ["x"] });
    assertSentence("core/data/formats/netcdf/hdf5/hdf5: lzf compressed lzf", await because("lzf"));
    assert((await because("wide")).includes('"wide" holds floats of 128 bits'));
    assert((await because("complex")).includes('"complex" holds compound values'));
    assert((await because("virtual")).includes("is pieced together from other files"));
    assert((await because("y")).includes('"y" has 5 samples, but "x" has 6'));
    assertSentence("core/data/formats/netcdf/hdf5/hdf5: dataset features did", await because("xx"));
  }),
);

// The HDF5 library leaves a file open whose reading failed, and would go on with it under the same name.
Deno.test({
  name: "refused: truncated and damaged files, other formats",
  sanitizeResources: false,
  fn: inFolder(async (folder) => {
    written(
      folder,
      `
with h5py.File("a.h5", "w") as f:
    f.create_dataset("x", data=r.normal(size=(500, 20)), chunks=(100, 20), compression="gzip"); f["y"] = np.arange(500.0)`,
    );
    const bytes = Deno.readFileSync(`${folder}/a.h5`), half = bytes.length / 2;
    const because = (name: string, content: Uint8Array) => {
      Deno.writeFileSync(`${folder}/${name}`, content);
      return refused(`${folder}/${name}`);
    };
    // A compressed chunk lies somewhere in the middle.
    const damaged = await because("b.h5", bytes.map((byte, i) => i > half && i < half + 500 ? 0 : byte));
    assert(damaged.startsWith(`${folder}/b.h5: x can't be read as HDF5: `), damaged);
    const short = await because("c.h5", bytes.slice(0, half));
    assertSentence("core/data/formats/netcdf/hdf5/hdf5: read hdf truncated", short);
    const text = (content: string) => new TextEncoder().encode(content);
    assert((await because("d.h5", text("PK\x03\x04 and more"))).includes("is no HDF5 file"));
    const classic = await because("e.h5", text("CDF\x01 and more"));
    assertSentence("core/data/formats/netcdf/hdf5/hdf5: classic netcdf file", classic);
  }),
});
