// `hpctrain pack` from outside: what is packed trains as its origin does, whoever packs it and however often it is killed.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { python } from "../core/checkpoint/python.ts";
import { contents } from "../core/data/shards/make.ts";
import {
  eventsOf,
  finish,
  inTemp,
  onDisk,
  type Result,
  ROOT_USER,
  run,
  start,
  succeed,
  until,
} from "./program.ts";
import { assertSentence } from "../sentences.ts";

/** 600 samples of 7 numbers, and one that they make. */
const TABLE = `
import numpy, sys
r = numpy.random.default_rng(0)
x = r.normal(size=(600, 7))
numpy.savez(sys.argv[1], x=x, y=x @ r.normal(size=7))`;

/** Images of two sizes in two class folders. */
const PHOTOS = `
import numpy, os, sys
from PIL import Image
r = numpy.random.default_rng(0)
for i in range(24):
    folder = os.path.join(sys.argv[1], "ab"[i % 2])
    os.makedirs(folder, exist_ok=True)
    size = (40, 30) if i % 3 else (32, 48)
    pixels = r.integers(0, 255, (6, 8, 3), dtype=numpy.uint8)
    Image.fromarray(pixels).resize(size).save(os.path.join(folder, f"{i}." + ("png" if i % 5 == 0 else "jpg")))`;

const RUN = ["--device=cpu", "--threads=1", "--epochs=2", "--batch-size=8", "--log-interval=1"];

/** The losses of a run's steps, and what it was judged with. */
async function losses(cwd: string, args: string[]): Promise<unknown[]> {
  const name = `run-${args.join("").replaceAll(/\W/g, "-")}`.slice(0, 100);
  await succeed([...RUN, `--run-name=${name}`, ...args], { cwd });
  const told = eventsOf(cwd, name).flatMap(({ kind, loss, val_loss }) =>
    kind === "step" ? [loss] : kind === "eval" ? [val_loss] : []
  );
  assertEquals(told.length > 5, true);
  return told;
}

Deno.test("training on packed data is training on the data, in memory, streamed by threads or not, and staged", () =>
  inTemp(async (cwd) => {
    python(TABLE, join(cwd, "t.npz"));
    const { stdout } = await succeed(["pack", "t.npz", "packed", "--samples-per-shard=100"], { cwd });
    assertSentence("integration/pack: packed samples packed", stdout);
    const model = ["--model=mlp"];
    const direct = await losses(cwd, [...model, "--data-path=t.npz"]);
    const packed = [...model, "--data-path=packed"];
    for (
      const how of [[], ["--in-memory=no", "--num-workers=2"], ["--in-memory=no", "--num-workers=0"], [
        "--stage=node",
      ]]
    ) {
      assertEquals(await losses(cwd, [...packed, ...how]), direct, how.join(" "));
    }
    const again = await succeed([...RUN, ...packed, "--stage=node", "--max-steps=2"], { cwd });
    assertMatch(
      again.stdout,
      /^Staged before: the data is read from \S+\/node\/packed-[0-9a-f]{16} \(8 files, .*\)$/m,
    );
    assertEquals(again.stdout.includes("No effect"), false);
  }));

Deno.test("images packed as pixels or as their files train as the folder does", () =>
  inTemp(async (cwd) => {
    python(PHOTOS, join(cwd, "photos"));
    const size = ["--resize=20", "--centre-crop=16"], model = ["--model=simple-convnet"];
    const direct = await losses(cwd, [...model, "--data-path=photos", ...size]);
    await succeed(["pack", "photos", "pixels", ...size, "--num-workers=2"], { cwd });
    assertEquals(await losses(cwd, [...model, "--data-path=pixels"]), direct);
    await succeed(["pack", "photos", "files", "--keep-encoded", "--samples-per-shard=5"], { cwd });
    assertEquals(await losses(cwd, [...model, "--data-path=files", "--num-workers=2", ...size]), direct);
    assertEquals(await losses(cwd, [...model, "--data-path=files", "--num-workers=0", ...size]), direct);
    await refused(
      ["--model=simple-convnet", ...RUN, "--data-path=files"],
      /The images have several sizes: .*shard-\d+\.bin is/,
      { cwd, code: 3 },
    );
    const shard = join(cwd, "files", "shard-00001.bin");
    const bytes = Deno.readFileSync(shard);
    bytes[500] ^= 1;
    Deno.writeFileSync(shard, bytes);
    await refused(
      [...RUN, ...model, "--data-path=files", ...size],
      /files\/shard-00001\.bin\)? is damaged: its checksum is wrong/,
      { cwd, code: 3 },
    );
    await refused(
      ["pack", "pixels", "again", "--keep-encoded"],
      /--keep-encoded is for images in class folders/,
      { cwd },
    );
    await refused(
      ["pack", "photos", "again", "--keep-encoded", "--resize=8"],
      /--resize is done in training/,
      { cwd },
    );
  }));

async function refused(
  args: string[],
  says: RegExp,
  { cwd, code = 2 }: { cwd: string; code?: number },
): Promise<Result> {
  const result = await run(args, { cwd });
  assertMatch(result.stderr, says);
  assertEquals(result.code, code, result.stderr);
  assertMatch(result.stderr.split("\n").at(-2)!, /^hpctrain: .*[.?\]]$/);
  return result;
}

/** A series that the next step follows from, and later ones hardly. */
const SERIES = `
import numpy, sys
r = numpy.random.default_rng(0)
a, b = numpy.zeros((2, 400))
for i in range(1, 400):
    a[i], b[i] = 0.9 * a[i - 1] + r.normal(), 0.2 * b[i - 1] + 5 * r.normal()
numpy.savez(sys.argv[1], a=a, b=b)`;

Deno.test("a packed forecast has the errors over all leads that the data has, and its own validation set takes no share", () =>
  inTemp(async (cwd) => {
    python(SERIES, join(cwd, "s.npz"));
    const forecast = [
      "--features=a,b",
      "--targets=a,b",
      "--lead=1,4",
      "--split=time",
      "--validation-split=0.25",
    ];
    await succeed(["pack", "s.npz", "packed", ...forecast], { cwd });
    const judged = async (name: string, ...data: string[]) => {
      await succeed([...RUN, "--model=mlp", "--no-wandb", `--run-name=${name}`, ...data], { cwd });
      const { metrics } = eventsOf(cwd, name).findLast(({ kind }) => kind === "eval")!;
      const { mae, rmse, bias, r2 } = metrics as Record<string, number>;
      return { mae, rmse, bias, r2 };
    };
    assertEquals(
      await judged("of-packed", "--data-path=packed"),
      await judged("of-file", "--data-path=s.npz", ...forecast),
    );
    await refused(
      [...RUN, "--model=mlp", "--data-path=packed", "--validation-split=0.5"],
      /--validation-split 0\.5 would hold out nothing, for the validation set in packed is there to validate with/,
      { cwd },
    );
    await refused(
      ["pack", "s.npz", "other", "--normalise-targets"],
      /--normalise-targets is done in training/,
      { cwd },
    );
  }));

Deno.test("four ranks pack the same bytes as one; each says what it did, and a first alone packs no index", () =>
  inTemp(async (cwd) => {
    python(TABLE, join(cwd, "t.npz"));
    const args = ["pack", "t.npz", "--samples-per-shard=50"];
    await succeed([...args, "one"], { cwd });
    const env = (rank: number) => ({
      ...{ RANK: `${rank}`, LOCAL_RANK: `${rank}`, WORLD_SIZE: "4", LOCAL_WORLD_SIZE: "4" },
      ...{ MASTER_ADDR: "127.0.0.1", MASTER_PORT: "29500" },
    });
    const first = await succeed([...args, "four"], { cwd, env: env(0) });
    assertSentence("integration/pack: rank packed samples", first.stdout);
    await refused(
      ["--data-path=four", "--model=mlp", "--device=cpu"],
      /four is not packed completely: .* Run the same pack command again/,
      { cwd, code: 3 },
    );
    await Promise.all([1, 2, 3].map((rank) => succeed([...args, "four"], { cwd, env: env(rank) })));
    assertEquals(contents(join(cwd, "four")), contents(join(cwd, "one")));
  }));

Deno.test("a packing that is killed goes on, and one that is under way is not joined", () =>
  inTemp(async (cwd) => {
    python(TABLE, join(cwd, "t.npz"));
    const args = ["pack", "t.npz", "--samples-per-shard=3", "--quiet"];
    await succeed([...args, "whole"], { cwd });
    const child = start([...args, "out"], { cwd });
    await until("some shards", () => [...entries(join(cwd, "out"))].length > 20);
    child.kill("SIGSTOP"); // it would be done before anybody else came
    await refused(
      [...args, "out"],
      /^hpctrain: Another process is packing into out\. Wait for it, or name another folder\./,
      { cwd },
    );
    child.kill("SIGKILL");
    await finish(child);
    assertEquals(entries(join(cwd, "out")).includes("index.json"), false);
    await refused(
      ["pack", "t.npz", "out", "--samples-per-shard=2"],
      /out holds other data, packed or half packed: its samples per shard is 3, and now 2/,
      { cwd },
    );
    const { stdout } = await succeed([...args, "out"], { cwd });
    assertSentence("integration/pack: packed samples out", stdout);
    assertEquals(contents(join(cwd, "out")), contents(join(cwd, "whole")));
  }));

function entries(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name);
  } catch {
    return [];
  }
}

Deno.test("NetCDF becomes npz with its variables by name, and any other table too", () =>
  inTemp(async (cwd) => {
    python(
      `
import netCDF4, numpy, sys
with netCDF4.Dataset(sys.argv[1], "w") as f:
    f.createDimension("time", 12); f.createDimension("y", 3)
    t = f.createVariable("time", "f8", ("time",)); t[:] = numpy.arange(12)
    wind = f.createVariable("wind", "i2", ("time", "y"), fill_value=-999)
    wind.scale_factor = 0.5
    wind[:] = numpy.arange(36).reshape(12, 3)
    wind[2, 1] = numpy.ma.masked
    drift = f.createVariable("drift", "f8", ("time",)); drift[:] = numpy.arange(12) / 3`,
      join(cwd, "ice.nc"),
    );
    Deno.writeTextFileSync(join(cwd, "t.csv"), "a,b,c\n1,2,3\n4,5,6.5\n");
    const { stdout } = await succeed(["pack", "ice.nc", "ice.npz"], { cwd });
    assertMatch(stdout, /Left aside: time\nWrote wind \[12, 3\], drift \[12\] to ice\.npz: [\d.]+ B in/);
    await succeed(["pack", "t.csv", "t.npz", "--quiet"], { cwd });
    const said = python(
      `
import json, numpy, sys
a, b = [numpy.load(f"{sys.argv[1]}/{name}.npz") for name in ["ice", "t"]]
print(json.dumps([list(a), str(a["wind"].dtype), numpy.nan_to_num(a["wind"], nan=-1).tolist(), a["drift"].tolist(), {k: b[k].tolist() for k in b}]))`,
      cwd,
    );
    const wind = Array.from(
      { length: 12 },
      (_, i) => [0, 1, 2].map((j) => i === 2 && j === 1 ? -1 : 3 * i + j),
    );
    const drift = Array.from({ length: 12 }, (_, i) => i / 3);
    assertEquals(JSON.parse(said), [["wind", "drift"], "float32", wind, drift, {
      a: [1, 4],
      b: [2, 5],
      c: [3, 6.5],
    }]);
    await succeed([...RUN, "--model=mlp", "--data-path=ice.npz", "--bad-samples=skip", "--batch-size=2"], {
      cwd,
    });
    await refused(
      ["pack", "ice.nc", "ice.npz"],
      /ice\.npz exists already: name another file, or delete it first/,
      { cwd },
    );
  }));

Deno.test("what pack can't do is said before anything is written", () =>
  inTemp(async (cwd) => {
    python(TABLE, join(cwd, "t.npz"));
    Deno.mkdirSync(join(cwd, "full"));
    Deno.writeTextFileSync(join(cwd, "full", "thesis.tex"), "");
    const cases: [args: string[], says: RegExp, code?: number][] = [
      [["t.npz"], /pack takes a data set and a place for it/],
      [
        ["t.npz", "out", "--samples-per-shard=0"],
        /--samples-per-shard must be a whole number from 1 on, but got "0"/,
      ],
      [
        ["t.npz", "out", "--flip=both"],
        /--flip is done in training, on whatever was packed: leave it out here/,
      ],
      [["t.npz", "out", "--samples-per-shrad=3"], /Unknown flag --samples-per-shrad/],
      [["t.npz", "t.npz/out"], /t\.npz\/out is inside the data to be packed \(t\.npz\)/],
      [["t.npz", "full"], /full is not empty \(thesis\.tex\): name a new folder/],
      [["t.npz", "full/thesis.tex"], /thesis\.tex can't be written: a part of the path is a file/],
      [["t.npz", "/proc/out"], /\/proc\/out can't be written/],
      [["u.npz", "out"], /There is no u\.npz|u\.npz: there is no such file/, 3],
    ];
    for (const [args, says, code] of cases) await refused(["pack", ...args], says, { cwd, code });
    assertEquals(entries(cwd).sort(), ["full", "t.npz"]);
  }));

const needsRoot = ROOT_USER ? "" : " (needs root, to mount a small disk)";

Deno.test({
  name:
    `a disk without room is refused first, for packing and for staging; one that fills up can be gone on with${needsRoot}`,
  ignore: !ROOT_USER,
  fn: () =>
    inTemp((cwd) =>
      onDisk(4, async (disk) => {
        python(TABLE.replace("600", "120000"), join(cwd, "big.npz"));
        await refused(
          ["pack", "big.npz", join(disk, "out")],
          /Packing into \S+out takes 4\.\d MiB, and [\d.]+ MiB are free in/,
          { cwd },
        );
        const train = [...RUN, "--model=mlp", "--data-path=big.npz", `--stage=${disk}`];
        await refused(
          train,
          /Staging \S+ takes 7\.\d MiB, and .* are free in .*Name a folder on a larger disk with --stage/,
          { cwd },
        );
        assertEquals([...Deno.readDirSync(disk)].filter(({ isFile }) => isFile), []);
        const some = [
          "pack",
          "big.npz",
          join(disk, "some"),
          "--train-samples=20000",
          "--val-samples=0",
          "--samples-per-shard=100",
        ];
        const child = start(some, { cwd });
        await until("some shards", () => entries(join(disk, "some")).length > 20);
        const filler = join(disk, "filler");
        fill(filler);
        const { code, stderr } = await finish(child);
        assertMatch(
          stderr,
          /^hpctrain: \S+ can't be written: the disk is full\. Free some space there, and run the same command again\.\n$/,
        );
        assertEquals(code, 2);
        Deno.removeSync(filler);
        assertEquals(entries(join(disk, "some")).filter((name) => name.includes("tmp")), []);
        const left = entries(join(disk, "some")).length - 1;
        const { stdout } = await succeed([
          "pack",
          "big.npz",
          join(disk, "some"),
          ...some.slice(3, 5),
          "--samples-per-shard=100",
          "--train-samples=20000",
        ], { cwd });
        // The disk may have been full when the last shard's note was due.
        assertMatch(
          stdout,
          new RegExp(`200 shards, .* (${left}|${left - 1}) shards kept from an earlier run`),
        );
      })
    ),
});

function fill(path: string): void {
  using file = Deno.openSync(path, { write: true, create: true, append: true });
  const block = new Uint8Array(4096);
  try {
    for (;;) file.writeSync(block);
  } catch {
    // Full, which was the aim.
  }
}
