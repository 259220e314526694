import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import type { Emitted } from "../../../core/run/event_log.ts";
import { openEvents } from "./direct_log.ts";
import {
  goodput,
  type Lineage,
  lineageNow,
  type LineageOptions,
  lineagePath,
  openLineage,
  readLineage,
} from "../../../core/run/lineage.ts";
import { inFolder } from "../checkpoint/python.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

const RUN: Emitted = {
  kind: "run",
  run: "r",
  version: "1",
  command: [],
  model: "mlp",
  parameters: 1,
  world_size: 2,
  device: "cpu",
  libtorch: "2",
  host: "node7",
  pid: 42,
};
const exit = (code: number, message: string, step: number): Emitted => ({
  kind: "exit",
  code,
  message,
  step,
  epoch: 0,
  seconds: 1,
});
const step = (n: number): Emitted => ({ kind: "step", step: n, epoch: 1, loss: 1, lr: 1 });
const save = (n: number, stall: number): Emitted => ({
  ...{ kind: "save", step: n, epoch: 0, path: "p", bytes: 1, seconds: 1, stall_s: stall, reason: "interval" },
} as Emitted);

/** An attempt by a clock of its own: each entry is a time with what happens then; a number is a step that was done. */
function attempt(
  logs: string,
  story: [t: number, what: Emitted | number][],
  more: Partial<LineageOptions> = {},
): readonly string[] {
  let t = 0;
  const warn = (message: string) => {
    throw new Error(message);
  };
  const rest = { run: "r", step: 0, resumedFrom: null, parent: null, warn };
  const lineage = openLineage(logs, { ...rest, began: story[0][0], now: () => t, ...more });
  const events = openEvents(`${logs}/events.jsonl`, { warn, now: () => t, observe: lineage.observe });
  for (const [at, what] of story) {
    t = at;
    if (typeof what === "number") lineage.stepped(what);
    else events.emit(what);
  }
  events.close();
  return lineage.lines;
}

const read = (logs: string): Lineage => readLineage(logs)!;

Deno.test(
  "an attempt that ends tells host, ranks, steps, and what of its time was lost",
  inFolder((logs) => {
    Deno.env.set("PBS_JOBID", "77.server");
    try {
      // Two seconds to the first step, one second in saves, and seven of training.
      const lines = attempt(logs, [[100, RUN], [102, 1], [105, save(6, 1)], [110, exit(0, "Finished", 9)]]);
      assertEquals(lines, []);
    } finally {
      Deno.env.delete("PBS_JOBID");
    }
    assertEquals(read(logs), {
      version: 1,
      run: "r",
      parent: null,
      goodput_percent: 70,
      attempts: [{
        ...{ attempt: 1, host: "node7", job_id: "77.server", ranks: 2, pid: 42, started: 100 },
        ...{ resumed_from: null, first_step: 1, last_step: 9, first_step_at: 102, last_seen: 110 },
        ended: { why: "done", message: "Finished", code: 0 },
        lost: { restart_s: 2, save_stall_s: 1, redone_steps: 0, redone_s: 0 },
      }],
    });
  }),
);

Deno.test(
  "goodput is that of the times as they are written: whoever works it out again finds the same",
  inFolder((logs) => {
    attempt(logs, [[100, RUN], [100.0054, 1], [100.0114, exit(0, "Finished", 9)]]); // 6 of 11.4 ms, or of 11
    assertEquals(read(logs).goodput_percent, goodput(read(logs).attempts));
  }),
);

Deno.test(
  "the next attempt finds out that one was killed, how far it had come, and what is done again",
  inFolder((logs) => {
    // Written last at step 1; what came after is in the events alone: 20 steps in 10 s, 1 s of it in a save.
    attempt(logs, [[100, RUN], [101, 1], [101.5, save(1, 1)], [111, step(20)]]);
    assertEquals([read(logs).attempts[0].last_step, read(logs).attempts[0].ended], [1, null]);
    assertEquals(lineageNow(logs)!.attempts[0].last_step, 20);
    const from = { step: 12, resumedFrom: "c.pt" };
    const lines = attempt(
      logs,
      [[200, RUN], [202, 13], [210, exit(75, "Stopped on request (SIGTERM)", 30)]],
      from,
    );
    const [first, second] = read(logs).attempts;
    assertEquals([first.ended!.why, first.last_seen, first.lost.save_stall_s], ["killed", 111, 1]);
    assertEquals([second.first_step, second.last_step, second.resumed_from], [13, 30, "c.pt"]);
    assertEquals([second.lost.redone_steps, second.lost.redone_s, second.lost.restart_s], [8, 8 * 9 / 20, 2]);
    assertEquals(lines, [
      sentenceNamed("core/run/lineage: attempt run goodput"),
    ]);
    // 21 s in all, of which 3 began, 1 saved and 3.6 were for nothing.
    assertEquals(read(logs).goodput_percent, Math.round(1000 * (21 - 3 - 1 - 3.6) / 21) / 10);
    const [third] = attempt(logs, [[300, RUN]], { step: 30 });
    assertSentence("core/run/lineage: attempt run attempt", third);
    const [fourth] = attempt(logs, [[400, RUN]], { step: 30 });
    assertMatch(fourth, /Attempt 3 was killed after step 30$/);
  }),
);

Deno.test("goodput of attempts that never took a step is 0, and of no time there is none", () => {
  assertEquals(goodput([]), null);
  const lost = { restart_s: 5, save_stall_s: 0, redone_steps: 0, redone_s: 0 };
  const one = { started: 1, last_seen: 6, first_step: 1, last_step: 0, first_step_at: null, lost };
  assertEquals(goodput([one as unknown as Lineage["attempts"][number]]), 0);
});

Deno.test(
  "a damaged file is set aside with a line, whatever is wrong with it, and attempts are counted anew",
  inFolder((logs) => {
    attempt(logs, [[100, RUN], [101, 1], [102, exit(4, "out of memory", 1)]]);
    const good = Deno.readTextFileSync(lineagePath(logs));
    const bad = [
      good.slice(0, -30),
      "",
      "null",
      '{"version":1,"attempts":[null]}',
      '{"version":1,"attempts":[{}]}',
    ];
    for (const text of bad) {
      Deno.writeTextFileSync(lineagePath(logs), text);
      const [line, ...more] = attempt(logs, [[200, RUN]]);
      assertMatch(
        line,
        /^\S+lineage\.json: .*damaged or edited\. It is set aside as \S+\.damaged-\d+; .*from 1/,
      );
      assertEquals(more, []);
      assertEquals(read(logs).attempts.map(({ attempt }) => attempt), [1]);
      const aside = [...Deno.readDirSync(logs)].find(({ name }) => name.includes("damaged"))!;
      assertEquals(Deno.readTextFileSync(join(logs, aside.name)), text);
      Deno.removeSync(join(logs, aside.name));
    }
    Deno.writeTextFileSync(lineagePath(logs), good);
    const [line] = attempt(logs, [[200, RUN]], { step: 1 });
    assertMatch(line, /Attempt 1 ended in an error \(code 4\) after step 1$/);
  }),
);

Deno.test("a lineage that can't be written is told once, and training goes on", () => {
  const told: string[] = [];
  const warn = (message: string) => void told.push(message);
  const rest = { run: "r", step: 0, resumedFrom: null, parent: null, began: 1, warn };
  const lineage = openLineage("/proc/nowhere", rest);
  lineage.observe(RUN, 2);
  lineage.stepped(1);
  lineage.observe(exit(0, "Finished", 1), 5);
  assertEquals(told.length, 1);
  assertSentence("core/run/lineage: run lineage could", told[0]);
});
