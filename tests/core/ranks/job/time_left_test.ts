// The time that a job has left, asked rarely and counted down; and when it is too short to go on.
import { assert, assertEquals } from "@std/assert";
import { askProgram, jobIn, openRemainingTime, timeIsShort } from "../../../../core/ranks/job/scheduler.ts";
import { assertSentence } from "../../../sentences.ts";

const env = { SLURM_JOB_ID: "17" };
const job = jobIn(env)!;
const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

Deno.test("the scheduler is asked once, and its answer is counted down", async () => {
  let now = 1000, asked = 0;
  const time = openRemainingTime({
    job,
    env,
    began: 0,
    clock: () => now,
    ask: () => Promise.resolve(`${++asked > 1 ? "unexpected" : "10:00 1:00:00"}`),
  });
  try {
    assertEquals(time.now(), null);
    await settled();
    assertEquals(time.now(), { left: 600, limit: 3600 });
    now += 599;
    assertEquals(time.now(), { left: 1, limit: 3600 });
    now += 100;
    assertEquals(time.now(), { left: 0, limit: 3600 });
    assertEquals(asked, 1);
  } finally {
    time.close();
  }
});

Deno.test("without an answer the environment's end counts, and an answer counts more", async () => {
  const told = { ...env, SLURM_JOB_END_TIME: "1500" };
  for (const [answer, left] of [[null, 500], ["gibberish", 500], ["1:00 5:00", 60]] as const) {
    const time = openRemainingTime({
      job,
      env: told,
      began: 0,
      clock: () => 1000,
      ask: () => Promise.resolve(answer),
    });
    await settled();
    assertEquals(time.now()?.left, left);
    time.close();
  }
});

Deno.test("a program that is missing, or fails, has said nothing, and one that runs is heard", async () => {
  assertEquals(await askProgram(["no-such-program"]), null);
  assertEquals(await askProgram(["false"]), null);
  assertEquals(await askProgram(["echo", "1:00"]), "1:00\n");
});

Deno.test("a run stops when two saves and a margin no longer fit, with the numbers in the reason", () => {
  const of = (left: number, limit: number | null, save: number) => timeIsShort({ left, limit }, save);
  assertEquals(of(113, 3600, 41), null);
  assertSentence("core/ranks/job/time_left: job left save", of(111, 3600, 41));
  assertEquals(of(31, 3600, 0.2), null);
  assertSentence("core/ranks/job/time_left: job left save takes", of(30.2, 3600, 0.2));
  // A minute would be over before it has begun.
  assertEquals(of(7, 60, 0.4), null);
  assertSentence("core/ranks/job/time_left: job left save takes less", of(6.5, 60, 0.4));
  assertEquals(of(20, null, 5), "20 s are left and a save takes 5 s");
  assertEquals(of(Infinity, Infinity, 100), null);
  assert(of(0, 3600, 0)!.startsWith("0 s"));
});
