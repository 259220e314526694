// `hpctrain qsub` from outside, submitted to a stand-in (pbs/qsub) that runs the script as PBS would, with real MPI.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { mpich, type MpiUnderTest, openMpi } from "../mpi.ts";
import { blocksOf, commandsOf } from "./docs_blocks.ts";
import { COMMAND, eventsOf, inTemp, ROOT, run, succeed, until } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const SIZE = ["--preset=cpu-cluster", "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1"];
const MLP = ["--model=mlp", "--data-type=synthetic", "--val-samples=64", "--threads=1", "--run-name=r"];
const SHORT = [...MLP, "--train-samples=256", "--batch-size=32", "--epochs=1"];
const LONG = [...MLP, "--train-samples=60000", "--epochs=1000", "--log-interval=10"];
/** Root's circumstances, and a machine that is smaller than the job. */
const SETUP = [
  "OMPI_ALLOW_RUN_AS_ROOT=1",
  "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
  "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
  "OMPI_MCA_btl=^ofi", // looking for networks takes a second
  "OMPI_MCA_mtl=^ofi",
  "PMIX_MCA_gds=hash", // as `launch` has it
].flatMap((pair) => ["--env", pair]);

/** What a user's shell on the login node has. */
function loginNode(cwd: string, mpi: MpiUnderTest): Record<string, string> {
  const spool = join(cwd, "spool");
  Deno.mkdirSync(spool, { recursive: true });
  const path = [join(ROOT, "tests/integration/pbs"), join(mpi.folder, "bin"), Deno.env.get("PATH")];
  return { PATH: path.join(":"), QSUB_SPOOL: spool, TMPDIR: cwd };
}

async function ended(cwd: string, number: number, name = "r"): Promise<{ code: number; output: string }> {
  const file = join(cwd, "spool", `${number}.standin.code`);
  await until(`job ${number} has ended`, () => existing(file), 120);
  const output = join(cwd, "logs/pbs", `${name}.${number}.standin.out`);
  const spooled = Deno.readTextFileSync(join(cwd, "spool", `${number}.standin.spooled`));
  return { code: Number(Deno.readTextFileSync(file)), output: spooled + Deno.readTextFileSync(output) };
}

function existing(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

for (const [name, mpi] of [["MPICH", mpich], ["Open MPI", openMpi]] as const) {
  Deno.test(`a job of PBS trains 2 ranks by ${name}'s mpiexec, and qsub -v changes it`, () =>
    inTemp(async (cwd) => {
      const env = loginNode(cwd, mpi());
      const { stdout } = await succeed(["qsub", ...SIZE, ...SHORT, ...SETUP, "--submit"], { cwd, env });
      assertMatch(
        stdout,
        /^Submitted job 101\.standin \(logs\/pbs\/r\.sh\)\.\n +qstat 101\.standin +its place/,
      );
      assertStringIncludes(stdout, "tail -F logs/pbs/r.101.standin.out");
      const first = await ended(cwd, 101);
      assertEquals(first.code, 0, first.output);
      assertStringIncludes(first.output, "Starting distributed training on 2 CPU ranks");
      const child = new Deno.Command("qsub", {
        args: ["-v", "EPOCHS=2,HPCTRAIN_RUN_NAME=s", "logs/pbs/r.sh"],
        cwd,
        env,
      });
      assertEquals((await child.output()).code, 0);
      const second = await ended(cwd, 102);
      assertEquals(second.code, 0, second.output);
      assertStringIncludes(second.output, "Changed for this job: --epochs=2 --run-name=s\n");
      assertEquals(eventsOf(cwd, "r").filter(({ kind }) => kind === "epoch").length, 1);
      assertEquals(eventsOf(cwd, "s").filter(({ kind }) => kind === "epoch").length, 2);
    }));
}

Deno.test("the first job of docs/clusters.md with PBS does what it says", () =>
  inTemp(async (cwd) => {
    const env = loginNode(cwd, mpich());
    const page = Deno.readTextFileSync(join(ROOT, "docs/clusters.md"));
    const { text } = blocksOf(page).find(({ mark }) => mark === "example: first job of PBS")!;
    const [{ argv }] = commandsOf(text);
    const { stdout } = await succeed(argv, { cwd, env });
    const shape = (text: string) =>
      text.replaceAll(/\d+\.(standin|server)/g, "ID").replaceAll(/ +/g, " ").replaceAll(
        "./hpctrain",
        "hpctrain",
      ).replaceAll(COMMAND.join(" "), "hpctrain").trim();
    const printed = page.slice(page.lastIndexOf("    Submitted job"), page.indexOf("\n\nOn GPUs"));
    assertEquals(shape(stdout).split("\n"), shape(printed).split("\n"));
    const { code, output } = await ended(cwd, 101, "first");
    assertEquals(code, 0, output);
    assertEquals(eventsOf(cwd, "first").filter(({ kind }) => kind === "epoch").length, 3);
  }));

Deno.test("a job of PBS that is stopped saves, and the next job goes on with the same run", () =>
  inTemp(async (cwd) => {
    const env = loginNode(cwd, mpich());
    await succeed(["qsub", ...SIZE, ...LONG, "--max-requeues=1", "--submit"], { cwd, env });
    const steps = () => eventsOf(cwd, "r").filter(({ kind }) => kind === "step").length;
    for (const number of [101, 102]) {
      const before = steps();
      await until(`job ${number} trains`, () => steps() > before + 1, 120);
      const { pid } = eventsOf(cwd, "r").findLast(({ kind }) => kind === "run")!;
      Deno.kill(Number(pid), "SIGUSR1"); // as a scheduler warns; the file STOP would say that nobody wants it back
      const { code, output } = await ended(cwd, number);
      assertEquals(code, 75, output);
      assertEquals(output.includes("Job 102.standin goes on from the checkpoint."), number === 101, output);
      assertEquals(/Resuming from checkpoints\/r_latest\.pt/.test(output), number === 102, output);
    }
    assertEquals(existing(join(cwd, "spool/103.standin.SC")), false);
  }));

Deno.test("qsub prints a script, writes one, checks the numbers, and says what is missing", () =>
  inTemp(async (cwd) => {
    const printed = await succeed(["qsub", ...SIZE, ...SHORT], { cwd });
    assertMatch(printed.stdout, /^#!\/bin\/bash\n# Made by hpctrain /);
    const written = await succeed(["qsub", ...SIZE, ...SHORT, "--output", "job.sh"], { cwd });
    assertEquals(written.stdout, "Wrote job.sh.\n  qsub job.sh  submits it\n");
    const withoutHead = (text: string) => text.trimEnd().split("\n").slice(3).join("\n");
    assertEquals(withoutHead(Deno.readTextFileSync(join(cwd, "job.sh"))), withoutHead(printed.stdout));
    const checked = await succeed(["qsub", ...SIZE, ...SHORT, "--dry-run"], { cwd });
    assertSentence("integration/qsub: batch ranks accumulated", checked.stdout);
    assertStringIncludes(checked.stdout, "PBS: not asked");
    const lost = await run(["qsub", ...SIZE, ...SHORT, "--submit"], { cwd });
    assertEquals(lost.code, 7);
    assertSentence("integration/qsub: qsub path submit", lost.stderr);
    assert(existing(join(cwd, "logs/pbs/r.sh")));
  }));
