import { existsSync } from "node:fs";
import { join } from "paths";
import { assert, assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { linesOf, openHost } from "../../bench/contestant.ts";
import {
  answerOf,
  bestOfPytorch,
  dataSets,
  measureSpeed,
  memoryOf,
  sameSamples,
  type Sides,
} from "../../bench/loader_sides.ts";
import { OTHERS, othersHere } from "../../bench/loader_others.ts";
import { waitIn } from "../../bench/loader.ts";
import { inTemp } from "../integration/program.ts";
import { peer } from "../peer.ts";

const { mnist, hdf5 } = dataSets;

/** Two hundredths of the files, made once for the tests below. */
async function withData(test: (sides: Sides) => Promise<void>): Promise<void> {
  const python = Deno.env.get("HPCTRAIN_PYTHON");
  if (!python) throw new Error("set HPCTRAIN_PYTHON to a Python with torch, torchvision, h5py and netCDF4");
  const data = Deno.makeTempDirSync();
  const path = (from: string) => new URL(from, import.meta.url).pathname;
  const worker = path("../../bench/loader_worker.ts");
  try {
    await peer([path("../../bench/peers/loader_data.py"), data, "0.02"]).output();
    const forked = join(data, "python"); // takes -W ignore -B off, which the fork has or does without
    const script = `#!/bin/sh\nshift 3\nexec ${python} -I -S ${path("../peers/zygote.py")} "$@"\n`;
    Deno.writeTextFileSync(forked, script, { mode: 0o755 });
    await test({
      worker: [Deno.execPath(), "run", "-A", "--no-check", "--quiet", worker],
      python: forked,
      data,
    });
  } finally {
    Deno.removeSync(data, { recursive: true });
  }
}

Deno.test("both sides read every sample once and alike, and their speeds are measured", () =>
  withData(async (sides) => {
    await sameSamples(sides, hdf5);
    const effort = { rounds: 2, seconds: 0.01 };
    const { sweep, workers, rounds } = await measureSpeed(sides, mnist, effort, openHost());
    assertEquals(Object.keys(sweep), ["0", "2", "4"]);
    assertEquals(sweep[workers], Math.max(...Object.values(sweep)));
    assertEquals([rounds.hpctrain.length, rounds.pytorch.length], [2, 2]);
    assert([...rounds.hpctrain, ...rounds.pytorch].every((speed) => speed > 0));
  }));

Deno.test("sides that read other samples, shapes, types or values are told from sides that read the same", async () => {
  const right = {
    samples: 60,
    shape: [1, 28, 28],
    types: ["f32", "i64"],
    input: 0.5,
    square: 1,
    target: 4.5,
  };
  const says = (moments: unknown) => ["sh", "-c", `echo '${JSON.stringify(moments)}'`];
  await inTemp(async (data) => {
    const compare = async (theirs: unknown) => {
      const python = join(data, "python");
      Deno.writeTextFileSync(python, `#!/bin/sh\necho '${JSON.stringify(theirs)}'\n`, { mode: 0o755 });
      await sameSamples({ worker: says(right), python, data }, mnist);
    };
    await compare({ ...right, input: 0.50005 });
    const others = {
      samples: 59,
      shape: [28, 28],
      types: ["f32", "f32"],
      input: 0.501,
      square: 1.1,
      target: 4.4,
    };
    for (const [name, other] of Object.entries(others)) {
      await assertRejects(
        () => compare({ ...right, [name]: other }),
        Error,
        "the sides read different samples",
        name,
      );
    }
  });
});

Deno.test("the memory of what a process started counts as its own, shared pages once", async () => {
  const program =
    `const held = new Uint8Array(100e6).fill(1); console.log("held"); setTimeout(() => held, 60e3);`;
  const before = memoryOf(Deno.pid);
  const child = new Deno.Command("sh", {
    args: ["-c", `${Deno.execPath()} eval '${program}' & wait`], // a grandchild
    stdout: "piped",
  }).spawn();
  const lines = linesOf(child.stdout);
  try {
    assertEquals((await lines.next()).value, "held");
    const more = memoryOf(Deno.pid) - before;
    assert(more > 90e6 && more < 400e6, `${more} more`);
  } finally {
    const pid = Deno.readTextFileSync(`/proc/${child.pid}/task/${child.pid}/children`).trim();
    Deno.kill(Number(pid));
    await child.status;
    await lines.return();
  }
});

Deno.test("waiting is a share of the time after the first step", () => {
  const step = (t: number, wait: number) => JSON.stringify({ t, kind: "step", step: t, data_s: wait });
  const lines = [`{"t":9,"kind":"run"}`, step(10, 5), step(12, 0.1), step(14, 0.3), `{"t":15,"kind":"exit"}`];
  const { steps, millisecondsPerStep, share } = waitIn(lines.join("\n") + "\n");
  assertEquals([steps, millisecondsPerStep], [3, 2000]);
  assertAlmostEquals(share, 0.1);
  assertThrows(() => waitIn(step(10, 0)), Error, "1 steps");
});

Deno.test("others compete where the environment names their Python, and who is missing is said", () => {
  const here = (...set: string[]) => othersHere((name) => set.includes(name) ? "python" : undefined);
  assertEquals(here().here, []);
  assertEquals(here().missing, [
    "HPCTRAIN_BENCH_DALI names no Python",
    "HPCTRAIN_BENCH_FFCV names no Python",
  ]);
  assertEquals(here("HPCTRAIN_BENCH_FFCV"), {
    here: ["ffcv", "ffcv_raw"],
    missing: ["HPCTRAIN_BENCH_DALI names no Python"],
  });
  for (const { program, sets } of Object.values(OTHERS)) {
    assert(existsSync(new URL(`../../bench/peers/${program}`, import.meta.url)), program);
    for (const set of sets) assert(Object.hasOwn(dataSets, set), set);
  }
});

Deno.test("PyTorch's first batch is that of the number of workers that serves it best", () => {
  const first = (...start: number[]) => ({ start, construction: [1] });
  const firsts = { hpctrain: first(1), pytorch: { "0": first(3, 2, 9), "2": first(4, 4, 4) } };
  assertEquals(bestOfPytorch(firsts, "start"), 3);
});

Deno.test("a program's answer is its line of JSON, and one that fails says why", async () => {
  const sh = (script: string): [string, string[]] => ["sh", ["-c", script]];
  const { said, seconds } = await answerOf<{ n: number }>(
    sh(`echo words; sleep 0.2; echo '{"n": 1}'; sleep 3`),
  );
  assertEquals(said, { n: 1 });
  assert(seconds >= 0.2 && seconds < 3, `${seconds} s`);
  await assertRejects(() => answerOf(sh("echo no luck >&2; exit 3")), Error, "failed: no luck");
  await assertRejects(() => answerOf(sh("echo words")), Error, "failed");
});
