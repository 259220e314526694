// `hpctrain generate-data` from outside: the same bits from any number of ranks and threads and after a kill, what it
// refuses, and training on what it made.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { eventsOf, filesIn, finish, inTemp, run, start, succeed, TINY, until } from "./program.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

/** Sixteen files of small samples. */
const SMALL = ["--samples=48", "--val-samples=16", "--grid=16", "--seed=5", "--samples-per-shard=4"];
const generate = (
  type: string,
  out: string,
  ...more: string[]
) => ["generate-data", `--data-type=${type}`, `--out=${out}`, ...SMALL, "--threads=1", ...more];

/** Every file's name and bytes. */
const contents = (folder: string) =>
  filesIn(folder).map((name) => [name, Deno.readFileSync(join(folder, name)).toHex()]);

/** The targets of a folder's first shard, as numbers. */
function rowsOf(folder: string, shard = "shard-00000.bin") {
  const index = JSON.parse(Deno.readTextFileSync(join(folder, "index.json")));
  const { buffer } = Deno.readFileSync(join(folder, shard));
  const count = (buffer.byteLength - index.header_bytes) / index.row_bytes;
  const numbers = (at: number, shape: number[]) =>
    Array.from({ length: count }, (_, i) => [
      ...new Float32Array(buffer.slice(
        index.header_bytes + i * index.row_bytes + at,
        index.header_bytes + i * index.row_bytes + at + 4 * shape.reduce((a, b) => a * b, 1),
      )),
    ]);
  return {
    index,
    maps: numbers(index.input.offset, index.input.shape),
    targets: numbers(index.target.offset, index.target.shape),
  };
}

for (const type of ["2lpt", "des"]) {
  Deno.test(`${type}: 1 rank, 4 ranks, 2 threads and other neighbours give the same bits`, () =>
    inTemp(async (cwd) => {
      await succeed(generate(type, "one"), { cwd });
      const ranks = Array.from({ length: 4 }, (_, rank) =>
        run(generate(type, "four"), {
          cwd,
          env: { RANK: String(rank), WORLD_SIZE: "4", LOCAL_RANK: String(rank), LOCAL_WORLD_SIZE: "4" },
        }));
      const results = await Promise.all(ranks);
      for (const { code, stderr } of results) assertEquals([code, stderr], [0, ""]);
      const one = contents(join(cwd, "one"));
      assertEquals(one.length, 17); // 12 shards to train with, 4 to validate with, the index
      assertEquals(contents(join(cwd, "four")), one);
      await succeed(generate(type, "threads", "--threads=2"), { cwd });
      assertEquals(contents(join(cwd, "threads")), one);
      // The first samples of a longer set, in other shards, are the same samples.
      const longer = ["--samples=80", "--val-samples=0", "--samples-per-shard=80"];
      await succeed(generate(type, "longer", ...longer), { cwd });
      const [short, long] = ["one", "longer"].map((folder) => rowsOf(join(cwd, folder)));
      assertEquals(long.maps.slice(0, 4), short.maps);
      assertEquals(long.targets.slice(0, 4), short.targets);
    }));
}

Deno.test("killed at any moment, the same command goes on and ends with the same bits", () =>
  inTemp(async (cwd) => {
    const slow = [
      "generate-data",
      "--data-type=2lpt",
      "--samples=96",
      "--grid=32",
      "--samples-per-shard=4",
      "--threads=1",
    ];
    await succeed([...slow, "--out=whole"], { cwd });
    for (const shards of [1, 9]) {
      const child = start([...slow, "--out=killed"], { cwd });
      await until(`${shards} shards`, () => {
        try {
          return filesIn(join(cwd, "killed")).filter((name) => /^shard-\d+\.bin$/.test(name)).length >=
            shards;
        } catch {
          return false;
        }
      });
      child.kill("SIGKILL");
      await finish(child);
    }
    const before = filesIn(join(cwd, "killed"));
    assert(!before.includes("index.json"), "it was done before it was killed");
    const { stdout } = await succeed([...slow, "--out=killed"], { cwd });
    assertMatch(stdout, /found \d+ there/);
    assertEquals(contents(join(cwd, "killed")), contents(join(cwd, "whole")));
    assertMatch((await succeed([...slow, "--out=killed"], { cwd })).stdout, /Nothing to do: 24 shards/);
  }));

Deno.test("targets are parameters by their names, drawn from the prior, and maps have mean 1", () =>
  inTemp(async (cwd) => {
    const prior = "--prior=sigma_8=0.7..0.9,h=0.7,n_s=0.96,omega_b=0.05";
    await succeed(generate("2lpt", "maps", prior, "--maps=2", "--samples-per-shard=48"), { cwd });
    const { index, maps, targets } = rowsOf(join(cwd, "maps"));
    assertEquals(index.names, ["omega_m", "sigma_8"]);
    assertEquals(index.input.shape, [2, 16, 16]);
    assertEquals(index.origin.kind, "2lpt");
    assertEquals(index.samples, { train: 48, val: 16 });
    for (const [omegaM, sigma8] of targets) {
      assert(omegaM >= 0.1 && omegaM <= 0.5 && sigma8 >= 0.7 && sigma8 <= 0.9);
    }
    assert(new Set(targets.flat()).size === 96, "each sample has its own");
    for (const map of maps) {
      assert(Math.abs(map.reduce((a, b) => a + b, 0) / map.length - 1) < 1e-5);
      assert(map.every((x) => x >= 0));
    }
  }));

Deno.test("synthetic makes the quickstart's fields, and training reads them", () =>
  inTemp(async (cwd) => {
    await succeed(generate("synthetic", "fields"), { cwd });
    const { index, targets } = rowsOf(join(cwd, "fields"));
    assertEquals([index.origin.kind, index.names], ["fields", ["amplitude", "tilt"]]);
    assert(targets.flat().every((t) => Math.abs(t) <= Math.sqrt(3) + 1e-6));
    const trained = [...TINY, "--model=cosmo-cnn", "--data-path=fields", "--run-name=f"];
    assertStringIncludes((await succeed(trained, { cwd })).stdout, "[Epoch 1/1] Loss: ");
  }));

const MODEL = ["--model=cosmo-cnn", "--set=model.image_size=16"];

Deno.test("training without a path generates once, and trains the same on what it finds", () =>
  inTemp(async (cwd) => {
    const train = (name: string, ...more: string[]) =>
      succeed([...TINY, ...MODEL, "--data-type=2lpt", `--run-name=${name}`, ...more], { cwd });
    const first = await train("first");
    assertMatch(
      first.stdout,
      /Generated 80 samples in .* a second; the next run finds them in \S*data\/2lpt-\w{8}/,
    );
    const folder = /finds them in (\S+)/.exec(first.stdout)![1];
    const second = await train("second");
    assertStringIncludes(second.stdout, `Generated before: ${folder}`);
    const losses = (name: string) =>
      eventsOf(cwd, name).filter(({ kind }) => kind === "step").map(({ loss }) => loss);
    assertEquals(losses("second"), losses("first"));
    const targets = "--targets=sigma_8";
    const named = await train("third", `--data-path=${folder}`, targets);
    const asPacked = await train("fourth", `--data-path=${folder}`, targets, "--data-type=auto");
    for (const { stdout } of [named, asPacked]) {
      assertStringIncludes(stdout, "[Epoch 1/1] Loss: ");
      assertMatch(stdout, /-> 5 numbers, packed from .*; of these: sigma_8\b/m);
      assert(!stdout.includes("No effect"));
    }
    assertEquals(losses("fourth"), losses("third"));
    // The chosen one alone can be packed again.
    await succeed(["pack", folder, "small", targets], { cwd });
    assertEquals(rowsOf(join(cwd, "small")).index.names, ["sigma_8"]);
  }));

Deno.test("a run that is killed while it generates goes on with what is there", () =>
  inTemp(async (cwd) => {
    const sizes = ["--set=model.image_size=32", "--train-samples=320", "--val-samples=16"];
    const args = [...TINY, "--model=cosmo-cnn", "--data-type=2lpt", "--run-name=r", ...sizes];
    const child = start(args, { cwd });
    const shards = () => filesBelow(join(cwd, "data")).filter((name) => /shard-\d+\.bin$/.test(name)).length;
    await until("four shards, of which two may not be noted yet", () => shards() >= 4);
    child.kill("SIGKILL");
    await finish(child);
    assert(shards() < 21, "all was there before it was killed");
    const { stdout } = await succeed(args, { cwd });
    const made = Number(/^Generated (\d+) samples in /m.exec(stdout)?.[1]);
    assert(made > 0 && made <= 336 - 2 * 16, stdout);
    assertEquals(shards(), 21);
  }));

function filesBelow(folder: string): string[] {
  try {
    return filesIn(folder);
  } catch {
    return []; // not there yet, or changed while it was listed
  }
}

Deno.test("data that is not ours, or not of this kind, is not trained on", () =>
  inTemp(async (cwd) => {
    await succeed(generate("synthetic", "fields"), { cwd });
    const other = await run([...TINY, ...MODEL, "--data-type=des", "--data-path=fields"], { cwd });
    assertEquals(other.code, 3);
    assertSentence("integration/generate_data: fields packed gaussian", other.stderr);
    await succeed(generate("2lpt", "maps"), { cwd });
    const unknown = await run(
      [...TINY, ...MODEL, "--data-type=2lpt", "--data-path=maps", "--targets=sigma8"],
      { cwd },
    );
    assertEquals(unknown.code, 2);
    assertSentence("integration/generate_data: maps target sigma", unknown.stderr);
  }));

Deno.test("what can't be made is refused in a sentence", () =>
  inTemp(async (cwd) => {
    const cases: [string[], string][] = [
      [["--data-type=2lpt", "--out=x"], "generate-data needs --samples: to train with."],
      [
        ["--data-type=lpt", "--samples=1", "--out=x"],
        sentenceNamed("integration/generate_data: data-type value must"),
      ],
      [
        ["--data-type=2lpt", "--samples=0", "--out=x"],
        sentenceNamed("integration/generate_data: samples value must"),
      ],
      [[...generate("2lpt", "x"), "--grid=33"].slice(1), "A grid of 33 cells along the side"],
      [[...generate("2lpt", "x"), "--maps=5"].slice(1), "A box of 16 cells can't be cut into 5 slabs"],
      [[...generate("2lpt", "x"), "--bins=3"].slice(1), "--bins has no effect on data of type 2lpt"],
      [
        [...generate("2lpt", "x"), "--prior=sigma8=0.8"].slice(1),
        sentenceNamed("integration/generate_data: parameter sigma did"),
      ],
      [[...generate("2lpt", "x"), "--prior=h=7"].slice(1), "h goes from 0.4 to 1"],
      [[...generate("2lpt", "x"), "--prior=h=0.7", "--targets=h"].slice(1), "h is fixed by --prior"],
      [[...generate("2lpt", "x"), "--prior=omega_m=0.05"].slice(1), "baryons are a part of matter"],
      [
        [...generate("des", "x"), "--redshit=1"].slice(1),
        'Unknown flag --redshit. Did you mean "--redshift"?',
      ],
      [[...generate("des", "x"), "here"].slice(1), 'takes options only, and got "here"'],
    ];
    for (const [args, sentence] of cases) {
      const { code, stderr } = await run(["generate-data", ...args], { cwd });
      assertEquals(code, 2, stderr);
      assertStringIncludes(stderr, sentence);
    }
    assertEquals(filesIn(cwd), []);
    await succeed(generate("2lpt", "maps"), { cwd });
    const again = await run(generate("2lpt", "maps", "--redshift=3"), { cwd });
    assertEquals(again.code, 2);
    assertStringIncludes(again.stderr, "maps holds other data");
  }));
