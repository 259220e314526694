// --profile-training: each rank records some steps, and rank 0 joins them into one trace on one clock and a
// table of the slowest ops.
import { messageOf } from "../base/errors.ts";
import { join } from "../../deps/path.ts";
import { clockOffsets, type Team } from "../ranks/team.ts";
import { lastRecorded, progress } from "../ranks/flight_recorder.ts";
import { type Account, TIME_PARTS } from "../run/account.ts";
import type { Launch } from "./launch.ts";
import type { Console } from "../run/console.ts";
import { timeOps } from "../../ffi/profile.ts";
import { formatPlural } from "../base/format.ts";

/** The file has all ops. */
const SHOWN = 8;

/** The setting's pattern has seen "10-20" or "15". */
export function profiledSteps(text: string): [number, number] {
  const [from, to = from] = text.split("-").map(Number);
  return [Math.min(from, to), Math.max(from, to)];
}

type Told = Pick<Console, "line" | "warn">;

/** Null without --profile-training. */
export function openProfile(
  { config: { training }, team = null }: Launch,
  account: Account,
  logs: string,
  told: Told,
) {
  if (!training.profile_training) return null;
  const flight = team?.flight ?? null;
  const [from, to] = profiledSteps(training.profile_steps); // of this process, from 1
  let recorder: Recorder | null = null;
  let first: number | null = null, last = -1, over = false;
  const collectives: CollectiveSpan[] = [];
  let flown = 0;
  const observe = () => {
    if (flight === null) return;
    for (const one of lastRecorded(flight)) {
      if (one.sequence <= flown || one.ended === 0) continue;
      flown = one.sequence;
      collectives.push(one);
    }
  };
  return {
    /** `step` counts the whole run. True when `finish` is due. */
    at(step: number): boolean {
      first ??= step;
      if (over || step === last) return false; // data was waited for at the same place
      last = step;
      const done = step - first;
      if (recorder !== null) {
        recorder.step(step);
        observe();
      }
      if (done === from - 1) {
        if (flight) flown = progress(flight).ended;
        recorder = startRecorder(account);
      }
      return done >= to;
    },
    /** Every rank calls it, after the same step. */
    async finish(): Promise<void> {
      if (over) return;
      over = true;
      const spans = recorder?.end() ?? null;
      recorder = null;
      if (spans === null || spans.steps.length === 0) {
        return told.warn(
          `The run ended before step ${from}, so there is no profile: choose earlier ones with --profile-steps 1-5.`,
        );
      }
      await write(team, logs, told, spans, collectives);
    },
  };
}

async function write(
  team: Team | null,
  logs: string,
  { line, warn }: Told,
  spans: Spans,
  collectives: readonly CollectiveSpan[],
): Promise<void> {
  const rank = team?.rank ?? 0, world = team?.world ?? 1;
  const ahead = team ? clockOffsets(team)[rank] : 0;
  const began = performance.timeOrigin + spans.steps[1] - ahead;
  const earliest = team?.gather(began, "profile").reduce((a, b) => Math.min(a, b)) ?? began;
  const zero = earliest - 0.001; // rounding gives no time before it
  const collectiveShift = -ahead - zero;
  const shift = performance.timeOrigin + collectiveShift;
  const within = collectives.filter(({ begun }) => begun + collectiveShift >= 0);
  const events = traceOf({ rank, host: Deno.hostname(), spans, collectives: within, shift, collectiveShift });
  const part = (rank: number) => join(logs, `trace-${rank}.part`);
  const text = events.map((event) => JSON.stringify(event)).join(",\n");
  const failed = rank === 0 ? null : attempt(() => Deno.writeTextFileSync(part(rank), text));
  const failures = team?.gather(failed, "profile") ?? [failed];
  if (rank > 0) return;
  const texts = [text];
  for (let other = 1; other < world; other++) {
    const missing = failures[other] ?? attempt(() => {
      texts.push(Deno.readTextFileSync(part(other)));
      Deno.removeSync(part(other));
    });
    if (missing !== null) warn(`The trace lacks rank ${other}: ${missing}`);
  }
  const path = join(logs, "trace.json.gz");
  const numbers = [spans.steps[0], spans.steps[spans.steps.length - 3]];
  const head = `{"displayTimeUnit":"ms","otherData":{"program":"hpctrain","steps":"${numbers.join("-")}"},`;
  const whole = `${head}"traceEvents":[\n${texts.join(",\n")}\n]}\n`;
  const title = `Steps ${numbers.join(" to ")}${
    world > 1 ? " on rank 0" : ""
  }, by the time that ops took on the host:`;
  const bytes = await gzip(whole);
  const unwritten = attempt(() => {
    Deno.writeFileSync(path, bytes);
    Deno.writeTextFileSync(join(logs, "profile.txt"), [title, ...opTable(spans)].join("\n") + "\n");
  });
  if (unwritten !== null) return warn(`The profile could not be written: ${unwritten}`);
  line(title);
  for (const row of opTable(spans, SHOWN)) line(row);
  line(`Trace: ${path} (open it at https://ui.perfetto.dev, or in chrome://tracing)`);
}

function attempt(act: () => void): string | null {
  try {
    act();
    return null;
  } catch (error) {
    return messageOf(error);
  }
}

async function gzip(text: string): Promise<Uint8Array> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Times in milliseconds of `performance.now`. */
export interface Spans {
  readonly names: readonly string[];
  /** Name, beginning, end; one after the other. */
  readonly ops: readonly number[];
  readonly parts: readonly number[];
  /** The step's number stands for a name. */
  readonly steps: readonly number[];
  /** There was no room for so many ops. */
  readonly dropped: number;
}

interface Recorder {
  /** The last lap ends with the step. */
  step(number: number): void;
  end(): Spans;
}

const MOST = 200_000;

function startRecorder(account: Account, most = MOST): Recorder {
  const numbers = new Map<string, number>(TIME_PARTS.map((name, i) => [name, i]));
  const ops: number[] = [], parts: number[] = [], steps: number[] = [];
  let dropped = 0, from = account.at;
  const stop = timeOps((name, from, to) => {
    if (ops.length >= 3 * most) return void dropped++;
    let number = numbers.get(name);
    if (number === undefined) numbers.set(name, number = numbers.size);
    ops.push(number, from, to);
  });
  account.onLap = (part, from, to) => void (to > from && parts.push(part, from, to));
  return {
    step(number) {
      steps.push(number, from, account.at);
      from = account.at;
    },
    end() {
      stop();
      account.onLap = null;
      return { names: [...numbers.keys()], ops, parts, steps, dropped };
    },
  };
}

/** https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: times in microseconds. */
type TraceEvent =
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

/** Milliseconds of the ranks' common clock. */
interface CollectiveSpan {
  readonly sequence: number;
  readonly op: string;
  readonly bytes: number;
  readonly phase: string;
  readonly begun: number;
  readonly ended: number;
}

interface RankSpans {
  readonly rank: number;
  readonly host: string;
  readonly spans: Spans;
  readonly collectives: readonly CollectiveSpan[];
  /** Turns `performance.now` into milliseconds since the trace's zero. */
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
  const metadata = (name: "process_name" | "thread_name", tid: number, text: string): TraceEvent => ({
    ph: "M",
    name,
    pid,
    tid,
    args: { name: text },
  });
  const events: TraceEvent[] = [
    metadata("process_name", STEPS, `rank ${pid} on ${host}`),
    { ph: "M", name: "process_sort_index", pid, tid: STEPS, args: { sort_index: pid } },
    metadata("thread_name", STEPS, "training"),
  ];
  const each = (list: readonly number[], cat: "step" | "part" | "op", name: (number: number) => string) => {
    for (let i = 0; i < list.length; i += 3) {
      const ts = micro(list[i + 1] + shift);
      // The end is rounded, so that what ends together does so here too.
      const dur = Math.max(0, Math.round(10 * (micro(list[i + 2] + shift) - ts)) / 10);
      events.push({ ph: "X", name: name(list[i]), cat, pid, tid: STEPS, ts, dur });
    }
  };
  each(steps, "step", (number) => `step ${number}`);
  each(parts, "part", (part) => TIME_PARTS[part]);
  each(ops, "op", (number) => names[number]);
  if (collectives.length === 0) return events;
  events.push(metadata("thread_name", COLLECTIVES, "collectives"));
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

interface OpTime {
  readonly name: string;
  readonly calls: number;
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

/** "backward 1.0 x 12.34 ms 61.2%". */
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
