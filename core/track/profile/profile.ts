// --profile-training: some steps of every rank as one trace on one clock, and the slowest ops. Each rank leaves its part
// in the run's folder, and rank 0 puts them together. May import dist, format, its siblings.
import { join } from "../../../deps/path.ts";
import { clockOffsets } from "../../dist/clock_offsets.ts";
import { type Flight, lastFlown, progress } from "../../dist/flight.ts";
import type { Team } from "../../dist/team.ts";
import type { Account } from "../account.ts";
import { type Recorder, type Spans, startRecorder } from "./recorder.ts";
import { type Flown, opTable, traceOf } from "./trace.ts";

export interface ProfileOptions {
  /** Steps of this process, from 1: the first and the last. */
  readonly steps: readonly [number, number];
  readonly account: Account;
  readonly team: Team | null;
  /** This rank's collectives. */
  readonly flight: Flight | null;
  /** Folder of the run. */
  readonly logs: string;
  line(text: string): void;
  warn(text: string): void;
}

export interface Profile {
  /**
   * So many steps are done, in all that the run has: called at the beginning of a lap. True when what was to be seen is
   * seen: then `finish`.
   */
  at(step: number): boolean;
  /** Writes the trace, if there is one to be written. Every rank calls it, after the same step. */
  finish(): Promise<void>;
}

/** Ops shown on the console; the file has all. */
const SHOWN = 8;

/** "10-20" or "15", which the setting's pattern has seen. */
export function stepsIn(text: string): [number, number] {
  const [from, to = from] = text.split("-").map(Number);
  return [Math.min(from, to), Math.max(from, to)];
}

export function openProfile(o: ProfileOptions): Profile {
  const [from, to] = o.steps;
  let recorder: Recorder | null = null;
  let first: number | null = null, last = -1, over = false;
  const collectives: Flown[] = [];
  let flown = 0;
  const hear = () => {
    if (o.flight === null) return;
    for (const one of lastFlown(o.flight)) {
      if (one.sequence <= flown || one.ended === 0) continue;
      flown = one.sequence;
      collectives.push(one);
    }
  };
  return {
    at(step) {
      first ??= step;
      if (over || step === last) return false; // the same place once more: data was waited for
      last = step;
      const done = step - first;
      if (recorder !== null) {
        recorder.step(step);
        hear();
      }
      if (done === from - 1) {
        if (o.flight) flown = progress(o.flight).ended;
        recorder = startRecorder(o.account);
      }
      return done >= to;
    },
    async finish() {
      if (over) return;
      over = true;
      const spans = recorder?.end() ?? null;
      recorder = null;
      if (spans === null || spans.steps.length === 0) {
        return o.warn(
          `The run ended before step ${from}, so there is no profile: choose earlier ones with --profile-steps 1-5.`,
        );
      }
      await write(o, spans, collectives);
    },
  };
}

async function write(o: ProfileOptions, spans: Spans, collectives: readonly Flown[]): Promise<void> {
  const { team, logs } = o;
  const rank = team?.rank ?? 0, world = team?.world ?? 1;
  const ahead = team ? clockOffsets(team)[rank] : 0;
  const began = performance.timeOrigin + spans.steps[1] - ahead;
  const earliest = team?.hear(began, "profile").reduce((a, b) => Math.min(a, b)) ?? began;
  const zero = earliest - 0.001; // rounding gives no time before it
  const collectiveShift = -ahead - zero;
  const shift = performance.timeOrigin + collectiveShift;
  const within = collectives.filter(({ begun }) => begun + collectiveShift >= 0);
  const events = traceOf({ rank, host: Deno.hostname(), spans, collectives: within, shift, collectiveShift });
  const part = (rank: number) => join(logs, `trace-${rank}.part`);
  const text = events.map((event) => JSON.stringify(event)).join(",\n");
  const failed = rank === 0 ? null : attempt(() => Deno.writeTextFileSync(part(rank), text));
  const failures = team?.hear(failed, "profile") ?? [failed];
  if (rank > 0) return;
  const texts = [text];
  for (let other = 1; other < world; other++) {
    const missing = failures[other] ?? attempt(() => {
      texts.push(Deno.readTextFileSync(part(other)));
      Deno.removeSync(part(other));
    });
    if (missing !== null) o.warn(`The trace lacks rank ${other}: ${missing}`);
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
  if (unwritten !== null) return o.warn(`The profile could not be written: ${unwritten}`);
  o.line(title);
  for (const line of opTable(spans, SHOWN)) o.line(line);
  o.line(`Trace: ${path} (open it at https://ui.perfetto.dev, or in chrome://tracing)`);
}

/** Null, or why it failed. */
function attempt(act: () => void): string | null {
  try {
    act();
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

async function gzip(text: string): Promise<Uint8Array> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
