import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import type { Emitted } from "../../../../core/run/events.ts";
import { alertOf, openAlerts } from "../../../../core/train/guards/alerts.ts";
import { inTemp } from "../../../integration/program.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

const warning = (message: string): Emitted => ({ kind: "warning", message, step: 3 });
const exit = (code: number): Emitted => ({ kind: "exit", code, message: "m", step: 9, epoch: 1, seconds: 1 });

const opened = (folder: string, command: string, limitMs?: number) => {
  const warnings: string[] = [];
  const warn = (message: string) => warnings.push(message);
  const alerts = openAlerts({ command, run: "r", logs: join(folder, "logs/r"), warn, limitMs });
  return { alerts, warnings };
};

Deno.test("warnings, spikes, failed saves and the end are alerts, and what happens all the time is none", () => {
  assertEquals(alertOf(warning("w")), "warning");
  assertEquals(alertOf({ kind: "warning", message: "w", about: "spike" }), "spike");
  assertEquals(alertOf({ kind: "warning", message: "w", about: "save" }), "save_failed");
  assertEquals([alertOf(exit(0)), alertOf(exit(6)), alertOf(exit(75))], ["exit", "exit", "stop"]);
  assertEquals(alertOf({ kind: "step", step: 1, epoch: 1, loss: 1, lr: 1 }), null);
});

Deno.test("each alert is one line of JSON on the command's input, in order, the last one too", () =>
  inTemp(async (folder) => {
    const { alerts, warnings } = opened(folder, `cat >> '${folder}/heard'`);
    alerts.observe(warning('a "quoted"\nword'), 5.5);
    alerts.observe({ kind: "step", step: 1, epoch: 1, loss: 1, lr: 1 }, 6);
    alerts.observe(exit(75), 7);
    await alerts.close();
    const heard = Deno.readTextFileSync(join(folder, "heard")).trimEnd().split("\n").map((line) =>
      JSON.parse(line)
    );
    const [logs, run] = [join(folder, "logs/r"), "r"];
    assertEquals(heard, [
      { event: "warning", run, logs, t: 5.5, ...warning('a "quoted"\nword') },
      { event: "stop", run, logs, t: 7, ...exit(75) },
    ]);
    assertEquals(warnings, []);
  }));

Deno.test("a command that fails, or reads nothing, is told of once, and later alerts still go to it", () =>
  inTemp(async (folder) => {
    const { alerts, warnings } = opened(folder, `echo x >> '${folder}/calls'; exit 3`);
    for (const message of ["one", "two", "x".repeat(2 ** 20)]) alerts.observe(warning(message), 1);
    await alerts.close();
    assertEquals(warnings.length, 1);
    assertSentence("core/train/guards/alerts: command on-event ended", warnings[0]);
    assertEquals(Deno.readTextFileSync(join(folder, "calls")), "x\nx\nx\n");
  }));

Deno.test("a command that hangs is ended with all it has started, and who observes never waits for it", () =>
  inTemp(async (folder) => {
    let child = "";
    Deno.writeTextFileSync(join(folder, "child"), child);
    for (const limit of [300, 3000, 30_000]) { // on a busy machine it may be ended before it has started anything
      const { alerts, warnings } = opened(folder, `sleep 300 & echo $! > '${folder}/child'; wait`, limit);
      alerts.observe(warning("w"), 1);
      assertEquals(warnings, [], "it is started, not waited for");
      await alerts.close();
      assertMatch(warnings[0], new RegExp(`took longer than ${limit / 1000} s and was ended`));
      child = Deno.readTextFileSync(join(folder, "child")).trim();
      if (child) break;
    }
    const state = () => {
      try {
        return /State:\s+(\S)/.exec(Deno.readTextFileSync(`/proc/${child}/status`))![1];
      } catch {
        return "gone";
      }
    };
    for (const end = performance.now() + 30_000; !["gone", "Z"].includes(state());) {
      assert(performance.now() < end, `the command's child is still there: ${state()}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }));

Deno.test("more alerts than a slow command can hear are counted, and the end is heard all the same", () =>
  inTemp(async (folder) => {
    const { alerts, warnings } = opened(folder, `cat >> '${folder}/heard'`);
    for (let i = 0; i < 100; i++) alerts.observe(warning(`number ${i}`), 1);
    alerts.observe(exit(0), 2);
    await alerts.close();
    const heard = Deno.readTextFileSync(join(folder, "heard")).trimEnd().split("\n").map((line) =>
      JSON.parse(line)
    );
    assertEquals([heard.length, heard.at(-1).event], [34, "exit"]);
    assertEquals(warnings, [sentenceNamed("core/train/guards/alerts: alerts left out")]);
  }));
