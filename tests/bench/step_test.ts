// A step's time by command line: a whole run, whose own events are the clock.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { join } from "paths";
import { stepLine, stepsOf, timesIn } from "../../bench/step.ts";
import { COMMAND, inTemp } from "../integration/program.ts";

const epoch = (step: number, seconds: number) => ({ kind: "epoch", step, seconds });
const run = { kind: "run", parameters: 7 };

Deno.test("a step's time is the median epoch's, without the first, in which code is made", () => {
  const events = [run, epoch(10, 9), { kind: "step" }, epoch(20, 2), epoch(30, 5), epoch(40, 1)];
  assertEquals(timesIn(events), { seconds: 0.2, parameters: 7 });
  assertThrows(() => timesIn([run, epoch(10, 9)]), Error, "a run of one epoch has no time of a step");
});

Deno.test("the default is typed without a flag, and the other way with one", () => {
  assertEquals(stepLine("mlp", "hpctrain --compile", 4), `${stepLine("mlp", "hpctrain", 4)} --compile`);
  assert(!/compile/.test(stepLine("gpt", "hpctrain", 4)));
});

Deno.test("a command line is run as it is typed, and tells its parameters, its memory and a step's time", () =>
  inTemp(async (folder) => {
    const exe = join(folder, "hpctrain"), python = Deno.env.get("HPCTRAIN_PYTHON")!;
    Deno.writeTextFileSync(exe, `#!/bin/sh\nexec ${COMMAND.join(" ")} "$@"\n`, { mode: 0o755 });
    const line = "hpctrain train --model mlp --hidden-size 8 --train-samples 64 --val-samples 32 --epochs 2";
    const { seconds, peak, parameters } = await stepsOf({ exe, python }, line);
    assertEquals(parameters, 7 * 8 + 8 + 8 * 8 + 8 + 8 + 1);
    assert(seconds > 0 && seconds < 60 && peak > 50e6, `${seconds} ${peak}`);
  }));
