// Runs that are started again: before their first save, and by a scheduler that put their job back into the queue.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { eventsOf, finish, inTemp, start, succeed, TINY, until } from "./program.ts";

const RUN = [...TINY, "--log-interval=1", "--model=mlp", "--data-type=synthetic"];
const ENDLESS = [...RUN, "--epochs=1000", "--train-samples=500000"];
const SHORT = [...RUN, "--max-steps=30"];
const JOB = { SLURM_JOB_ID: "4711", SLURM_NTASKS: "1" };
const AGAIN = { ...JOB, SLURM_RESTART_COUNT: "1" };

const runsIn = (cwd: string) =>
  [...Deno.readDirSync(join(cwd, "logs"))].filter(({ name }) => name !== "wandb").map(({ name }) => name)
    .sort();
const stepsOf = (cwd: string, run: string) =>
  eventsOf(cwd, run).filter(({ kind }) => kind === "step").map(({ step }) => step as number);

async function killed(
  cwd: string,
  name: string,
  args: string[],
  env: Record<string, string> = {},
  save = false,
) {
  const child = start(args, { cwd, env });
  await until("five steps", () => stepsOf(cwd, name).length >= 5);
  if (save) {
    await until("a save", () => eventsOf(cwd, name).some(({ kind }) => kind === "save"));
  }
  child.kill("SIGKILL");
  await finish(child);
}

const upTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1);

Deno.test("a run that was killed before its first save begins again under its name with --resume auto", () =>
  inTemp(async (cwd) => {
    await killed(cwd, "r", [...ENDLESS, "--run-name=r"]);
    const { stdout } = await succeed([...SHORT, "--train-samples=640", "--run-name=r", "--resume=auto"], {
      cwd,
    });
    assertMatch(stdout, /^Nothing to resume yet/m);
    assertMatch(stdout, /^Run r: /m);
    assertEquals(runsIn(cwd), ["r"]);
    assertEquals(stepsOf(cwd, "r"), upTo(30));
    const { attempts } = JSON.parse(Deno.readTextFileSync(join(cwd, "logs/r/lineage.json")));
    assertEquals(attempts.map(({ ended }: { ended: { why: string } }) => ended.why), ["killed", "done"]);
  }));

Deno.test("a run whose checkpoints were taken away keeps its files: --resume auto begins another one", () =>
  inTemp(async (cwd) => {
    await succeed([...SHORT, "--run-name=r"], { cwd });
    Deno.removeSync(join(cwd, "checkpoints"), { recursive: true });
    await succeed([...SHORT, "--run-name=r", "--resume=auto"], { cwd });
    assertEquals(runsIn(cwd), ["r", "r-2"]);
  }));

Deno.test("a job that was put back into the queue goes on with its own run, not with the newest of that name", () =>
  inTemp(async (cwd) => {
    const long = [...ENDLESS, "--save-interval=5steps"];
    await killed(cwd, "mlp-synthetic", long, JOB, true);
    await succeed(SHORT, { cwd, env: { SLURM_JOB_ID: "4712" } }); // another job's, and newer
    assertEquals(runsIn(cwd), ["mlp-synthetic", "mlp-synthetic-2"]);
    const before = stepsOf(cwd, "mlp-synthetic").length;
    const { stdout } = await succeed([...long, `--max-steps=${before + 10}`], { cwd, env: AGAIN });
    assertMatch(
      stdout,
      /^SLURM job 4711 was started again \(restart 1\): the run mlp-synthetic goes on, as with --resume auto$/m,
    );
    assertMatch(stdout, /^Resuming from checkpoints\/mlp-synthetic_latest\.pt: epoch 0, step \d+$/m);
    assertEquals(stepsOf(cwd, "mlp-synthetic"), upTo(before + 10));
    assertEquals(runsIn(cwd), ["mlp-synthetic", "mlp-synthetic-2"]);
  }));

Deno.test("a job that was put back into the queue before its first save begins its run again", () =>
  inTemp(async (cwd) => {
    await killed(cwd, "mlp-synthetic", ENDLESS, JOB);
    const { stdout } = await succeed(SHORT, { cwd, env: AGAIN });
    assertMatch(
      stdout,
      /^SLURM job 4711 .*: the run mlp-synthetic begins again, as it ended before its first save$/m,
    );
    assertEquals([runsIn(cwd), stepsOf(cwd, "mlp-synthetic")], [["mlp-synthetic"], upTo(4)]);
  }));

Deno.test("a job that was put back before it had begun starts afresh, and leaves others' runs alone", () =>
  inTemp(async (cwd) => {
    await succeed(SHORT, { cwd });
    const { stdout } = await succeed(SHORT, { cwd, env: AGAIN });
    assertMatch(
      stdout,
      /^SLURM job 4711 was started again \(restart 1\), and it had not begun this run yet$/m,
    );
    assertEquals(runsIn(cwd), ["mlp-synthetic", "mlp-synthetic-2"]);
  }));

Deno.test("other signals can be chosen; a warning that comes before the first step stops the run after it", () =>
  inTemp(async (cwd) => {
    const child = start([...ENDLESS, "--run-name=r", "--stop-signals=HUP,SIGUSR2"], { cwd });
    const heard = () => {
      try {
        // The second signal that the process catches: bit 11 of SigCgt.
        const caught = /SigCgt:\s*([0-9a-f]+)/.exec(Deno.readTextFileSync(`/proc/${child.pid}/status`))![1];
        return ((BigInt(`0x${caught}`) >> 11n) & 1n) === 1n;
      } catch {
        return false;
      }
    };
    await until("the signal is heard", heard);
    child.kill("SIGUSR2");
    const { code, stdout, stderr } = await finish(child, 60);
    assertEquals(code, 75, stdout + stderr);
    assertMatch(stdout, /^Stopped on request \(SIGUSR2\)/m);
    assert(stepsOf(cwd, "r").length < 100);
  }));
