// A second start reads no targets whose numbers the first has seen, and trains on the same bits.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import type { ArraysSpec } from "../../../../core/data/tables/reader.ts";
import { openLoader } from "../../../../core/data/loader/loader.ts";
import { type Part, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { type Changes, numbers, open, written } from "../streamed.ts";
import { range } from "./help.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();

const MAPS: Changes = {
  data: { features: ["u"], targets: ["u"], lead: "1", validation_split: 0.25 },
  model: { name: "unet" },
};
const POINTS: Changes = {
  ...MAPS,
  data: { ...MAPS.data, train_samples: 500, val_samples: 500 },
  model: { name: "mlp" },
};

const thereIn = ({ threaded }: Source) => (threaded!.reader as ArraysSpec).deferred?.present ?? null;

const countIn = (source: Source): number => thereIn(source)!.reduce((sum, is) => sum + is, 0);

/** Inputs and targets as loader threads read them. */
function byThreads(source: Source, parts: readonly Part[]): number[][] {
  const loader = openLoader([{ source, rows: 8, held: 1 }], 2, 1e6, false), [rows] = loader.lanes;
  const left = [...parts];
  try {
    rows.begin(() => left.shift() ?? null);
    return parts.map((part) => {
      const seen = scope(() => {
        const { input, target } = rows.take(part);
        return [...toNumbers(input), ...toNumbers(target)];
      });
      rows.release(1);
      return seen;
    });
  } finally {
    loader.close();
  }
}

Deno.test(
  "targets that an earlier start has seen are read when samples need them, to the same bits",
  inFolder(async (folder) => {
    const cache = Deno.env.get("HPCTRAIN_CACHE");
    Deno.env.set("HPCTRAIN_CACHE", `${folder}/cache`);
    try {
      written(
        folder,
        `
import netCDF4 as nc
os.mkdir("years")
def year(i, gaps=False):
    with nc.Dataset(f"years/{i}.nc", "w") as d:
        d.createDimension("time", None); d.createDimension("lat", 64); d.createDimension("lon", 64)
        t = d.createVariable("time", "f8", ("time",)); t.units = "days since 1979-01-01"; t[:] = i * 550 + np.arange(550)
        v = d.createVariable("u", "f4", ("time", "lat", "lon"), zlib=True, complevel=1, chunksizes=(1, 64, 64), fill_value=np.nan)
        values = np.add.outer(np.arange(550) + i, r.integers(0, 9, (64, 64))).astype("f4")
        if gaps: values[3, 2, 1] = np.nan
        v[:] = values
year(0); year(1)
`,
      );
      const years = `${folder}/years`, some = [0, 1, 400, 3, 2];
      for (const changes of [MAPS, POINTS]) {
        Deno.mkdirSync(`${folder}/cache`, { recursive: true });
        Deno.removeSync(`${folder}/cache`, { recursive: true }); // both begin without notes
        const first = await open(years, "no", changes), again = await open(years, "no", changes);
        assertEquals(thereIn(first.train), null);
        const probed = countIn(again.train);
        assert(
          probed <= 2,
          `${probed} steps are read at the second start, which looks at a sample of each part`,
        );
        assertEquals(again.train.facts, first.train.facts);
        assertEquals(again.train.indices, first.train.indices);
        assertEquals(again.notes, first.notes);
        assertEquals(numbers(again.train, some), numbers(first.train, some));
        const parts = range(0, 10).map((i) => plainPart(range(0, 8).map((k) => (37 * i + 11 * k) % 300)));
        assertEquals(byThreads(again.train, parts), byThreads(first.train, parts));
        const read = countIn(again.train);
        assert(read > 10 && read < 1100, `${read} steps were read`);
        assertEquals(again.val!.baselines!(null), first.val!.baselines!(null));
        assert(thereIn(again.train)!.every((is) => is === 1), "baselines take all of them");
      }

      // What can't be trusted is not: a damaged note, and another file in the place of one.
      const [note] = [...Deno.readDirSync(`${folder}/cache/whole-columns`)];
      const place = `${folder}/cache/whole-columns/${note.name}`, kept = Deno.readTextFileSync(place);
      Deno.writeTextFileSync(place, kept.replace("true", "1234"));
      assertEquals(thereIn((await open(years, "no", MAPS)).train), null);
      assertEquals(Deno.readTextFileSync(place), kept);
      written(
        folder,
        `
import netCDF4 as nc
with nc.Dataset("years/1.nc", "a") as d: d["u"][3, 2, 1] = np.nan
`,
      );
      const changed = await open(years, "no", MAPS);
      assertEquals([thereIn(changed.train), changed.train.missing?.target], [null, true]);
      assertEquals(thereIn((await open(years, "no", MAPS)).train), null);

      // A file that is written while training reads it.
      written(
        folder,
        `
import netCDF4 as nc
with nc.Dataset("years/1.nc", "a") as d: d["u"][3, 2, 1] = 5
`,
      );
      await open(years, "no", MAPS);
      const late = await open(years, "no", MAPS);
      assert(thereIn(late.train));
      written(
        folder,
        `
import h5py
stat = os.stat("years/0.nc")
with h5py.File("years/0.nc") as f: at, size = (lambda c: (c.byte_offset, c.size))(f["u"].id.get_chunk_info(7))
import zlib
values = np.full((64, 64), np.nan, "<f4").tobytes()
packed = zlib.compress(np.frombuffer(values, "u1").reshape(-1, 4).T.tobytes())
assert len(packed) <= size
with open("years/0.nc", "r+b") as f: f.seek(at); f.write(packed)
os.utime("years/0.nc", ns=(stat.st_atime_ns, stat.st_mtime_ns))
`,
      );
      const error = assertThrows(() => numbers(late.train, [6]), UserError);
      assertSentence("core/data/tables/deferred: years had numbers", error.message);
    } finally {
      if (cache === undefined) Deno.env.delete("HPCTRAIN_CACHE");
      else Deno.env.set("HPCTRAIN_CACHE", cache);
    }
  }),
);
