import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { readRun, type RunData } from "../../../core/run/run_data.ts";
import { progressOf, runStatusOf } from "../../../core/run/status.ts";
import { type MadeRun, makeRun } from "./made_run.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

function dataOf(made: MadeRun): RunData {
  const folder = Deno.makeTempDirSync();
  try {
    return readRun(makeRun(folder, made));
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

const unknown = () => null;

Deno.test("a run that goes on is running, one that says nothing for long seems dead, one without its process is gone", () => {
  const data = dataOf({ steps: 100, exit: null, host: "elsewhere" });
  const now = data.lastAt!;
  assertEquals(runStatusOf(data, now + 100, unknown).state, "running");
  assertEquals(runStatusOf(data, now + 130, unknown), {
    state: "silent",
    why: "It seems dead: the last event is 2m 10s old",
  });
  assertSentence("core/run/standing: seems dead last", runStatusOf(data, now + 130, () => true).why);
  assertEquals(runStatusOf(data, now + 1, () => false).state, "gone");
  assertEquals(runStatusOf(data, now + 1).state, "running", "of another host nothing is known");
  // A clock that is behind the node's.
  assertEquals(runStatusOf(data, now - 50, unknown), { state: "running", why: "the last event is 0 s old" });
});

Deno.test("a run without an end, whose memory was nearly used up, was probably killed for it", () => {
  const data = dataOf({ steps: 100, exit: null, host: "elsewhere" }), now = data.lastAt! + 1;
  const memory = { limit: 24 * 2 ** 30, used: 23.5 * 2 ** 30, of: "job" };
  data.memory = { kind: "warning", t: data.lastAt!, step: 100, about: "memory", message: "", memory };
  const killed = sentenceNamed("core/run/standing: probably killed memory");
  assert(runStatusOf(data, now, () => false).why.endsWith(`; ${killed}`));
  assert(runStatusOf(data, now + 200, unknown).why.endsWith(`; ${killed}`), "of another host");
  assert(!runStatusOf(data, now + 200, () => true).why.includes("memory"), "its process is there");
  data.memory = { ...data.memory, t: data.lastAt! - 1000 };
  assert(!runStatusOf(data, now, () => false).why.includes("memory"), "it was well again");
});

Deno.test("who logs every ten minutes is not silent after five", () => {
  const data = dataOf({ steps: 10, exit: null, stepSeconds: 600 });
  assertEquals(runStatusOf(data, data.lastAt! + 900, unknown).state, "running");
  assertEquals(runStatusOf(data, data.lastAt! + 4000, unknown).state, "silent");
});

Deno.test("this machine's processes are looked for", () => {
  const data = dataOf({ steps: 10, exit: null, host: Deno.hostname(), pid: Deno.pid });
  assertEquals(runStatusOf(data, data.lastAt!).state, "running");
  assertEquals(runStatusOf({ ...data, run: { ...data.run!, pid: 2 ** 30 } }, data.lastAt!).state, "gone");
});

Deno.test("an end is told by its exit code, whatever the time", () => {
  for (
    const [exit, state, why] of [[0, "done", "Finished"], [
      75,
      "stopped",
      "Stopped on request (exit code 75)",
    ], [6, "failed", "Stopped on request (exit code 6)"]] as const
  ) {
    assertEquals(runStatusOf(dataOf({ steps: 10, exit }), 4e9, unknown), { state, why });
  }
  const stopped = dataOf({ steps: 10, exit: 75 });
  assertEquals(
    runStatusOf({ ...stopped, exit: { ...stopped.exit!, requeues: true } }, 4e9, unknown).state,
    "requeued",
  );
  assertEquals(
    runStatusOf({ ...dataOf({ steps: 1 }), exit: null, lastAt: null, log: null }, 0).state,
    "starting",
  );
});

Deno.test("time left follows from the last steps, and is unknown where their number is", () => {
  const data = dataOf({ steps: 500, epochs: 5, exit: null, stepSeconds: 2 });
  const going = { ...data, config: { training: { epochs: 10, max_steps: 0 } } };
  assertEquals([progressOf(going).steps, progressOf(going).epochs], [1000, 10]);
  assertAlmostEquals(progressOf(going).secondsLeft!, 1000, 1);
  const limited = { ...going, config: { training: { epochs: 10, max_steps: 700 } } };
  assertAlmostEquals(progressOf(limited).secondsLeft!, 400, 1);
  assertEquals(progressOf({ ...going, stepsPerEpoch: null }).secondsLeft, null);
  assertEquals(progressOf({ ...limited, stepsPerEpoch: null }).steps, 700);
  assertEquals(progressOf({ ...going, recent: [] }).secondsLeft, null);
});

Deno.test("a log without an event is that of a run that begins, for as long as one takes to begin", () => {
  const data = { ...dataOf({ steps: 1 }), exit: null, lastAt: null };
  const of = (log: { at: number; bytes: number } | null) => runStatusOf({ ...data, log }, 1000).state;
  assertEquals([of(null), of({ at: 990, bytes: 0 }), of({ at: 500, bytes: 0 }), of({ at: 999, bytes: 40 })], [
    ...["starting", "starting", "gone", "gone"],
  ]);
});
