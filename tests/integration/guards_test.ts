// A loss that jumps, from outside: told, left out, or gone back from; the same on one rank and on two.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { mpich } from "../mpi.ts";
import { eventsOf, inTemp, run } from "./program.ts";
import { train } from "./ranks.ts";

const ROWS = 1600, BATCH = 32;

/** A line with noise, and one batch of rows whose targets are far off. */
function makeData(cwd: string, target: number): void {
  let text = "a,b,y\n";
  for (let i = 0; i < ROWS; i++) {
    const a = Math.sin(i * 12.9898), b = Math.cos(i * 78.233);
    const spoilt = i >= 36 * BATCH && i < 37 * BATCH;
    text += `${a},${b},${spoilt ? target : a - 2 * b}\n`;
  }
  Deno.writeTextFileSync(join(cwd, "data.csv"), text);
}

const FLAGS = [
  ...[
    "--data-type=csv",
    "--data-path=data.csv",
    "--set=data.features=a,b",
    "--set=data.targets=y",
    "--model=mlp",
  ],
  ...[
    "--set=data.shuffle=false",
    "--set=data.normalise=none",
    "--validation-split=0",
    "--loss=mse",
    "--epochs=1",
  ],
  ...[
    "--save-interval=10steps",
    "--no-wandb",
    "--seed=1",
    "--optimizer=sgd",
    "--lr=0.001",
    "--device=cpu",
    "--threads=1",
    "--run-name=r",
  ],
  ...["--log-interval=1"],
];

const flags = (on: string, batch = BATCH) => [...FLAGS, `--on-spike=${on}`, `--batch-size=${batch}`];
const losses = (cwd: string) =>
  new Map(
    eventsOf(cwd, "r").filter(({ kind }) => kind === "step").map(({ step, loss }) => [step, Number(loss)]),
  );
const spikes = (cwd: string) => eventsOf(cwd, "r").filter(({ about }) => about === "spike");
const attempts = (cwd: string) =>
  JSON.parse(Deno.readTextFileSync(join(cwd, "logs/r/lineage.json"))).attempts as Record<string, unknown>[];

Deno.test("a spike is told of, and training goes on with what it did (--on-spike warn)", () =>
  inTemp(async (cwd) => {
    makeData(cwd, 1e4);
    const { code, stderr } = await run(flags("warn"), { cwd });
    assertEquals(code, 0, stderr);
    assertMatch(
      stderr,
      /^warning: The loss jumped to \S+ at step 37, \S+ standard deviations above the mean of those before\.$/m,
    );
    assertEquals(spikes(cwd).map(({ step }) => step), [37, 46], "the first, and the tenth in a row");
    assert(losses(cwd).get(40)! > 10, "the spoilt weights go on");
  }));

Deno.test("skip leaves the step out: the weights after it are those before it", () =>
  inTemp(async (cwd) => {
    makeData(cwd, 1e4);
    const { code, stderr } = await run(flags("skip"), { cwd });
    assertEquals(code, 0, stderr);
    assertEquals(spikes(cwd).map(({ step }) => step), [37]);
    const found = losses(cwd);
    assert(found.get(37)! > 1e6 && found.get(38)! < 10, `${found.get(37)}, ${found.get(38)}`);
  }));

Deno.test("rewind goes back to the last checkpoint, leaves out the batches since, and says so in the lineage", () =>
  inTemp(async (cwd) => {
    makeData(cwd, 1e20); // its square is too large for a float: the loss is no number, which ends a run otherwise
    const { code, stderr } = await run(flags("rewind"), { cwd });
    assertEquals(code, 0, stderr);
    assertMatch(
      stderr,
      /^warning: The loss became Infinity at step 37: going back to the weights of step \d+; the batches of steps \d+ to 38 are left out/m,
    );
    const found = losses(cwd);
    assertEquals([...found.keys()], Array.from({ length: 50 }, (_, i) => i + 1), "each step once, in order");
    assert(found.get(39)! < 10 && found.get(50)! < 10, `${found.get(39)}, ${found.get(50)}`);
    const [went] = eventsOf(cwd, "r").filter(({ kind }) => kind === "rewind");
    assert(Number(went.to_step) % 10 === 0 && Number(went.to_step) >= 10 && Number(went.to_step) <= 30);
    const [{ rewinds }] = attempts(cwd);
    assertEquals(rewinds, [{
      at_step: 38,
      to_step: went.to_step,
      reason: "The loss became Infinity at step 37",
    }]);
  }));

Deno.test("rewind does the same on two ranks, and a resumed run knows nothing of the batches that were left out", () =>
  inTemp(async (cwd) => {
    makeData(cwd, 1e20);
    const call = { mpi: mpich(), cwd };
    const first = await train(cwd, "r", 2, [...flags("rewind", BATCH / 2), "--max-steps=45"], call);
    assertEquals(first.code, 0, first.stderr);
    const found = losses(cwd);
    assertEquals([...found.keys()], Array.from({ length: 45 }, (_, i) => i + 1));
    assert(
      found.get(37)! === Infinity && found.get(39)! < 10 && found.get(45)! < 10,
      `${[...found.values()]}`,
    );
    assertEquals((attempts(cwd)[0].rewinds as unknown[]).length, 1);
    const again = await run([...flags("rewind"), "--resume=checkpoints/r_latest.pt", "--max-steps=50"], {
      cwd,
    });
    assertEquals(again.code, 0, again.stderr);
    assertEquals(losses(cwd).size, 50);
  }));

Deno.test("rewind before the first checkpoint says that there is none, and goes on", () =>
  inTemp(async (cwd) => {
    makeData(cwd, 1e4);
    const { code, stderr } = await run([...flags("rewind"), "--save-interval=0"], { cwd });
    assertEquals(code, 0, stderr);
    assertMatch(stderr, /There is no checkpoint to go back to yet \(--on-spike rewind\)\.$/m);
  }));

Deno.test("--on-event gets the spike and the end as JSON", () =>
  inTemp(async (cwd) => {
    makeData(cwd, 1e4);
    const { code, stderr } = await run([...flags("skip"), `--on-event=cat >> '${cwd}/heard'`], { cwd });
    assertEquals(code, 0, stderr);
    const heard = Deno.readTextFileSync(join(cwd, "heard")).trimEnd().split("\n").map((line) =>
      JSON.parse(line)
    );
    assertEquals(heard.filter(({ event }) => event !== "warning").map(({ event, step }) => [event, step]), [
      ["spike", 37],
      ["exit", 50],
    ]);
  }));
