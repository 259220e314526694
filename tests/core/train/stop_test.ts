// What makes a run stop or save from outside. Signals: tests/integration/interrupts_test.ts.
import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import {
  catchEarlySignals,
  giveSignalsBack,
  stopSignals,
  unlessStopped,
  watchRequests,
} from "../../../core/train/stop.ts";
import { until } from "../../integration/program.ts";
import { inFolder } from "../checkpoint/python.ts";
import { started } from "./started.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

Deno.test(
  "the files STOP and SAVE are used up, and the first reason to stop stands",
  inFolder((folder) => {
    const requests = watchRequests(folder, { secondInterrupt() {} });
    try {
      for (const name of ["STOP", "SAVE"]) Deno.writeTextFileSync(`${folder}/${name}`, "");
      requests.watchTime(() => "late");
      assertEquals([requests.takeSave(), requests.takeSave()], [true, false]);
      assertEquals(requests.stop(), "the file STOP");
      assertEquals([...Deno.readDirSync(folder)], []);
    } finally {
      requests.close();
      giveSignalsBack();
    }
  }),
);

Deno.test(
  "a run whose time is nearly over saves and stops, with the reason in its last words",
  inFolder((folder) =>
    started(
      folder,
      ["--data-type", "synthetic", "--train-samples", "640", "--val-samples", "0"],
      async (run) => {
        run.requests.watchTime(() => "90 s of the job's time are left");
        const { stopped, outcome } = await trainLoop(run);
        assertEquals([stopped, outcome], [true, sentenceNamed("core/train/stop: stopped request job")]);
        assertEquals([run.cursor.step, run.saver.stats.saves], [0, 1]);
      },
    )
  ),
);

Deno.test("signals are named with or without SIG, and what can't ask for a stop is refused", () => {
  assertEquals(stopSignals([]), ["SIGUSR1", "SIGUSR2", "SIGTERM", "SIGINT"]);
  assertEquals(stopSignals(["usr1", "SIGHUP"]), ["SIGUSR1", "SIGHUP"]);
  for (const name of ["KILL", "SIGSTOP", "USR3", ""]) {
    assertMatch(
      assertThrows(() => stopSignals([name]), UserError).message,
      /--stop-signals: .*USR1, USR2, TERM/,
    );
  }
});

Deno.test("a warning that came before there was anything to save ends long work, and is not forgotten", async () => {
  catchEarlySignals(["SIGUSR2"]);
  assertEquals(await unlessStopped(Promise.resolve("data")), "data");
  let came = false;
  const hear = () => void (came = true);
  Deno.addSignalListener("SIGUSR2", hear); // after those who were there before
  Deno.kill(Deno.pid, "SIGUSR2");
  await until("the signal", () => came);
  Deno.removeSignalListener("SIGUSR2", hear);
  const asked = await assertRejects(() => unlessStopped(new Promise(() => {})), UserError);
  assertEquals(asked.exitCode, 75);
  assertSentence("core/train/stop: sigusr came before", asked.message);
  const heard: string[] = [];
  const requests = watchRequests(null, { secondInterrupt() {}, onRequest: (reason) => heard.push(reason) });
  try {
    assertEquals([requests.stop(), heard], ["SIGUSR2", ["SIGUSR2"]]);
  } finally {
    requests.close();
  }
  const next = watchRequests(null, { secondInterrupt() {} });
  assertEquals(next.stop(), null);
  next.close();
  giveSignalsBack();
});

Deno.test(
  "time that is short is told once, and its watch ends with the requests",
  inFolder((folder) => {
    const heard: string[] = [];
    let closed = false;
    const onRequest = (reason: string, by: string) => heard.push(`${by}: ${reason}`);
    const requests = watchRequests(folder, { secondInterrupt() {}, onRequest });
    requests.watchTime(() => "9 s are left", () => closed = true);
    assertEquals([requests.stop(), requests.stop(), heard], ["9 s are left", "9 s are left", [
      "time: 9 s are left",
    ]]);
    requests.close();
    giveSignalsBack();
    assertEquals(closed, true);
  }),
);
