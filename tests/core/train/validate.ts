// Whether a trace is what Perfetto and Chrome read: fields, types, spans that nest. Test helper.
import { assert, assertEquals } from "@std/assert";

export interface Complete {
  readonly name: string;
  readonly cat: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
  readonly args?: Record<string, unknown>;
}

const CATEGORIES = ["step", "part", "op", "collective"];

/** The spans of a trace that is as it should be; throws where it is not. */
export function validate(trace: unknown): Complete[] {
  // deno-lint-ignore no-explicit-any -- what it is, is what is looked at
  const { traceEvents, displayTimeUnit } = trace as { traceEvents: any[]; displayTimeUnit: unknown };
  assertEquals(displayTimeUnit, "ms");
  assert(Array.isArray(traceEvents) && traceEvents.length > 0, "traceEvents");
  const spans: Complete[] = [];
  for (const event of traceEvents) {
    const said = JSON.stringify(event);
    assert(typeof event.name === "string" && event.name !== "", said);
    assert(
      Number.isInteger(event.pid) && event.pid >= 0 && Number.isInteger(event.tid) && event.tid >= 0,
      said,
    );
    if (event.ph === "M") assert(typeof event.args === "object", said);
    else {
      assertEquals(event.ph, "X", said);
      assert(
        Number.isFinite(event.ts) && event.ts >= 0 && Number.isFinite(event.dur) && event.dur >= 0,
        said,
      );
      assert(CATEGORIES.includes(event.cat), said);
      spans.push(event);
    }
  }
  const named = (name: string, pid: number, tid: number) =>
    traceEvents.some((e) =>
      e.ph === "M" && e.name === name && e.pid === pid && (name === "process_name" || e.tid === tid)
    );
  for (const { pid, tid } of spans) {
    assert(
      named("process_name", pid, tid) && named("thread_name", pid, tid),
      `rank ${pid}, thread ${tid} has a name`,
    );
  }
  nest(spans);
  return spans;
}

/** On one thread a span that begins within another ends within it. */
function nest(spans: readonly Complete[]): void {
  const threads = Map.groupBy(spans, ({ pid, tid }) => `${pid}.${tid}`);
  for (const own of threads.values()) {
    const open: Complete[] = [];
    const end = ({ ts, dur }: Complete) => Math.round(10 * (ts + dur)) / 10;
    for (const span of own.toSorted((a, b) => a.ts - b.ts || end(b) - end(a))) {
      while (open.length > 0 && end(open.at(-1)!) <= span.ts) open.pop();
      const around = open.at(-1);
      assert(
        !around || end(span) <= end(around),
        `${JSON.stringify(span)} reaches beyond ${JSON.stringify(around)}`,
      );
      open.push(span);
    }
  }
}
