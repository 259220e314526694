// Runs in a real SLURM: every layout trains to what one process trains to, and wrong ones are refused at once.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { within } from "../../cpu_time.ts";
import { openMpi } from "../../mpi.ts";
import { COMMAND, eventsOf, type Result } from "../program.ts";
import { apart, numbers } from "../ranks.ts";
import { type Bed, MISSING, NEEDS, startBed } from "./bed.ts";

let bed: Bed;
if (!MISSING) {
  Deno.test.beforeAll(async () => void (bed = await startBed()));
  Deno.test.afterAll(() => bed.stop());
}
const test = (name: string, fn: () => Promise<void>) =>
  Deno.test({ name: `${name} ${NEEDS}`, ignore: MISSING, fn });

/** Eight steps of 32 samples an epoch, however many ranks share them. */
const ANYWHERE = [
  ...[
    "train",
    "--model=mlp",
    "--data-type=synthetic",
    "--threads=1",
    "--train-samples=256",
    "--val-samples=64",
  ],
  ...["--global-batch-size=32", "--log-interval=1", "--save-dir=."],
];
const MLP = [...ANYWHERE, "--device=cpu"];
const srun = (layout: string[], flags: string[], env?: Record<string, string>): Promise<Result> =>
  bed.login(["srun", ...layout, ...COMMAND, ...MLP, ...flags], { cwd: bed.folder, env });
const MPI = ["--mpi=pmi2", "--kill-on-bad-exit=1"];

async function trained(name: string, call: Promise<Result>): Promise<number[]> {
  const { code, stdout, stderr } = await call;
  assertEquals(code, 0, stdout + stderr);
  return numbers(bed.folder, name);
}

let alone: Promise<number[]> | null = null;
/** Losses of one process, without srun. */
const reference = () =>
  alone ??= trained(
    "alone",
    bed.login([...COMMAND, ...MLP, "--epochs=1", "--batch-size=32", "--run-name=alone"], { cwd: bed.folder }),
  );

for (
  const [what, layout, ranks] of [
    ["2 tasks of one node", ["--nodes=1", "--ntasks-per-node=2"], 2],
    ["2 nodes x 2 tasks", ["--nodes=2", "--ntasks-per-node=2"], 4],
    ["2 nodes x 1 task", ["--nodes=2", "--ntasks-per-node=1"], 2],
  ] as const
) {
  test(`${what} train to the losses of one process`, async () => {
    const name = `ranks-${layout.join("").replaceAll(/\D/g, "")}`;
    const losses = await trained(
      name,
      srun([...MPI, ...layout], ["--epochs=1", `--batch-size=${32 / ranks}`, `--run-name=${name}`]),
    );
    const run = eventsOf(bed.folder, name).find(({ kind }) => kind === "run")!;
    assertEquals(run.world_size, ranks);
    assertEquals(losses.length, (await reference()).length);
    assert(apart(await reference(), losses) < 1e-5, `${losses}`);
  });
}

test("Open MPI's ranks, which srun starts by PMIx on 2 nodes, train to the losses of one process", async () => {
  const PATH = `${join(openMpi().folder, "bin")}:${Deno.env.get("PATH")}`;
  const flags = ["--epochs=1", "--batch-size=16", "--run-name=pmix"];
  const layout = ["--mpi=pmix", "--kill-on-bad-exit=1", "--nodes=2", "--ntasks-per-node=1"];
  const told = await srun(layout, flags, { PATH });
  const losses = await trained("pmix", Promise.resolve(told));
  assertMatch(told.stdout, /^Communication: Open MPI /m);
  assertEquals(eventsOf(bed.folder, "pmix").find(({ kind }) => kind === "run")!.world_size, 2);
  assert(apart(await reference(), losses) < 1e-5, `${losses}`);
});

test("one task on each of 2 nodes, which starts the ranks there, trains to the losses of one process", async () => {
  const ranks = ["launch", "-n", "2", "--nodes=2", "--rendezvous=node1:29500", "--"];
  const flags = [...MLP, "--epochs=1", "--batch-size=8", "--run-name=launched"];
  const losses = await trained(
    "launched",
    bed.login([
      "srun",
      "--nodes=2",
      "--ntasks-per-node=1",
      "--kill-on-bad-exit=1",
      ...COMMAND,
      ...ranks,
      ...flags,
    ], {
      cwd: bed.folder,
      env: { HPCTRAIN_SECRET: crypto.randomUUID() },
    }),
  );
  assertEquals(eventsOf(bed.folder, "launched").find(({ kind }) => kind === "run")!.world_size, 4);
  assertEquals(losses.length, (await reference()).length);
  assert(apart(await reference(), losses) < 1e-5, `${losses}`);
});

test("with --export in each of its forms a script's srun has what it needs", async () => {
  const cwd = join(bed.folder, "export");
  Deno.mkdirSync(cwd);
  const script = [
    "#!/bin/bash",
    "#SBATCH --nodes=2 --ntasks-per-node=1 --output=%x.out --time=5",
    // What --export leaves out a site's own files set; here it is this.
    `export HPCTRAIN_LIBTORCH=${Deno.env.get("HPCTRAIN_LIBTORCH")} PATH=$1:$PATH HOME=$2 DENO_DIR=$3`,
    "export HPCTRAIN_EPOCHS=${HPCTRAIN_EPOCHS:-1}",
    `srun --export=ALL ${MPI.join(" ")} ${COMMAND.join(" ")} ${
      MLP.join(" ")
    } --batch-size=16 --run-name=$SLURM_JOB_NAME`,
  ].join("\n");
  const { PATH, HOME, DENO_DIR = "" } = JSON.parse(
    await bed.done([Deno.execPath(), "eval", "console.log(JSON.stringify(Deno.env.toObject()))"]),
  );
  const forms = [["all", "ALL,HPCTRAIN_EPOCHS=2"], ["given", "HPCTRAIN_EPOCHS=2"], ["none", "NONE"]];
  const jobs: number[] = [];
  for (const [name, form] of forms) {
    const path = join(cwd, `${name}.sh`);
    Deno.writeTextFileSync(path, script);
    const words = [
      "sbatch",
      "--parsable",
      `--job-name=${name}`,
      `--export=${form}`,
      path,
      PATH,
      HOME,
      DENO_DIR,
    ];
    jobs.push(Number(await bed.done(words, { cwd })));
  }
  for (const [i, [name]] of forms.entries()) {
    const { state } = await bed.end(jobs[i]);
    const out = Deno.readTextFileSync(join(cwd, `${name}.out`));
    assertEquals(state, "COMPLETED", out);
    assertMatch(out, new RegExp(`^Finished after .*: ${name === "none" ? 1 : 2} epoch`, "m"));
  }
});

test("two jobs on one node at the same time meet their own ranks", async () => {
  const names = ["left", "right"];
  const both = await Promise.all(
    names.map((name) =>
      srun([...MPI, "--nodelist=node1", "--ntasks=2"], [
        "--epochs=1",
        "--batch-size=16",
        `--run-name=${name}`,
      ])
    ),
  );
  for (const { code, stdout, stderr } of both) assertEquals(code, 0, stdout + stderr);
  const [left, right] = names.map((name) => numbers(bed.folder, name));
  assertEquals(left, right);
  assert(left.length > 8);
});

/**
 * A task's own clock: how long SLURM takes to start it on a busy machine is not the program's doing. Into a file, because
 * srun may end the step before it has passed on all that was said.
 */
const TIMED = [
  "bash",
  "-c",
  'began=$(date +%s%3N); "$@"; code=$?; echo $(($(date +%s%3N) - began)) >"took-${SLURM_PROCID:-0}"; exit $code',
  "bash",
  ...COMMAND,
];

/** Nothing is trained, and what is said names what to change, 10 s after the program was started at most. */
async function refused(start: () => Promise<Result>, sentence: RegExp): Promise<void> {
  const first = await start();
  // srun may end a step before it has handed on what the tasks wrote.
  const lost = first.stderr.split("\n").every((line) => /^(srun: |slurmstepd: |$)/.test(line));
  const { code, stdout, stderr } = first.code !== 0 && lost ? await start() : first;
  const files = [...Deno.readDirSync(bed.folder)].map(({ name }) => join(bed.folder, name)).filter((path) =>
    /took-\d+$/.test(path)
  );
  const took = files.map((path) => Number(Deno.readTextFileSync(path)));
  files.forEach((path) => Deno.removeSync(path)); // the next test has its own
  assert(code !== 0, stdout);
  assertMatch(stderr, sentence);
  assert(!/^Run /m.test(stdout), stdout);
  // A task that the launcher ended, because another one had refused, says nothing of its time.
  assert(took.length > 0 && took.every((ms) => within(ms / 1000, 10)), `took ${took} ms: ${stderr}`);
}

/** Without --device, as GPU jobs are: the machine has none, but SLURM gives fake ones. */
const onGpus = (layout: string[], more: string[] = []) => () =>
  bed.login([
    "srun",
    "--kill-on-bad-exit=1",
    ...layout,
    ...TIMED,
    ...ANYWHERE,
    "--epochs=1",
    "--run-name=wrong",
    ...more,
  ], {
    cwd: bed.folder,
  });

test("srun that does not speak MPI's language is refused where MPI was asked for, with the option to give", () =>
  refused(
    () =>
      bed.login(
        [
          ...["srun", "--mpi=none", "--ntasks=2", ...TIMED, ...MLP],
          ...["--batch-size=16", "--run-name=wrong", "--distributed-backend=mpi"],
        ],
        { cwd: bed.folder },
      ),
    /2 ranks were started, but MPI counts 1.* srun --mpi=pmi2 /,
  ));

test("srun that does not speak MPI's language starts ranks that need none, which say what would be faster", async () => {
  const flags = ["--batch-size=16", "--epochs=1", "--run-name=without-mpi"];
  const { code, stdout, stderr } = await srun(["--mpi=none", "--nodes=2", "--ntasks=2"], flags);
  assertEquals(code, 0, stdout + stderr);
  assertMatch(
    stdout,
    /^Communication: 2 CPU ranks.* by .*; what started them has not told .* \(srun --mpi=pmix or pmi2 would\)\.$/m,
  );
  assert(apart(await reference(), numbers(bed.folder, "without-mpi")) < 1e-6);
});

test("a job of several tasks without srun is refused, with the line to write", () =>
  refused(
    () =>
      bed.login([
        "salloc",
        "--quiet",
        "--nodes=2",
        "--ntasks-per-node=2",
        ...TIMED,
        ...MLP,
        "--run-name=wrong",
      ], {
        cwd: bed.folder,
      }),
    /SLURM job \d+ has 4 tasks, and this is one process.*`srun hpctrain \.\.\.`.*#SBATCH --nodes=1 and --ntasks-per-node=1/,
  ));

test("more tasks than GPUs on a node are refused, with the number to give", () =>
  refused(
    onGpus(["--nodes=1", "--ntasks-per-node=4", "--gpus-per-node=2"]),
    /gives the job 2 GPUs and 4 tasks.*#SBATCH --ntasks-per-node=2, or --gpus-per-node=4/,
  ));

test("fewer tasks than GPUs on a node are refused: the others would be idle", () =>
  refused(
    onGpus(["--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4"]),
    /gives the job 4 GPUs and 1 task: 3 GPUs would be idle.*#SBATCH --ntasks-per-node=4.*launch -n 4/,
  ));

const TWO = ["--mpi=pmi2", "--nodes=1", "--ntasks-per-node=2"];
const HIDDEN = /rank [01] see GPU [01] alone.*#SBATCH --gpus-per-node=2 in place of.*srun --gpu-bind=none/;

for (const bound of [["--gpus-per-task=1"], ["--gpus-per-node=2", "--gpu-bind=map_gpu:0,0"]]) {
  test(`${bound.at(-1)}, by which each task sees one GPU alone, is refused with the lines to write`, () =>
    refused(onGpus([...TWO, ...bound]), HIDDEN));
}

test("two tasks that were bound to one GPU are refused also where any layout will do", () =>
  refused(
    // By name: SLURM takes the other node while this one still ends the step before.
    onGpus([...TWO, "--nodelist=node1", "--gpus-per-node=2", "--gpu-bind=map_gpu:0,0"], ["--any-layout"]),
    /Ranks 0 and 1 on node1 both use GPU 0:.*#SBATCH --ntasks-per-node and --gpus-per-node the same.*--gpu-bind/,
  ));
