// `hpctrain sweep` from outside: runs on this machine, as a job array, and what is left of one that was interrupted.
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { inTemp, run as hpctrain } from "./program.ts";

const MLP = [
  "--model=mlp",
  "--train-samples=256",
  "--val-samples=64",
  "--device=cpu",
  "--epochs=1",
  "--threads=1",
];
const AXES = ["--lr=1e-3,1e-2", "--set=model.hidden_size=8,16"];

Deno.test("a sweep trains each combination, tells which is best, and made again trains what is not done alone", () =>
  inTemp(async (cwd) => {
    const first = await hpctrain(["sweep", ...MLP, ...AXES, "--local", "--jobs=2"], { cwd });
    assertEquals(first.code, 0, first.stderr);
    assertMatch(first.stdout, /\[4\/4\] \S+ (begins|is done)/);
    const { runs } = JSON.parse((await hpctrain(["sweep", "status", "--json"], { cwd })).stdout);
    assertEquals(runs.map(({ state }: { state: string }) => state), ["done", "done", "done", "done"]);
    const best = await hpctrain(["sweep", "best", "--json"], { cwd });
    const losses = JSON.parse(best.stdout).runs.map(({ metric }: { metric: number }) => metric);
    assertEquals(losses, losses.toSorted((a: number, b: number) => a - b));
    const [winner] = JSON.parse(best.stdout).runs;
    assertStringIncludes(first.stdout, `of ${winner.run}`);
    assert(Deno.statSync(join(cwd, `checkpoints/${winner.run}_best.pt`)).isFile);

    Deno.removeSync(join(cwd, "logs/sweep-lr1e-3-hidden16"), { recursive: true });
    const again = await hpctrain(["sweep", ...MLP, ...AXES, "--local"], { cwd });
    assertMatch(again.stdout, /1 of 4 runs not done yet\n\[1\/1\] sweep-lr1e-3-hidden16 begins/);
    const other = await hpctrain(["sweep", ...MLP, "--lr=1e-4,1e-3"], { cwd });
    assertMatch(other.stdout, /^Sweep sweep-2 in /);
  }));

Deno.test("a run that fails does not keep the others from theirs, and its code is the sweep's", () =>
  inTemp(async (cwd) => {
    const { code, stdout } = await hpctrain(["sweep", ...MLP, "--data-path=missing.nc,", "--local"], { cwd });
    assertEquals(code, 3, stdout);
    assertMatch(stdout, /\[1\/2\] \S+ failed with code 3[\s\S]*\[2\/2\] \S+ is done/);
  }));

Deno.test("a job array trains the run of its number, with values as they were typed", () =>
  inTemp(async (cwd) => {
    const made = await hpctrain(["sweep", ...MLP, "--lr=1e-3,1e-2", "--wandb-project=it's $(x)"], { cwd });
    assertEquals(made.code, 0, made.stderr);
    assertStringIncludes(made.stdout, "sbatch sweeps/sweep/sweep.sh");
    const script = Deno.readTextFileSync(join(cwd, "sweeps/sweep/sweep.sh"));
    assertStringIncludes(script, "#SBATCH --array=0-1\n");
    Deno.mkdirSync(join(cwd, "bin"));
    // A stand-in for srun: starts the command once, as srun does for one task.
    const srun =
      '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nSLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0 exec "$@"\n';
    Deno.writeTextFileSync(join(cwd, "bin/srun"), srun, { mode: 0o755 });
    const env = {
      PATH: `${join(cwd, "bin")}:${Deno.env.get("PATH")}`,
      ...{ SLURM_JOB_ID: "7", SLURM_ARRAY_JOB_ID: "6", SLURM_ARRAY_TASK_ID: "1", SLURM_JOB_NUM_NODES: "1" },
      ...{ SLURM_CPUS_PER_TASK: "1", SLURM_JOB_NODELIST: "node1" },
    };
    const job = await new Deno.Command("bash", { args: ["sweeps/sweep/sweep.sh"], cwd, env }).output();
    assertEquals(job.code, 0, new TextDecoder().decode(job.stderr));
    const { runs } = JSON.parse((await hpctrain(["sweep", "status", "--json"], { cwd })).stdout);
    assertEquals(runs.map(({ state }: { state: string }) => state), ["waiting", "done"]);
    const events = Deno.readTextFileSync(join(cwd, "logs/sweep-lr1e-2/events.jsonl"));
    assertStringIncludes(events, `"project":"it's $(x)"`);

    const rest = await hpctrain(["sweep", ...MLP, "--lr=1e-3,1e-2", "--wandb-project=it's $(x)"], { cwd });
    assertMatch(rest.stdout, /1 of 2 runs not done yet/);
    assertMatch(Deno.readTextFileSync(join(cwd, "sweeps/sweep/sweep.sh")), /sweep run sweeps\/sweep 0\b/);
  }));

Deno.test("what a sweep lacks is told in a sentence", () =>
  inTemp(async (cwd) => {
    const refused = async (...argv: string[]) => {
      const { code, stderr } = await hpctrain(["sweep", ...argv], { cwd });
      assertEquals(code, 2, stderr);
      return stderr;
    };
    assertMatch(await refused(...MLP), /needs a setting with several values/);
    assertMatch(await refused("status"), /There is no sweep below/);
    assertMatch(await refused("best", "nowhere"), /nowhere is no sweep/);
    assertMatch(await refused("--lr=1,2", "--name=a b"), /--name "a b"/);
    assertMatch(await refused("--lr=1,2", "--jobs=0", "--local"), /--parallel should be a whole number/);
    assertMatch(await refused("run", ".", "0"), /is no sweep/);
    Deno.mkdirSync(join(cwd, "sweeps/bad"), { recursive: true });
    Deno.writeTextFileSync(join(cwd, "sweeps/bad/sweep.json"), "{");
    assertMatch(await refused("status", "bad"), /is damaged/);
  }));

Deno.test("sweep best names the weights where a run has saved them, in its own folder and format", () =>
  inTemp(async (cwd) => {
    const where = ["--model-dir=models", "--checkpoint-format=safetensors"];
    const { code, stderr } = await hpctrain(["sweep", ...MLP, ...where, "--lr=1e-3,1e-2", "--local"], {
      cwd,
    });
    assertEquals(code, 0, stderr);
    const { stdout } = await hpctrain(["sweep", "best"], { cwd });
    const [, path] = /^Its weights: (.*)$/m.exec(stdout)!;
    assertMatch(path, /^models\/sweep-lr1e-[23]_best\.safetensors$/);
    assert(Deno.statSync(join(cwd, path)).isFile);
  }));

Deno.test("sbatch --kind sweep makes the script that sweep makes, and says it as sbatch does", () =>
  inTemp(async (cwd) => {
    const words = [...MLP, "--lr=1e-3,1e-2", "--partition=long,short", "--time=10", "--mem=2G"];
    const good = async (argv: string[]) => {
      const { code, stdout, stderr } = await hpctrain(argv, { cwd });
      assertEquals(code, 0, stderr);
      return { stdout, stderr };
    };
    const tried = await good(["sbatch", "--kind", "sweep", ...words, "--dry-run"]);
    assertMatch(tried.stdout, /^Sweep sweep in sweeps\/sweep: 2 runs\n[\s\S]*^Memory: 2G on each node/m);
    assertThrows(() => Deno.statSync(join(cwd, "sweeps")), Deno.errors.NotFound); // nothing is written

    const printed = await good(["sbatch", "sweep", "-t", "5", ...words, "--sbatch-arg", "--nice=7"]);
    assertMatch(printed.stderr, /^Sweep sweep in sweeps\/sweep: 2 runs$/m);
    await good(["sweep", ...words]);
    const body = (text: string) =>
      text.trimEnd().split("\n").filter((line) => !/^# {3}|--nice=7/.test(line)).join("\n");
    const own = Deno.readTextFileSync(join(cwd, "sweeps/sweep/sweep.sh"));
    assertEquals(body(printed.stdout), body(own));
    for (const line of ["--partition=long,short", "--time=10", "--array=0-1"]) {
      assertStringIncludes(own, `#SBATCH ${line}\n`);
    }
    assertStringIncludes(printed.stdout, "#SBATCH --nice=7\n");
    assertMatch(printed.stdout, /^# {3}hpctrain sbatch --kind sweep -t 5 /m);

    const wrote = await good(["qsub", "--kind=sweep", ...words, "--output", "mine.pbs", "--jobs=1"]);
    assertMatch(wrote.stdout, /^Wrote mine\.pbs: a job array of 2 runs\./m);
    assertStringIncludes(Deno.readTextFileSync(join(cwd, "mine.pbs")), "#PBS -J 0-1%1\n");
    assertStringIncludes(Deno.readTextFileSync(join(cwd, "mine.pbs")), "PBS_ARRAY_INDEX");
    const torque = await good(["qsub", "sweep", "--pbs=torque", "--no-requeue", ...words]);
    assertMatch(torque.stdout, /^#PBS -t 0-1$[\s\S]*^#PBS -r n$[\s\S]*PBS_ARRAYID/m);
    for (
      const [argv, says] of [
        [["sbatch", "sweep", ...MLP], /needs a setting with several values/],
        [["sbatch", "sweep", "--lr=1,2", "--epoch=3"], /Unknown flag --epoch\. Did you mean "--epochs"/],
        [["sbatch", "sweep", "--lr=1,2", "--nodes=1,2"], /--nodes can't have several values/],
      ] as const
    ) {
      const { code, stderr } = await hpctrain([...argv], { cwd });
      assertEquals(code, 2);
      assertMatch(stderr, says);
    }
  }));
