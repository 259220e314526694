// `hpctrain sbatch` from outside: what it prints, writes and submits; and what a real SLURM makes of it.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { stepped } from "./launches.ts";
import { COMMAND, filesIn, finish, inTemp, run, start, succeed, TINY } from "./program.ts";
import { MISSING, NEEDS, startBed } from "./slurm/bed.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

const JOB = ["--preset", "multi-node", "--nodes", "2", "--gpus-per-node", "2", "--run-name", "r"];

/** A folder with an sbatch in it that does this. */
function withSbatch(cwd: string, body: string): Record<string, string> {
  Deno.mkdirSync(join(cwd, "bin"), { recursive: true });
  Deno.writeTextFileSync(join(cwd, "bin/sbatch"), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  return { PATH: `${join(cwd, "bin")}:${Deno.env.get("PATH")}` };
}

Deno.test("sbatch prints the script alone, and makes the folder of the job's output, which SLURM does not", () =>
  inTemp(async (cwd) => {
    const { stdout, stderr } = await succeed(["sbatch", ...JOB], { cwd });
    assertMatch(
      stdout,
      /^#!\/bin\/bash\n# Made by hpctrain .*\n# {3}hpctrain sbatch --preset multi-node --nodes 2/,
    );
    assertStringIncludes(stdout, "#SBATCH --output=logs/slurm/%x_%j.out\n");
    assertStringIncludes(
      stdout.replaceAll(/ \\\n */g, " "),
      `${COMMAND[0].endsWith("deno") ? COMMAND.slice(1).join(" ") : ""}`,
    );
    assertEquals([stderr, [...Deno.readDirSync(join(cwd, "logs"))].map(({ name }) => name)], ["", ["slurm"]]);
    assertEquals((await succeed(["sbatch", ...JOB], { cwd })).stdout, stdout);
  }));

Deno.test("--output writes the script, keeps what an earlier one has made, and touches nobody else's file", () =>
  inTemp(async (cwd) => {
    const write = (...more: string[]) => run(["sbatch", ...JOB, "--output", "jobs/a.sh", ...more], { cwd });
    const read = (name: string) => Deno.readTextFileSync(join(cwd, "jobs", name));
    assertEquals((await write()).stdout, "Wrote jobs/a.sh.\n  sbatch jobs/a.sh  submits it\n");
    const first = read("a.sh");
    assertEquals([(await write()).stderr, filesIn(join(cwd, "jobs"))], ["", ["a.sh"]]);
    Deno.writeTextFileSync(join(cwd, "jobs/a.sh"), first + "# by hand\n");
    assertEquals((await write("--epochs=3")).stderr, "What jobs/a.sh was before is in jobs/a.sh~.\n");
    assertEquals(read("a.sh~"), first + "# by hand\n");
    Deno.writeTextFileSync(join(cwd, "jobs/a.sh"), "echo mine\n");
    const refused = await write();
    assertEquals(refused.code, 2);
    assertSentence("integration/sbatch: file hpctrain made", refused.stderr);
    assertEquals(read("a.sh"), "echo mine\n");
    const folder = await run(["sbatch", ...JOB, "--output", "/proc/job.sh"], { cwd });
    assertEquals(folder.code, 2);
    assertMatch(folder.stderr, /^hpctrain: \/proc\/job\.sh can't be written/);
  }));

Deno.test("--submit tells the job's number and what to type next; what sbatch refuses is said in its words", () =>
  inTemp(async (cwd) => {
    const env = withSbatch(cwd, 'cp "$2" taken; echo "$1"; exit 0');
    const odd = await succeed(["sbatch", ...JOB, "--submit"], { cwd, env });
    assertMatch(odd.stdout, /^Submitted job --parsable/);
    const good = await succeed(["sbatch", ...JOB, "--submit"], {
      cwd,
      env: withSbatch(cwd, "echo '123;cluster'"),
    });
    assertMatch(
      good.stdout,
      /^Submitted job 123 \(logs\/slurm\/r\.sh\)\.\n +squeue -j 123 +its place in the queue\n/,
    );
    assertStringIncludes(good.stdout, "tail -F logs/slurm/r_123.out");
    assertEquals(
      Deno.readTextFileSync(join(cwd, "taken")),
      Deno.readTextFileSync(join(cwd, "logs/slurm/r.sh")),
    );
    const bad = await run(["sbatch", ...JOB, "--submit"], {
      cwd,
      env: withSbatch(cwd, "echo 'sbatch: error: Batch job submission failed: Invalid account' >&2; exit 1"),
    });
    assertEquals([bad.code, bad.stdout], [2, ""]);
    assertMatch(
      bad.stderr,
      /^hpctrain: sbatch refused the job: .*Invalid account\. It asked for .* The script is in logs\/slurm\/r\.sh\.\n$/m,
    );
    const none = await run(["sbatch", ...JOB, "--submit"], { cwd });
    assertEquals(none.code, 7);
    assertMatch(none.stderr, /There is no sbatch in PATH/);
  }));

Deno.test("a folder that SLURM would misread is refused", () =>
  inTemp(async (cwd) => {
    for (const folder of ["50%j", "back\\slash"]) {
      const { code, stderr } = await run(["sbatch", ...JOB, "--save-dir", folder], { cwd });
      assertEquals(code, 2);
      assertSentence("integration/sbatch: hpctrain slurm write", stderr);
    }
  }));

Deno.test("--dry-run checks the arithmetic, and leaves nothing behind", () =>
  inTemp(async (cwd) => {
    const { stdout } = await succeed(["sbatch", ...JOB, "--mem=64G", "--time=1:00:00", "--dry-run"], { cwd });
    assertEquals(stdout.split("\n"), [
      "Nodes: 2 nodes, 2 GPUs on each (4 in all)",
      "Tasks: 2 tasks on each node, 4 in all; 4 ranks",
      "Cores: 8 a task, 16 on each node, 32 in all",
      "Memory: 64G on each node, 128G in all",
      "Time: 1:00:00",
      sentenceNamed("integration/sbatch: batch ranks accumulated"),
      sentenceNamed("integration/sbatch: learning rate default"),
      "SLURM: not asked, there is no sbatch in PATH",
      "",
    ]);
    assertEquals([...Deno.readDirSync(cwd)], []);
    const large = await run(["sbatch", ...JOB, "--train-samples=100", "--dry-run"], { cwd });
    assertEquals(large.code, 0, large.stderr);
    assertSentence("integration/sbatch: samples step step", large.stdout);
  }));

Deno.test("a run that stops ends with its own code, however often a launcher tells it to end meanwhile", () =>
  inTemp(async (cwd) => {
    const long = [
      "--model=mlp",
      "--data-type=synthetic",
      "--val-samples=16",
      "--epochs=1000",
      "--run-name=r",
    ];
    const child = start([...TINY, ...long, "--train-samples=60000", "--log-interval=10"], { cwd });
    await stepped(cwd, "r", 20);
    let ended = false;
    const result = finish(child).finally(() => ended = true);
    while (!ended) {
      try {
        child.kill("SIGTERM");
      } catch { /* it has just ended */ }
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    const { code, stderr } = await result;
    assertEquals(code, 75, stderr);
  }));

Deno.test({
  name: `a real SLURM takes hostile names and folders as they are, and says what it can't give ${NEEDS}`,
  ignore: MISSING,
  async fn() {
    const bed = await startBed();
    try {
      const cwd = join(bed.folder, `it's "$(touch owned)" #1`);
      Deno.mkdirSync(cwd);
      const tiny = [
        ...[
          "--model=mlp",
          "--data-type=synthetic",
          "--train-samples=64",
          "--val-samples=16",
          "--batch-size=16",
        ],
        ...["--epochs=1", "--device=cpu", "--threads=1", "--cpus-per-task=1", "--time=5"],
      ];
      const named = [
        ...tiny,
        "--job-name",
        `a "name" $(touch owned) #2`,
        "--wandb-run-name",
        `it's "$HOME" #3`,
      ];
      const submit = [...COMMAND, "sbatch", ...named, "--save-dir", `out "$(x)" #4`, "--submit"];
      const { code, stdout, stderr } = await bed.login(submit, { cwd });
      assertEquals(code, 0, stderr);
      const id = Number(/^Submitted job (\d+)/.exec(stdout)![1]);
      const { state } = await bed.end(id);
      const output = Deno.readTextFileSync(
        join(cwd, `out "$(x)" #4/logs/slurm/a-name-touch-owned-2_${id}.out`),
      );
      assertEquals(state, "COMPLETED", output);
      assertStringIncludes(output, "Finished after");
      assertEquals(filesIn(cwd).filter((name) => name.endsWith("owned")), []);
      assert(filesIn(join(cwd, `out "$(x)" #4`)).includes("checkpoints/it-s-HOME-3_latest.pt"), output);

      const asked = await bed.done([...COMMAND, "sbatch", ...tiny, "--dry-run"], { cwd });
      assertMatch(asked, /SLURM: sbatch: Job \d+ to start at /);
      const many = await bed.login([
        ...COMMAND,
        "sbatch",
        ...tiny,
        "--nodes=9",
        "--batch-size=1",
        "--dry-run",
      ], { cwd });
      assertEquals(many.code, 2);
      assertMatch(
        many.stderr,
        /sbatch refused the job: .*Node count specification invalid|More processors|not available/,
      );
    } finally {
      await bed.stop();
    }
  },
});
