// The program on both architectures, apart from training: settings, data read bit for bit, ranks, W&B's files, a library of the
// other architecture. Started by ./scripts/test-aarch64.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { dirname, join } from "paths";
import { goodFiles, lay } from "../integration/formats.ts";
import { filesIn, inTemp } from "../integration/program.ts";
import { writtenBy } from "../core/data/formats/written.ts";
import { parsed, rowsOf, stepsOf, sync } from "../core/outputs/wandb/runs.ts";
import { openWandbServer } from "../integration/wandb_server.ts";
import { apart, ARM, done, losses, on, X86 } from "./machines.ts";
import { assertSentence } from "../sentences.ts";

Deno.test("settings come out as on x86-64: presets, a file, the environment, flags, the schema", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(
      join(cwd, "run.yaml"),
      "training: { epochs: 7, optimizer: { learning_rate: 1e-4 } }\n",
    );
    const env = { HPCTRAIN_TRAINING_SAVE_INTERVAL: "50" };
    for (const words of [["--preset=debug", "--config=run.yaml", "--lr=0.1", "--json"], ["--schema"]]) {
      const [x86, arm] = await Promise.all(
        [X86, ARM].map((machine) =>
          done(machine, ["config", ...words], { cwd, env: { ...env, HPCTRAIN_LIBTORCH: "" } })
        ),
      );
      assert(arm.stdout.length > 1000);
      assertEquals(arm.stdout, x86.stdout);
    }
  }));

Deno.test("a job script of the executable for aarch64 runs it on such nodes, and the one beside it on others", () =>
  inTemp(async (cwd) => {
    const { stdout } = await done(ARM, ["sbatch", "--preset=cpu-cluster"], { cwd });
    assertMatch(stdout, /^if \[\[ \$\(uname -m\) != aarch64 \]\]; then$/m);
    assertSentence("aarch64/programs: executable job aarch", stdout);
  }));

Deno.test("doctor names the machine, and finds its libtorch", () =>
  inTemp(async (cwd) => {
    const { stdout } = await on(ARM, ["doctor", "--save-dir", cwd], { cwd });
    assertMatch(stdout, /Linux \S+ on aarch64/);
    assertMatch(stdout, /libtorch +2\.\d+/);
  }));

for (const [machine, other] of [[ARM, X86], [X86, ARM]] as const) {
  Deno.test(`a libtorch for ${other.name} is refused on ${machine.name}: by the start, in the list and by doctor`, () =>
    inTemp(async (cwd) => {
      const env = { HPCTRAIN_LIBTORCH: other.libtorch, HPCTRAIN_CACHE: join(cwd, "cache") };
      const sentence = `is built for ${other.name}, this machine is ${machine.name}`;
      const started = await on(machine, ["--preset=debug", "--save-dir", cwd], { cwd, env });
      assertEquals([started.code, started.stderr.includes(sentence)], [7, true], started.stderr);
      assertMatch(started.stderr, /--arch \w+, downloads one for/);
      const listed = await done(machine, ["libtorch", "list"], { cwd, env });
      assert(listed.stdout.includes(sentence), listed.stdout);
      const examined = await on(machine, ["doctor", "--save-dir", cwd], { cwd, env });
      assertEquals([examined.code, examined.stdout.includes(sentence)], [1, true], examined.stdout);
    }));
}

/** Written by Python: rows in columnar formats. */
const COLUMNS = `
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.feather as feather, xarray as xr
from astropy.io import fits
table = pa.table({"a": r.normal(size=64).astype("f4"), "b": r.normal(size=64), "label": r.integers(0, 3, 64)})
pq.write_table(table, "rows.parquet", compression="zstd")
feather.write_feather(table, "rows.arrow", compression="lz4")
with open("rows.csv", "w") as f:
    f.write("a,b,label\\n")
    for row in zip(*(table[name].to_pylist() for name in table.column_names)): f.write("%r,%r,%d\\n" % row)
maps = {"x": (("sample", "c"), r.normal(size=(64, 4)).astype("f4")), "y": (("sample",), r.normal(size=64).astype("f4"))}
xr.Dataset(maps).to_zarr("rows.zarr", mode="w")
print("null")
`;
const XY = ["--features=x", "--targets=y"], ABL = ["--features=a,b", "--targets=label"];
const PACKED: readonly (readonly [file: string, ...flags: string[]])[] = [
  ["images"],
  ["rows.npz", ...XY],
  ["small.npz", ...XY],
  ["rows.h5", ...XY],
  ["rows.nc", "--features=wind", "--targets=ice"],
  ["classic.nc", "--features=maps", "--targets=ice"],
  ["rows.zarr", ...XY],
  ["rows.parquet", ...ABL],
  ["rows.arrow", ...ABL],
  ["rows.csv", ...ABL],
];
Deno.test("data read on aarch64 is x86-64's, bit for bit: images, NumPy, HDF5, NetCDF, Zarr, Parquet, Arrow, CSV", async (t) => {
  await inTemp(async (cwd) => {
    const names = PACKED.map(([name]) => name);
    lay(await goodFiles(...names), cwd);
    writtenBy(cwd, COLUMNS);
    for (const [name, ...flags] of PACKED) {
      await t.step(name, async () => {
        const shards = await Promise.all([X86, ARM].map(async (machine) => {
          const out = join(cwd, `packed-${machine.name}`, name.replace(".", "-")); // OUT.npz is another kind of file
          Deno.mkdirSync(join(out, ".."), { recursive: true });
          await done(machine, ["pack", join(cwd, name), out, ...flags, "--num-workers=0"], { cwd });
          return filesIn(out).map((file) => [file, Deno.readFileSync(join(out, file)).toHex()] as const);
        }));
        const bytes = shards[0].reduce((sum, [, hex]) => sum + hex.length / 2, 0);
        assert(bytes > 500, `${bytes} bytes`);
        assertEquals(shards[1], shards[0]);
      });
    }
  });
});

Deno.test("made fields are x86-64's but for rounding, as libtorch transforms them: within 1e-5, parameters bit for bit", () =>
  inTemp(async (cwd) => {
    const [x86, arm] = await Promise.all([X86, ARM].map(async (machine) => {
      const out = join(cwd, machine.name);
      await done(machine, ["generate-data", "--data-type=synthetic", "--samples=64", "--out", out], { cwd });
      const { row_bytes, header_bytes, crc32, target } = JSON.parse(
        Deno.readTextFileSync(join(out, "index.json")),
      );
      const shard = Deno.readFileSync(join(out, "shard-00000.bin"));
      return Array.from({ length: (shard.length - header_bytes) / row_bytes }, (_, row) => {
        const from = header_bytes + row * row_bytes;
        const floats = (
          begin: number,
          end: number,
        ) => [...new Float32Array(shard.slice(from + begin, from + end).buffer)];
        return { map: floats(0, target.offset), parameters: floats(target.offset, crc32) };
      });
    }));
    assertEquals([x86.length, arm.length], [16, 16]);
    assertEquals(arm.map(({ parameters }) => parameters), x86.map(({ parameters }) => parameters));
    const far = x86.map(({ map }, row) =>
      Math.max(...map.map((value, i) => Math.abs(value - arm[row].map[i])))
    );
    assert(Math.max(...far) < 1e-5, `${Math.max(...far)}`);
  }));

for (
  const [name, env] of [
    ["MPICH", { HPCTRAIN_MPI: join(ARM.mpich, "lib") }],
    ["shared memory", {}],
  ] as const
) {
  Deno.test(`two ranks by ${name} train to the losses of one, and of two on x86-64`, () =>
    inTemp(async (cwd) => {
      const flags = [
        ...[
          "--preset=debug",
          "--max-steps=10",
          "--device=cpu",
          "--threads=1",
          "--log-interval=1",
          "--no-wandb",
        ],
        ...["--global-batch-size=64", "--save-dir", cwd],
      ];
      const backend = name === "MPICH" ? ["--distributed-backend=mpi"] : [];
      await done(ARM, ["train", ...flags, "--batch-size=64", "--run-name=one"], { cwd });
      const two = (
        run: string,
      ) => ["launch", "-n", "2", "--", ...flags, "--batch-size=32", ...backend, `--run-name=${run}`];
      const { stdout } = await done(ARM, two("arm"), { cwd, env });
      assertMatch(stdout, /on 2 CPU ranks/);
      const theirs: Record<string, string> = name === "MPICH" ? { HPCTRAIN_MPI: join(X86.mpich, "lib") } : {};
      await done(X86, two("x86"), { cwd, env: theirs });
      assertEquals(losses(cwd, "arm").length, 10);
      for (const other of ["one", "x86"]) {
        const far = apart(losses(cwd, "arm"), losses(cwd, other));
        assert(far < 1e-5, `${other}: ${far}`);
      }
    }));
}

Deno.test("W&B's files of a run on aarch64 hold x86-64's rows, and W&B's own program delivers them", () =>
  inTemp(async (cwd) => {
    const files: string[] = [];
    for (const machine of [X86, ARM]) {
      const folder = join(cwd, machine.name);
      const flags = ["--preset=debug", "--max-steps=12", "--log-interval=1", "--threads=1", "--device=cpu"];
      await done(machine, ["train", ...flags, "--run-name=r", "--save-dir", folder], { cwd });
      files.push(join(folder, filesIn(folder).find((path) => path.endsWith(".wandb"))!));
    }
    const [x86, arm] = files.map((file) => rowsOf(file).filter((row) => "train/loss" in row));
    assertEquals(arm.map(({ _step }) => _step), x86.map(({ _step }) => _step));
    assertEquals(arm.length, 12);
    assertEquals(arm.map((row) => Object.keys(row).sort()), x86.map((row) => Object.keys(row).sort()));
    const curve = (rows: Record<string, unknown>[]) => rows.map((row) => row["train/loss"] as number);
    assert(apart(curve(x86), curve(arm)) < 1e-5);
    const machine = Deno.readTextFileSync(join(dirname(files[1]), "files/wandb-metadata.json"));
    assertMatch(machine, /Linux-[^"]*-aarch64/);
    await using server = openWandbServer();
    await sync("new", server, cwd, [dirname(files[1])]);
    const { exitCode, lines } = server.run();
    assertEquals([exitCode, lines.history.map(parsed).map(({ _step }) => _step)], [0, stepsOf(files[1])]);
  }));
