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
import { waitIn } from "../../bench/loader.ts";

const { mnist, hdf5 } = dataSets;

/** Two hundredths of the files, made once for the tests below. */
async function withData(test: (sides: Sides) => Promise<void>): Promise<void> {
  const python = Deno.env.get("HPCTRAIN_PYTHON");
  if (!python) throw new Error("set HPCTRAIN_PYTHON to a Python with torch, torchvision, h5py and netCDF4");
  const data = Deno.makeTempDirSync();
  const peer = new URL("../../bench/peers/loader_data.py", import.meta.url).pathname;
  const worker = new URL("../../bench/loader_worker.ts", import.meta.url).pathname;
  try {
    await new Deno.Command(python, { args: ["-B", peer, data, "0.02"] }).output();
    await test({ worker: [Deno.execPath(), "run", "-A", "--no-check", "--quiet", worker], python, data });
  } finally {
    Deno.removeSync(data, { recursive: true });
  }
}

Deno.test("both sides read every sample once and alike, and their speeds are measured", () =>
  withData(async (sides) => {
    await sameSamples(sides, hdf5);
    const { sweep, workers, rounds } = await measureSpeed(
      sides,
      mnist,
      { rounds: 2, seconds: 0.01 },
      openHost(),
    );
    assertEquals(Object.keys(sweep), ["0", "2", "4"]);
    assertEquals(sweep[workers], Math.max(...Object.values(sweep)));
    assertEquals([rounds.hpctrain.length, rounds.pytorch.length], [2, 2]);
    assert([...rounds.hpctrain, ...rounds.pytorch].every((speed) => speed > 0));
    const fewer = { ...mnist, flags: [...mnist.flags, "--validation-split", "0", "--train-samples", "100"] };
    await assertRejects(() => sameSamples(sides, fewer), Error, "the sides read different samples");
  }));

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
