// Threads that share a column's rows read what one thread reads, and what netCDF4 reads.
import { assert, assertEquals, assertRejects } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { readByThreads } from "../../../../core/data/arrays/all_rows.ts";
import { openParts } from "../../../../core/data/arrays/open_rows.ts";
import type { FileRows, ReadsRows } from "../../../../core/data/arrays/rows.ts";
import { type Floats, typedView } from "../../../../core/data/arrays/numbers.ts";
import type { VariableColumn } from "../../../../core/data/arrays/table.ts";
import { netcdfReaders } from "../../../../core/data/formats/netcdf/netcdf.ts";
import { borrowBytes } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { open, written } from "../streamed.ts";
import { assertSentence } from "../../../sentences.ts";

const { netcdf } = netcdfReaders;

useLibtorch();

const EVERY = { bytes: 0, row: 0 };

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView) =>
  new Uint8Array(buffer, byteOffset, byteLength);

const columnsOf = <R>(path: string, use: (columns: readonly VariableColumn[]) => R): R =>
  netcdf.table!(path, ({ columns }) => use(columns as readonly VariableColumn[]));

const plains = new Set<string>();

/** Values and marks of missing points, as one thread and as several read them. */
function both(column: VariableColumn): Record<"alone" | "together", [Uint8Array, Uint8Array]> {
  const count = column.shape.reduce((product, size) => product * size, 1);
  const marks = { alone: new Uint8Array(count), together: new Uint8Array(count) };
  const alone = bytesOf(column.readMarking(marks.alone)).slice();
  const { raw, unpack } = column.stored!;
  const together = scope(() => {
    const found = readByThreads(column.stored!, EVERY);
    assert(found, column.name);
    const { values, plain } = found;
    plains.add(`${column.name} ${plain}`);
    const stored = typedView(borrowBytes(values), raw);
    if (!unpack) return borrowBytes(values).slice();
    const inPlace = raw === column.dtype;
    const to = inPlace ? stored : column.dtype === "f32" ? new Float32Array(count) : new Float64Array(count);
    unpack(stored, to as Floats, marks.together);
    return bytesOf(to as Floats).slice();
  });
  return { alone: [alone, marks.alone], together: [together, marks.together] };
}

Deno.test(
  "columns of several files, packed in whatever way, are read by threads to the same bits and marks",
  inFolder(async (folder) => {
    const expected = written(
      folder,
      `
import netCDF4 as nc
def year(path, n, scale, fmt="NETCDF4"):
    with nc.Dataset(path, "w", format=fmt) as d:
        d.createDimension("time", None); d.createDimension("lat", 6); d.createDimension("lon", 8)
        t = d.createVariable("time", "f8", ("time",)); t.units = "days since 1979-01-01"; t[:] = year.first + np.arange(n); year.first += n
        def add(name, type, values, **of):
            more = {k: of.pop(k) for k in ("missing_value", "scale_factor", "add_offset") if k in of}
            v = d.createVariable(name, type, ("time", "lat", "lon"), **of); v.set_auto_maskandscale(False)
            for k, a in more.items(): setattr(v, k, a)
            v[:] = values
        maps = lambda s=1.0: (r.standard_normal((n, 6, 8)) * s).astype("f4")
        gaps = maps(); gaps[r.random(gaps.shape) < 0.2] = np.nan; gaps[r.random(gaps.shape) < 0.2] = -9; gaps[0, 0, 0] = 1e20
        deflated = {} if fmt != "NETCDF4" else dict(zlib=True, shuffle=True, chunksizes=(1, 6, 8))
        several = {} if fmt != "NETCDF4" else dict(zlib=True, chunksizes=(5, 4, 8))
        add("gaps", "f4", gaps, fill_value=np.float32(-9), missing_value=np.float32(1e20), **deflated)
        add("nans", "f4", np.where(gaps == -9, np.nan, gaps), fill_value=np.float32("nan"), **several)
        add("full", "f4", maps(), fill_value=np.float32(-9), **deflated)
        add("packed", "i2", maps(1000).astype("i2"), fill_value=np.int16(7), scale_factor=scale, add_offset=float(n), **deflated)
        add("wide", ">f8" if fmt == "NETCDF4" else "f8", maps().astype("f8"), **several)
        add("plain", "i4", maps(1000).astype("i4"))
for folder, fmt in (("new", "NETCDF4"), ("old", "NETCDF3_64BIT_OFFSET")):
    os.mkdir(folder); year.first = 0
    for i, n in enumerate((3, 700, 12)): year(f"{folder}/{i}.nc", n, 0.5 + i, fmt)
def read(name):
    def one(i):
        with nc.Dataset(f"new/{i}.nc") as d: return np.ma.filled(d[name][:].astype("f8"), np.nan)
    values = np.concatenate([one(i) for i in range(3)])
    return [int(np.isnan(values).sum()), float(np.nansum(values))]
print(json.dumps({name: read(name) for name in ("gaps", "nans", "full", "packed", "wide", "plain")}))
`,
    );
    for (const files of ["new", "old"]) {
      columnsOf(`${folder}/${files}`, (columns) => {
        for (const name of ["gaps", "nans", "full", "packed", "wide", "plain"]) {
          const column = columns.find((one) => one.name === name)!;
          const { alone, together } = both(column);
          assertEquals(together, alone, `${files}: ${name}`);
          if (files === "old") continue;
          const values = Array.from(typedView(together[0], column.dtype), Number);
          const [missing, sum] = expected[name];
          assertEquals(values.filter(Number.isNaN).length, missing, name);
          const own = values.reduce((total, value) => total + (Number.isNaN(value) ? 0 : value), 0);
          assert(Math.abs(own - sum) < 1e-3 * Math.max(1, Math.abs(sum)), `${name}: ${own} and ${sum}`);
        }
      });
    }
    // Nobody has to look again at floats that are all there.
    assertEquals([...plains].sort(), [
      ...["full true", "gaps false", "nans false", "packed false", "plain false", "wide false"],
    ]);
    // A chunk in the middle that can't be unpacked: threads leave it to whoever says where it is.
    written(
      folder,
      `
import h5py
with h5py.File("new/1.nc") as f:
    at = f["gaps"].id.get_chunk_info(350).byte_offset
with open("new/1.nc", "r+b") as f:
    f.seek(at); f.write(b"\\xff" * 16)
`,
    );

    columnsOf(`${folder}/new`, (columns) => {
      const { stored } = columns.find(({ name }) => name === "gaps")!;
      assertEquals(readByThreads(stored!, EVERY), null);
    });
    const error = await assertRejects(
      () =>
        open(`${folder}/new`, "yes", {
          model: { name: "unet" },
          data: { features: ["gaps"], targets: ["wide"] },
        }),
      UserError,
    );
    assertSentence("core/data/arrays/all_rows: new gaps read", error.message);
  }),
);

Deno.test("of many files a thread keeps readers that keep no chunks, and few of those that do", () => {
  const rows = (path: string): FileRows => ({
    layout: "file",
    file: { path, size: 4, changed: 0 },
    begin: 0,
    bytes: 4,
    step: 4,
    swapped: false,
  });
  const parts = Array.from({ length: 40 }, (_, i) => rows(`${i}.nc`)), starts = [...parts.keys(), 40];
  const opensIn = (keeps: number | undefined, read: readonly number[]) => {
    let opened = 0, now = 0, most = 0;
    const reader = openParts({ layout: "parts", starts, parts }, (): ReadsRows => {
      opened++;
      most = Math.max(most, ++now);
      return { read() {}, keeps, close: () => void now-- };
    });
    for (const row of read) reader.read(row, new Uint8Array(4));
    reader.close!();
    assertEquals(now, 0);
    return [opened, most];
  };
  const twice = [...parts.keys(), ...parts.keys()];
  assertEquals(opensIn(0, twice), [40, 40]);
  assertEquals(opensIn(undefined, twice), [80, 8]);
  assertEquals(opensIn(64 * 2 ** 20, twice), [80, 8]);
  assertEquals(opensIn(undefined, [...parts.keys(), 39, 32, 0]), [41, 8]);
});
