// `status`, `logs` and `cancel` from outside: of a run that goes on, and of one that has ended.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { finish, inTemp, run as hpctrain, start, until } from "./program.ts";

const LONG = [
  "--model=mlp",
  "--train-samples=6400",
  "--val-samples=64",
  "--device=cpu",
  "--epochs=100000",
  "--log-interval=5",
];

Deno.test("a run that goes on tells its state, is asked to stop by its name, and says afterwards that it was", () =>
  inTemp(async (cwd) => {
    const child = start([...LONG, "--run-name=long"], { cwd });
    const result = finish(child);
    const events = join(cwd, "logs/long/events.jsonl");
    await until("an epoch is over", () => {
      try {
        return Deno.readTextFileSync(events).includes('"kind":"epoch"');
      } catch {
        return false;
      }
    }, 60);
    const { stdout } = await hpctrain(["status"], { cwd });
    assertMatch(stdout, /^run +long \(logs\/long\)\nstate +running: /);
    assertMatch(
      stdout,
      /\nstep +\d+ of 10000000, epoch \d+ of 100000\nloss +[\d.]+; best Val Loss [\d.e-]+ at epoch \d+\nready in +/,
    );
    const cancelled = await hpctrain(["cancel", "long"], { cwd });
    assertEquals(cancelled.code, 0, cancelled.stderr);
    assertEquals((await result).code, 75);
    assertMatch((await hpctrain(["status", "long"], { cwd })).stdout, /\nstate +stopped: .*STOP/);
    assertMatch((await hpctrain(["cancel", "long"], { cwd })).stdout, /^Nothing to end: /);
    const facts = JSON.parse((await hpctrain(["status", "--json"], { cwd })).stdout);
    assertEquals(facts.run.state, "stopped");
    assert(facts.run.step > 0 && facts.run.loss > 0);
  }));

Deno.test("what is no run and no job is told, and what to do", () =>
  inTemp(async (cwd) => {
    const refused = async (...argv: string[]) => {
      const { code, stderr } = await hpctrain(argv, { cwd });
      assertEquals(code, 2, stderr);
      return stderr;
    };
    assertMatch(await refused("status"), /There is no run below/);
    assertMatch(await refused("status", "nobody"), /nobody is no run/);
    assertMatch(await refused("status", "4711"), /No scheduler here knows the job 4711/);
    assertMatch(await refused("cancel"), /Which run or job/);
    assertMatch(await refused("cancel", "4711"), /neither scancel nor qdel|would not end the job/);
    assertMatch(await refused("logs", "4711"), /There is no output to show/);
  }));

Deno.test("logs finds what the scheduler has caught of a job, by its number", () =>
  inTemp(async (cwd) => {
    Deno.mkdirSync(join(cwd, "logs/slurm"), { recursive: true });
    Deno.writeTextFileSync(join(cwd, "logs/slurm/net-2_4711.out"), "hello\n");
    Deno.writeTextFileSync(join(cwd, "logs/slurm/sweep_4712_3.out"), "third\n");
    assertEquals((await hpctrain(["logs", "4711"], { cwd })).stdout, "hello\n");
    assertEquals((await hpctrain(["logs", "4712_3"], { cwd })).stdout, "third\n");
  }));

Deno.test("an empty or a foreign log is no run that begins: watch ends, and cancel leaves nothing there", () =>
  inTemp(async (cwd) => {
    for (const [name, text] of [["empty", ""], ["foreign", '{"epoch": 1}\nhello\n']]) {
      const folder = join(cwd, "logs", name), log = join(folder, "events.jsonl");
      Deno.mkdirSync(folder, { recursive: true });
      Deno.writeTextFileSync(log, text);
      Deno.utimeSync(log, 1e9, 1e9);
      const said = async (...words: string[]) =>
        (await hpctrain([...words, name], { cwd, timeout: 30 })).stdout;
      assertMatch(await said("status"), /^state +gone: /m);
      assertMatch(await said("watch"), name === "empty" ? /it never began\.$/m : /no event of a run\.$/m);
      assertMatch(await said("cancel"), /^Nothing to end: /);
      assertEquals([...Deno.readDirSync(folder)].map((entry) => entry.name), ["events.jsonl"]);
    }
  }));
