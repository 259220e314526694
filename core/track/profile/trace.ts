// Spans as the trace events that Perfetto and Chrome read, and as a table of ops. Pure. May import recorder's types, format.
import { formatPlural } from "../../format.ts";
import { PARTS } from "../account.ts";
import type { Spans } from "./recorder.ts";

/** https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: times in microseconds. */
export type TraceEvent =
  | { ph: "M"; name: "process_name" | "thread_name"; pid: number; tid: number; args: { name: string } }
  | {
    ph: "M";
    name: "process_sort_index" | "thread_sort_index";
    pid: number;
    tid: number;
    args: { sort_index: number };
  }
  | {
    ph: "X";
    name: string;
    cat: "step" | "part" | "op" | "collective";
    pid: number;
    tid: number;
    ts: number;
    dur: number;
    args?: Record<string, number | string>;
  };

/** A collective, in milliseconds of the ranks' common clock. */
export interface Flown {
  readonly sequence: number;
  readonly op: string;
  readonly bytes: number;
  readonly phase: string;
  readonly begun: number;
  readonly ended: number;
}

export interface RankSpans {
  readonly rank: number;
  readonly host: string;
  readonly spans: Spans;
  readonly collectives: readonly Flown[];
  /** What turns `performance.now` into milliseconds since the trace's zero, on rank 0's clock. */
  readonly shift: number;
  /** The same for the collectives' clock. */
  readonly collectiveShift: number;
}

const STEPS = 0, COLLECTIVES = 1;

/** To a tenth of a microsecond. */
const micro = (milliseconds: number): number => Math.round(milliseconds * 10_000) / 10;

export function traceOf(
  { rank: pid, host, spans, collectives, shift, collectiveShift }: RankSpans,
): TraceEvent[] {
  const { names, ops, parts, steps } = spans;
  const said = (name: "process_name" | "thread_name", tid: number, text: string): TraceEvent => ({
    ph: "M",
    name,
    pid,
    tid,
    args: { name: text },
  });
  const events: TraceEvent[] = [
    said("process_name", STEPS, `rank ${pid} on ${host}`),
    { ph: "M", name: "process_sort_index", pid, tid: STEPS, args: { sort_index: pid } },
    said("thread_name", STEPS, "training"),
  ];
  const each = (list: readonly number[], cat: "step" | "part" | "op", name: (number: number) => string) => {
    for (let i = 0; i < list.length; i += 3) {
      const ts = micro(list[i + 1] + shift);
      // The end is rounded, not the length: what ends together ends together here too.
      const dur = Math.max(0, Math.round(10 * (micro(list[i + 2] + shift) - ts)) / 10);
      events.push({ ph: "X", name: name(list[i]), cat, pid, tid: STEPS, ts, dur });
    }
  };
  each(steps, "step", (number) => `step ${number}`);
  each(parts, "part", (part) => PARTS[part]);
  each(ops, "op", (number) => names[number]);
  if (collectives.length === 0) return events;
  events.push(said("thread_name", COLLECTIVES, "collectives"));
  let end = -Infinity;
  for (const { sequence, op, bytes, phase, begun, ended } of collectives) {
    const ts = Math.max(end, micro(begun + collectiveShift)); // one after the other
    end = Math.max(ts, micro(ended + collectiveShift));
    const dur = Math.round(10 * (end - ts)) / 10;
    events.push({
      ph: "X",
      name: `${op} (${phase})`,
      cat: "collective",
      pid,
      tid: COLLECTIVES,
      ts,
      dur,
      args: { sequence, bytes },
    });
  }
  return events;
}

export interface OpTime {
  readonly name: string;
  readonly calls: number;
  /** In all steps. */
  readonly milliseconds: number;
}

/** The slowest first. */
export function opTimes({ names, ops }: Spans): OpTime[] {
  const found = names.map((name) => ({ name, calls: 0, milliseconds: 0 }));
  for (let i = 0; i < ops.length; i += 3) {
    found[ops[i]].calls++;
    found[ops[i]].milliseconds += ops[i + 2] - ops[i + 1];
  }
  return found.filter(({ calls }) => calls > 0).sort((a, b) => b.milliseconds - a.milliseconds);
}

/** "backward       1.0 x   12.34 ms   61.2%" for each op: calls and time a step, and the part of the steps' time. */
export function opTable(spans: Spans, most = Infinity): string[] {
  const { steps, dropped } = spans;
  const count = steps.length / 3;
  if (count === 0) return [];
  const whole = steps[steps.length - 1] - steps[1];
  const times = opTimes(spans);
  const width = Math.max(2, ...times.slice(0, most).map(({ name }) => name.length));
  const row = (name: string, calls: string, time: string, share: string) =>
    `  ${name.padEnd(width)}  ${calls.padStart(9)}  ${time.padStart(10)}  ${share.padStart(6)}`;
  const lines = times.slice(0, most).map(({ name, calls, milliseconds }) =>
    row(
      name,
      (calls / count).toFixed(1),
      `${(milliseconds / count).toFixed(3)} ms`,
      `${(100 * milliseconds / whole).toFixed(1)}%`,
    )
  );
  const rest = times.slice(most).reduce((sum, { milliseconds }) => sum + milliseconds, 0);
  return [
    row("op", "calls", "a step", "share"),
    ...lines,
    ...(rest > 0 ? [`  and ${times.length - most} others with ${(100 * rest / whole).toFixed(1)}%`] : []),
    ...(dropped > 0 ? [`  ${formatPlural(dropped, "call")} had no room and are not counted`] : []),
  ];
}
