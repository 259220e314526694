import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { opTable, opTimes, profiledSteps, type Spans, traceOf } from "../../../core/train/profile.ts";
import { COMPUTE, COPY, TIME_PARTS } from "../../../core/run/account.ts";
import { validate } from "./validate.ts";

const [CONV, BACKWARD] = [TIME_PARTS.length, TIME_PARTS.length + 1];
const SPANS: Spans = {
  names: [...TIME_PARTS, "conv2d", "backward"],
  steps: [7, 100, 110, 8, 110, 130],
  parts: [COPY, 100, 102, COMPUTE, 102, 110, COPY, 110, 112, COMPUTE, 112, 130],
  ops: [CONV, 102.5, 104, BACKWARD, 104, 110, CONV, 113, 114, BACKWARD, 114, 129.99999],
  dropped: 2,
};
const COLLECTIVE = { op: "all-reduce", bytes: 64, phase: "gradients" };
const RANK = {
  rank: 3,
  host: "node7",
  spans: SPANS,
  shift: -100,
  collectiveShift: -5000,
  collectives: [
    { ...COLLECTIVE, sequence: 4, begun: 5004, ended: 5006 },
    { ...COLLECTIVE, sequence: 5, begun: 5005.5, ended: 5007 },
  ],
};

Deno.test("a trace is what its readers expect, and its spans nest", () => {
  const spans = validate({ displayTimeUnit: "ms", traceEvents: traceOf(RANK) });
  const found = (name: string) =>
    spans.filter((span) => span.name === name).map(({ ts, dur, tid }) => [ts, dur, tid]);
  assertEquals(found("step 8"), [[10_000, 20_000, 0]]);
  assertEquals(found("conv2d"), [[2500, 1500, 0], [13_000, 1000, 0]]);
  assertEquals(
    found("backward")[1],
    [14_000, 16_000, 0],
    "it ends with its step, however its length is rounded",
  );
  assertEquals(found("all-reduce (gradients)"), [[4000, 2000, 1], [6000, 1000, 1]], "one after the other");
});

Deno.test("the validator sees spans that overlap, fields that are missing and times that are none", () => {
  const broken = (change: (events: Record<string, unknown>[]) => void) => {
    const traceEvents = structuredClone(traceOf(RANK)) as unknown as Record<string, unknown>[];
    change(traceEvents.filter(({ ph }) => ph === "X"));
    return { displayTimeUnit: "ms", traceEvents };
  };
  for (const field of ["name", "ts", "dur", "pid", "cat"]) {
    assertThrows(() => validate(broken(([e]) => delete e[field])));
  }
  assertThrows(() => validate(broken((events) => events[2].dur = 15_000)), Error, "reaches beyond");
  assertThrows(() => validate(broken(([e]) => e.ts = NaN)));
});

Deno.test("ops are added up by name, the slowest first, with their share of the steps' time", () => {
  assertEquals(opTimes(SPANS).map(({ name, calls }) => [name, calls]), [["backward", 2], ["conv2d", 2]]);
  const [head, backward, conv, dropped] = opTable(SPANS);
  assertMatch(head, /^ {2}op +calls +a step +share$/);
  assertMatch(backward, /^ {2}backward +1\.0 +11\.000 ms +73\.3%$/);
  assertMatch(conv, /^ {2}conv2d +1\.0 +1\.250 ms +8\.3%$/);
  assertMatch(dropped, /2 calls had no room/);
  assertMatch(opTable(SPANS, 1)[2], /and 1 others with 8\.3%/);
});

Deno.test("steps to look at are one number or two", () => {
  assertEquals([profiledSteps("15"), profiledSteps("10-20"), profiledSteps("20-10")], [[15, 15], [10, 20], [
    10,
    20,
  ]]);
});
