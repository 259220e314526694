// A sweep as a job array, and a run that is stopped by hand, in a real SLURM.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { COMMAND, eventsOf } from "../program.ts";
import { type Bed, MISSING, NEEDS, startBed } from "./bed.ts";

let bed: Bed;
if (!MISSING) {
  Deno.test.beforeAll(async () => void (bed = await startBed()));
  Deno.test.afterAll(() => bed.stop());
}

const env = () => ({ HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")! });
const MLP = [
  "--model=mlp",
  "--train-samples=256",
  "--val-samples=64",
  "--device=cpu",
  "--cpus-per-task=1",
  "--no-wandb",
];

function folder(name: string): string {
  const cwd = join(bed.folder, name);
  Deno.mkdirSync(cwd);
  return cwd;
}

async function until(what: string, condition: () => Promise<boolean>, seconds = 120): Promise<void> {
  for (const end = performance.now() + seconds * 1000; !(await condition());) {
    if (performance.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

interface Row {
  readonly run: string;
  readonly state: string;
  readonly metric: number | null;
}

Deno.test({
  name: `a sweep of three values is one job array, each run of it trains, and the best is known ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const cwd = folder("sweep"), options = { cwd, env: env() };
    const told = await bed.done(
      [...COMMAND, "sweep", ...MLP, "--epochs=2", "--lr=1e-3,3e-3,1e-2", "--time=5", "--submit"],
      options,
    );
    assertMatch(told, /^Submitted job \d+: a job array of 3 runs/m);
    const rows = async (verb: string): Promise<Row[]> =>
      JSON.parse(await bed.done([...COMMAND, "sweep", verb, "--json"], options)).runs;
    await until(
      "all runs are done",
      async () => (await rows("status")).every(({ state }) => state === "done"),
    );
    const best = await rows("best");
    assertEquals(best.length, 3);
    assert(best.every(({ metric }, i) => i === 0 || metric! >= best[i - 1].metric!));
    const again = await bed.done(
      [...COMMAND, "sweep", ...MLP, "--epochs=2", "--lr=1e-3,3e-3,1e-2", "--time=5", "--submit"],
      options,
    );
    assertMatch(again, /0 of 3 runs not done yet/);
  },
});

Deno.test({
  name:
    `tasks of a search take a run each, all ranks the same one; a requeued task takes its own again ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const cwd = folder("search"), options = { cwd, env: env() };
    const of = ["--search=tpe", "--lr=1e-4..1e-1", "--max-runs=3", "--parallel=2", "--name=s"];
    const job = ["--ntasks-per-node=2", "--time=5", "--submit"];
    const words = [...COMMAND, "sweep", ...MLP, "--epochs=60", "--save-interval=20steps", ...of, ...job];
    const told = await bed.done(words, options);
    const id = Number(/^Submitted job (\d+): a job array of 3 runs/m.exec(told)![1]);
    const rows = async (): Promise<Row[]> =>
      JSON.parse(await bed.done([...COMMAND, "sweep", "status", "--json"], options)).runs;
    const has = (kind: string) => eventsOf(cwd, "s-000").some((event) => event.kind === kind);
    await until("the first run has saved", () => Promise.resolve(has("save")));
    const claim = JSON.parse(Deno.readTextFileSync(join(cwd, "sweeps/s/trials/0000.claim-1")));
    assertMatch(claim.job, new RegExp(`^${id}_\\d$`));
    await bed.done(["scontrol", "requeue", claim.job], options);
    await until(
      "all runs are done",
      async () => (await rows()).filter(({ state }) => state === "done").length === 3,
      300,
    );
    assert(has("resume"), "the requeued task has begun another run");
    for (const run of ["s-000", "s-001", "s-002"]) {
      const events = eventsOf(cwd, run);
      assertEquals(events.filter(({ kind, code }) => kind === "exit" && code === 0).length, 1, run);
      assert(events.some(({ kind, world_size }) => kind === "run" && world_size === 2), run);
    }
    const ends = ["0000", "0001", "0002"].map((trial) =>
      [...Deno.readDirSync(join(cwd, "sweeps/s/trials"))].filter(({ name }) =>
        name.startsWith(`${trial}.claim`)
      ).length
    );
    assertEquals(ends, [2, 1, 1]);
  },
});

Deno.test({
  name:
    `a run that is asked to stop by hand ends with its checkpoint, and its job does not come back ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const cwd = folder("stopped"), options = { cwd, env: env() };
    const words = [
      ...COMMAND,
      "sbatch",
      ...MLP,
      "--epochs=100000",
      "--run-name=long",
      "--time=5",
      "--submit",
    ];
    const id = Number(/^Submitted job (\d+) /m.exec(await bed.done(words, options))![1]);
    const status = async () => (await bed.login([...COMMAND, "status", String(id)], options)).stdout;
    await until("the run takes steps", async () => /^state +running/m.test(await status()));
    assertMatch(await status(), new RegExp(`^job +${id}: RUNNING, `, "m"));
    await bed.done([...COMMAND, "cancel", "long"], options);
    const { restarts, code } = await bed.end(id, 60);
    assertEquals([restarts, code], [0, 75]);
    const printed = await bed.done([...COMMAND, "logs", String(id)], options);
    assertMatch(printed, /Stopped on request \(the file STOP\)/);
    const script = Deno.readTextFileSync(join(cwd, `logs/slurm/long_${id}.out`));
    assertMatch(script, /^Not going back to the queue: Stopped on request \(the file STOP\)\.$/m);
    assert(Deno.statSync(join(cwd, "checkpoints/long_latest.pt")).isFile);
  },
});
