// Jobs of a real SLURM that are stopped, lose a node, run out of time or are cancelled, and what becomes of their runs.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { COMMAND, eventsOf, until } from "../program.ts";
import { endsBegun, slowEnd } from "../../native/slow_end.ts";
import { tensors } from "../ranks.ts";
import { type Bed, MISSING, NEEDS, startBed } from "./bed.ts";

let bed: Bed;
/** Runs beside the other tests, since a minute is the shortest limit there is. */
let limited: number;
if (!MISSING) {
  Deno.test.beforeAll(async () => {
    bed = await startBed();
    limited = await submit(
      "limited",
      ["--ntasks=1", "--time=1"],
      [...ENDLESS, "--batch-size=4096"],
      "nice -n 5",
    );
  });
  Deno.test.afterAll(() => bed.stop());
}
const test = (name: string, fn: () => Promise<void>) =>
  Deno.test({ name: `${name} ${NEEDS}`, ignore: MISSING, fn });

const MLP = [
  ...["train", "--model=mlp", "--data-type=synthetic", "--device=cpu", "--threads=1", "--val-samples=64"],
  ...["--log-interval=1", "--save-dir=."],
];
const ENDLESS = [...MLP, "--train-samples=1000000", "--epochs=100000"];
const STOPPED = 75;

/** A folder of its own, and in it a job that trains a run of this name and goes back to the queue when it was stopped. */
async function submit(
  name: string,
  layout: readonly string[],
  flags: readonly string[],
  through = "",
): Promise<number> {
  const cwd = join(bed.folder, name);
  Deno.mkdirSync(cwd);
  const script = [
    "#!/bin/bash",
    `#SBATCH --job-name=${name} --output=%x.out --open-mode=append --requeue`,
    "code=0",
    `srun --export=ALL --mpi=pmi2 --kill-on-bad-exit=1 ${through} ${COMMAND.join(" ")} ${
      flags.join(" ")
    } --run-name=r || code=$?`,
    `if ((code == ${STOPPED} && \${SLURM_RESTART_COUNT:-0} < 2)); then scontrol requeue $SLURM_JOB_ID; fi`,
    "exit $code",
  ].join("\n");
  return await bed.submit(script, { cwd, args: layout });
}

const said = (name: string) => Deno.readTextFileSync(join(bed.folder, name, `${name}.out`));
const steps = (name: string) => {
  const last = eventsOf(join(bed.folder, name), "r").findLast(({ kind }) => kind === "step");
  return Number(last?.step ?? 0);
};

/** Until something has come of the job of this name; else what it printed is told. */
async function of(name: string, what: string, condition: () => boolean, seconds?: number): Promise<void> {
  try {
    await until(what, condition, seconds);
  } catch (error) {
    const logs = await bed.done(["sh", "-c", "cat *.out logs/slurm/*.out 2>/dev/null || true"], {
      cwd: join(bed.folder, name),
    });
    throw new Error(`${(error as Error).message}\n${logs}`);
  }
}

/** Until the job has begun again. SLURM lets some seconds go by: begun at once, it would meet the remains of its last steps. */
async function restarted(id: number, times: number): Promise<void> {
  for (;;) {
    const { state, restarts } = await bed.job(id);
    if (restarts === times && state === "RUNNING") return;
    if (/^(COMPLETED|FAILED|CANCELLED|TIMEOUT)$/.test(state)) throw new Error(`job ${id} is ${state}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

test("a job that is warned by USR1, then loses a node, ends with the bits of a run that nothing happened to", async () => {
  const flags = [
    ...[...MLP, "--train-samples=960", "--epochs=3", "--batch-size=8", "--global-batch-size=32"],
    ...["--dropout=0.1", "--deterministic=world", "--save-interval=20steps"],
  ];
  const cwd = join(bed.folder, "stopped");
  Deno.mkdirSync(cwd);
  // As a user does it: with the program's own script.
  const job = [
    "--nodes=2",
    "--ntasks-per-node=2",
    "--cpus-per-task=1",
    "--time=00:10:00",
    "--job-name=stopped",
  ];
  const words = [...COMMAND, "sbatch", ...job, ...flags.slice(1), "--run-name=r", "--submit"];
  const id = Number(/^Submitted job (\d+) /m.exec(await bed.done(words, { cwd }))![1]);
  const said = () => Deno.readTextFileSync(join(cwd, `logs/slurm/stopped_${id}.out`));
  await of("stopped", "step 10", () => steps("stopped") >= 10);
  await bed.done(["scancel", "--signal=USR1", String(id)]);
  await restarted(id, 1);
  const resumed = () => eventsOf(join(bed.folder, "stopped"), "r").filter(({ kind }) => kind === "resume");
  await of("stopped", "the run goes on", () => resumed().length === 1);
  const from = Number(resumed()[0].step);
  assert(from >= 10 && from < 80, `${from}`);
  await of("stopped", "twenty steps more", () => steps("stopped") >= from + 20);
  await bed.power("node2", "off");
  await bed.power("node2", "on");
  await restarted(id, 2);
  const { state } = await bed.end(id);
  const out = said();
  assertEquals(state, "COMPLETED", out);
  assertMatch(out, /^warning: SIGUSR1: stopping after a save/m);
  for (const restart of [1, 2]) {
    assertMatch(
      out,
      new RegExp(
        `^SLURM job ${id} was started again \\(restart ${restart}\\): the run r goes on, as with --resume auto$`,
        "m",
      ),
    );
  }
  const lineage = JSON.parse(Deno.readTextFileSync(join(cwd, "logs/r/lineage.json")));
  const ends = lineage.attempts.map(({ ended }: { ended: { why: string } }) => ended.why);
  // Rank 0 was on the other node: it may have had the time to say that its neighbours were gone.
  assertMatch(ends.join(), /^stopped,(killed|error),done$/);
  assertEquals(
    [...Deno.readDirSync(join(cwd, "logs"))].map(({ name }) => name).filter((name) => /^r/.test(name)),
    ["r"],
  );

  await bed.done([...COMMAND, ...flags, "--batch-size=32", "--run-name=whole"], { cwd });
  assertEquals(tensors(cwd, "r"), tensors(cwd, "whole"));
  const losses = (name: string) =>
    eventsOf(cwd, name).filter(({ kind }) => kind === "step").map(({ step, loss, lr }) => ({
      step,
      loss,
      lr,
    }));
  assertEquals(losses("r"), losses("whole"));
});

test("a job that is warned again and again while its run ends goes back to the queue all the same", async () => {
  const folder = join(bed.folder, "ends");
  Deno.mkdirSync(folder);
  const slow = Object.entries(slowEnd(folder, 3)).map(([name, value]) => `${name}=${value}`);
  const id = await submit("again", ["--ntasks=1"], ENDLESS, ["env", ...slow].join(" "));
  await of("again", "ten steps", () => steps("again") >= 10);
  await bed.done(["scancel", "--signal=USR1", String(id)]);
  await of("again", "the run ends", () => endsBegun(folder) === 1);
  for (const signal of ["USR1", "TERM", "USR1"]) {
    await bed.done(["scancel", `--signal=${signal}`, String(id)]);
  }
  await restarted(id, 1);
  await of("again", "the run goes on", () => /\(restart 1\): the run r goes on/.test(said("again")));
  await bed.done(["scancel", String(id)]);
});

test("scancel ends a run after a save, and it does not come back", async () => {
  const id = await submit("cancelled", ["--ntasks=2"], ENDLESS);
  await of("cancelled", "ten steps", () => steps("cancelled") >= 10);
  await bed.done(["scancel", String(id)]);
  assertEquals((await bed.end(id)).state, "CANCELLED");
  await of("cancelled", "the last words", () => /^Stopped on request \(SIGTERM\)/m.test(said("cancelled")));
  const saves = eventsOf(join(bed.folder, "cancelled"), "r").filter(({ kind }) => kind === "save");
  assertEquals(saves.map(({ reason }) => reason), ["stop"]);
});

test("a run stops by itself before its job's time is over, without any signal, and comes back", async () => {
  await of("limited", "the run stops", () => /^Stopped on request/m.test(said("limited")), 90);
  const out = said("limited");
  const [, left] = /^warning: Stopping: (\d+) s of the job's 60 s are left and a save takes less than 1 s$/m
    .exec(out)!;
  assert(Number(left) > 0, out);
  assert(!/SIG(TERM|USR1)|CANCELLED .* DUE TO TIME LIMIT/.test(out.split("Stopped on request")[0]), out);
  // By what it printed: where the tests before took minutes, it has stopped for the third time by now, and its job is over.
  await of("limited", "the run goes on", () => /\(restart 1\): the run r goes on/.test(said("limited")), 90);
  await bed.login(["scancel", String(limited)]);
});
