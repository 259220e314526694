// `hpctrain launch` with real MPI: what comes of ranks that end, by whatever hand, and that nothing stays behind.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { mpich, type MpiUnderTest, openMpi } from "../mpi.ts";
import { launch, type Launched, processesOf, stepped } from "./launches.ts";
import { filesIn, inTemp, type Result, until } from "./program.ts";
import { numbers, tensors, trained } from "./ranks.ts";
import { within } from "../cpu_time.ts";
import { assertSentence } from "../sentences.ts";

const MLP = ["--model=mlp", "--data-type=synthetic", "--val-samples=64", "--device=cpu", "--run-name=r"];
const SHORT = [...MLP, "--train-samples=256", "--epochs=1"];
const LONG = [...MLP, "--train-samples=60000", "--epochs=1000", "--log-interval=10"];
/** As long as it takes to be killed. */
const running = (cwd: string, mpi: MpiUnderTest, more: string[] = []) =>
  launch(cwd, mpi, ["-n", "2", ...more, "--", ...LONG]);

async function ended({ result }: Launched, cwd: string): Promise<Result> {
  const done = await result;
  assertEquals(processesOf(cwd), []);
  assertEquals([...Deno.readDirSync(cwd)].filter(({ name }) => name.startsWith("hpctrain-")), []);
  return done;
}

const lastLine = ({ stderr }: Result) => stderr.trimEnd().split("\n").at(-1)!;

for (const [name, mpi] of [["Open MPI", openMpi], ["MPICH", mpich]] as const) {
  Deno.test(`launch trains 2 ranks by ${name}'s own launcher, and each rank has a file of what it said`, () =>
    inTemp(async (cwd) => {
      const { code, stdout, stderr } = await ended(launch(cwd, mpi(), ["-n", "2", "--", ...SHORT]), cwd);
      assertEquals(code, 0, stderr);
      assertSentence("integration/launch: starting distributed training", stdout);
      assertMatch(stderr, /^hpctrain: Starting 2 ranks, by \/.*\/(mpirun|mpiexec\.hydra); .* core/);
      const logs = filesIn(join(cwd, "logs/r")).filter((file) => file.endsWith(".log"));
      assertEquals(logs, ["rank-0.log", "rank-1.log"]);
      assertStringIncludes(Deno.readTextFileSync(join(cwd, "logs/r/rank-0.log")), stdout);
    }));

  for (const rank of [0, 1]) {
    Deno.test(`kill -9 of rank ${rank} under ${name} ends all within 10 s, with the rank, host, step and reason last`, () =>
      inTemp(async (cwd) => {
        const launched = running(cwd, mpi());
        await stepped(cwd, "r", 20);
        Deno.kill(launched.pid(rank), "SIGKILL");
        const killed = performance.now();
        const result = await ended(launched, cwd);
        assertEquals(result.code, 5, result.stderr);
        const seconds = (performance.now() - killed) / 1000;
        assert(within(seconds, 10), `${seconds} s`);
        const sentence = new RegExp(
          `^hpctrain: Rank ${rank} on \\S+ failed first, after step \\d+: it was killed \\(SIGKILL\\)`,
        );
        assertMatch(lastLine(result), sentence);
      }));
  }

  Deno.test(`SIGTERM and Ctrl-C to launch stop ${name}'s ranks after a save, with code 75`, () =>
    inTemp(async (cwd) => {
      for (const signal of ["SIGTERM", "SIGINT"] as const) {
        const launched = running(cwd, mpi());
        await stepped(cwd, "r", 20);
        launched.child.kill(signal);
        const { code, stdout, stderr } = await ended(launched, cwd);
        assertEquals(code, 75, stderr);
        assertMatch(stdout, /checkpoints\/r_latest\.pt/);
        for (const folder of ["logs", "checkpoints"]) Deno.removeSync(join(cwd, folder), { recursive: true });
      }
    }));

  Deno.test(`ranks end with a launch that was killed under ${name}`, () =>
    inTemp(async (cwd) => {
      const launched = running(cwd, mpi());
      await stepped(cwd, "r", 20);
      launched.child.kill("SIGKILL");
      assertEquals((await launched.result).code, 137);
      await until("no process is left", () => processesOf(cwd).length === 0, 60);
    }));
}

Deno.test("a second Ctrl-C kills ranks that can't stop", () =>
  inTemp(async (cwd) => {
    const launched = running(cwd, mpich());
    await stepped(cwd, "r", 20);
    Deno.kill(launched.pid(1), "SIGSTOP"); // the others wait for it
    launched.child.kill("SIGINT");
    await new Promise((resolve) => setTimeout(resolve, 500));
    launched.child.kill("SIGINT");
    const result = await ended(launched, cwd);
    assertEquals(result.code, 130, result.stderr);
    assertSentence("integration/launch: hpctrain stopped ctrl-c", lastLine(result));
  }));

Deno.test("a rank that stands still is named, and all end with code 5", () =>
  inTemp(async (cwd) => {
    const launched = running(cwd, mpich());
    await stepped(cwd, "r", 20);
    Deno.kill(launched.pid(1), "SIGSTOP");
    const result = await ended(launched, cwd);
    assertEquals(result.code, 5, result.stderr);
    assertMatch(lastLine(result), /^hpctrain: Rank 1 on \S+ was not heard of for \d+ s/);
  }));

Deno.test("after kill -9 of a rank, --max-restarts 1 ends with the bits of a run that was left alone", () =>
  inTemp(async (cwd) => {
    const flags = [
      ...[
        "--model=gpt",
        "--data-type=synthetic",
        "--layers=2",
        "--hidden-size=32",
        "--heads=2",
        "--context=16",
      ],
      ...[
        "--train-samples=320",
        "--val-samples=10",
        "--global-batch-size=16",
        "--batch-size=4",
        "--epochs=3",
      ],
      ...["--deterministic=world", "--dropout=0.1", "--save-interval=7steps"],
    ];
    await trained(cwd, "calm", 2, flags, { mpi: openMpi() });
    const own = ["--device=cpu", "--log-interval=1", "--run-name=r"];
    const launched = launch(cwd, openMpi(), ["-n", "2", "--max-restarts", "1", "--", ...flags, ...own]);
    await stepped(cwd, "r", 16);
    Deno.kill(launched.pid(1), "SIGKILL");
    const { code, stderr } = await ended(launched, cwd);
    assertEquals(code, 0, stderr);
    assertMatch(
      stderr,
      /Rank 1 on \S+ failed first, .*\nhpctrain: Restart 1 of 1: r goes on from its newest good/,
    );
    const [calm, restarted] = [tensors(cwd, "calm"), tensors(cwd, "r")];
    assertEquals([...restarted.keys()], [...calm.keys()]);
    for (const [at, values] of calm) assertEquals(restarted.get(at), values, at);
    assertEquals(numbers(cwd, "r"), numbers(cwd, "calm"));
  }));

Deno.test("what all ranks stumble over is said once, last, and with its own code; bad settings before any rank is started", () =>
  inTemp(async (cwd) => {
    const missing = launch(cwd, mpich(), [
      "-n",
      "2",
      "--max-restarts=2",
      "--",
      ...SHORT,
      "--data-type=csv",
      "--data-path=no.csv",
    ]);
    const result = await ended(missing, cwd);
    assertEquals(result.code, 3, result.stderr);
    assertMatch(
      lastLine(result),
      /^hpctrain: Rank [01] on \S+ failed first, before the first step, with exit code 3: .*no\.csv/,
    );
    assert(!result.stderr.includes("Restart"));
    const wrong = await ended(launch(cwd, mpich(), ["-n", "2", "--max-restart=2", "--", ...SHORT]), cwd);
    assertEquals(wrong.code, 2);
    assertMatch(wrong.stderr, /^hpctrain: Unknown flag --max-restart\. Did you mean "--max-restarts"\?/);
  }));

Deno.test("inside a scheduler's allocation of other nodes, launch starts its ranks here", () =>
  inTemp(async (cwd) => {
    const allocation = {
      ...{
        SLURM_JOB_ID: "1",
        SLURM_JOBID: "1",
        SLURM_NODELIST: "node[1-2]",
        SLURM_JOB_NODELIST: "node[1-2]",
      },
      ...{ SLURM_TASKS_PER_NODE: "1(x2)", SLURM_NNODES: "2", SLURM_JOB_NUM_NODES: "2", SLURM_NTASKS: "2" },
    };
    for (const mpi of [openMpi(), mpich()]) {
      const { code, stderr } = await ended(launch(cwd, mpi, ["-n", "2", "--", ...SHORT], allocation), cwd);
      assertEquals(code, 0, stderr);
    }
  }));

Deno.test("launch shares out what needs no MPI: ranks of generate-data, told apart by their number", () =>
  inTemp(async (cwd) => {
    const words = ["generate-data", "--data-type", "synthetic", "--samples", "64", "--out", "maps"];
    const { code, stdout, stderr } = await ended(launch(cwd, null, ["--nproc_per_node=3", ...words]), cwd);
    assertEquals(code, 0, stderr);
    assertEquals(stdout.match(/64 samples/g)?.length, 1, stdout);
  }));
