// What status and cancel say of jobs that have ended, wait, or never began a run: their files alone don't tell.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { COMMAND, eventsOf, TINY, until } from "../program.ts";
import { type Bed, MISSING, NEEDS, startBed } from "./bed.ts";
import { assertSentence } from "../../sentences.ts";

let bed: Bed;
if (!MISSING) {
  Deno.test.beforeAll(async () => void (bed = await startBed()));
  Deno.test.afterAll(() => bed.stop());
}

const ENV = { HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")! };
const LONG = [...TINY, "--epochs=100000", "--log-interval=1"];

function place(name: string) {
  const cwd = join(bed.folder, name);
  Deno.mkdirSync(cwd);
  const say = (...words: string[]) => bed.login([...COMMAND, ...words], { cwd, env: ENV });
  return {
    cwd,
    say,
    async submit(...words: string[]): Promise<number> {
      const job = ["sbatch", "--time=5", "--cpus-per-task=1", `--run-name=${name}`, ...words, "--submit"];
      const { stdout, stderr } = await say(...job);
      const id = Number(/^Submitted job (\d+) /m.exec(stdout)?.[1]);
      assert(id > 0, stdout + stderr);
      return id;
    },
    trains: () => until("it trains", () => eventsOf(cwd, name).some(({ kind }) => kind === "step"), 60),
  };
}

Deno.test({
  name: `a run whose job was cancelled is stopped, and does not wait to be requeued ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const { submit, trains, say } = place("cancelled");
    const id = await submit(...LONG);
    await trains();
    await bed.done(["scancel", String(id)]);
    await bed.end(id, 60);
    const { stdout } = await say("status", "cancelled");
    assertMatch(stdout, new RegExp(`^state +stopped: .*its job ${id} has ended: CANCELLED, `, "m"));
    assertMatch(stdout, new RegExp(`^job +${id}: CANCELLED, `, "m"));
    assertMatch((await say("watch", "cancelled")).stdout, /its job \d+ has ended: CANCELLED/);
    assertMatch((await say("cancel", "cancelled")).stdout, /^Nothing to end: .* is stopped /);
  },
});

Deno.test({
  name: `status of a job that failed before its run began says how, and what it printed last ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const { submit, say, cwd } = place("early");
    Deno.writeTextFileSync(join(cwd, "c.yaml"), "training: { epochs: 2 }\n");
    const id = await submit(...TINY, "--config=c.yaml", "--sbatch-arg=--hold");
    Deno.writeTextFileSync(join(cwd, "c.yaml"), "training: { epoks: 2 }\n");
    await bed.done(["scontrol", "release", String(id)]);
    await bed.end(id, 60);
    const { code, stdout, stderr } = await say("status", String(id));
    assertEquals(code, 0, stderr);
    assertMatch(stdout, new RegExp(`^job +${id}: FAILED, exit code 2, at `, "m"));
    assertStringIncludes(stdout, `logs/slurm/early_${id}.out: `);
    const json = JSON.parse((await say("status", String(id), "--json")).stdout);
    assertEquals([json.scheduler.state, json.scheduler.over, json.run], ["FAILED", true, null]);
  },
});

Deno.test({
  name: `a run that waits for its first start is found by its name, and cancel ends its job ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const { submit, say } = place("waits");
    const id = await submit(...TINY, "--sbatch-arg=--hold");
    assertMatch((await say("status", "waits")).stdout, new RegExp(`^job +${id}: PENDING`, "m"));
    assertEquals((await say("cancel", "waits")).stdout, `scancel ends job ${id}.\n`);
    assertEquals((await bed.end(id, 30)).state, "CANCELLED");
    assertMatch((await say("status", "nobody")).stderr, /nobody is no run/);
  },
});

Deno.test({
  name: `cancel of a job that waits after a requeue ends it ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const { submit, trains, say } = place("again");
    const id = await submit(...LONG);
    await trains();
    await bed.done(["scancel", "--signal=USR1", String(id)]);
    const pending = async () => (await bed.job(id)).state === "PENDING";
    for (let tries = 100; !await pending() && tries > 0; tries--) {
      await new Promise((r) => setTimeout(r, 100));
    }
    assertMatch((await say("status", "again")).stdout, /^state +requeued: /m);
    assertSentence("integration/slurm/ended_jobs: logs again waits", (await say("cancel", "again")).stdout, {
      id,
    });
    assertEquals((await bed.end(id, 30)).state, "CANCELLED");
    assertMatch((await say("status", "again")).stdout, /^state +stopped: .*has ended: CANCELLED/m);
  },
});
