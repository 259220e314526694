// The parts of a step as a run recorded them, for predictions. Times are in seconds.
import { join } from "../../deps/path.ts";
import { UserError } from "../base/errors.ts";
import { type Event, readEvents, type TimesEvent } from "../run/event_log.ts";

export interface RecordedStep {
  readonly run: string;
  readonly ranks: number;
  readonly parameters: number;
  /** One rank has so many in a step. */
  readonly samples: number;
  /** A step of one rank that waits for no other. */
  readonly alone: number;
  /** Forward and backward. */
  readonly compute: number;
  /** Waiting for data and bringing it to the device. */
  readonly data: number;
  /** The optimizer and everything between steps. */
  readonly between: number;
  /** The standard deviation of a rank's own work from step to step. */
  readonly deviation: number;
  readonly gradientBytes: number;
  /** Bytes of the gradients of each block, from the first one on; one for all where the run is of an older version. */
  readonly blocks: readonly number[];
  /** Null where the run has saved nothing. */
  readonly save: { readonly stall: number; readonly seconds: number; readonly bytes: number } | null;
}

const FLOAT = 4;

/** After a resume the last attempt counts. */
export function recordedStepOf(folder: string): RecordedStep {
  const all = readEvents(join(folder, "events.jsonl"));
  const begin = all.findLastIndex(({ kind }) => kind === "run");
  const events = all.slice(begin), run = events[0];
  const whole = events.filter((event): event is TimesEvent & { t: number } =>
    event.kind === "times" && event.steps > 0 && (event.samples_per_s ?? 0) > 0
  );
  // The last one counts a step that the one before has done.
  const times = whole.length > 1 ? whole.slice(0, -1) : whole;
  const steps = times.reduce((sum, event) => sum + event.steps, 0);
  if (begin < 0 || run.kind !== "run" || steps === 0) {
    throw new UserError(
      "data",
      `${folder} does not say what its steps took: a prediction needs a run of some seconds of steps.`,
    );
  }
  const mean = (of: (event: TimesEvent) => number) =>
    times.reduce((sum, event) => sum + of(event), 0) / steps;
  const compute = mean(({ compute_s }) => compute_s), data = mean(({ data_s, copy_s }) => data_s + copy_s);
  const between = mean(({ optimizer_s, rest_s }) => optimizer_s + rest_s);
  // The rate counts the time beside evaluations and saves.
  const samples =
    mean((event) => event.samples_per_s! * (event.seconds - event.evaluation_s - event.save_s)) /
    run.world_size;
  return {
    run: run.run,
    ranks: run.world_size,
    parameters: run.parameters,
    samples: Math.round(samples),
    alone: compute + data + between,
    compute,
    data,
    between,
    deviation: deviationOf(events, times),
    gradientBytes: FLOAT * run.parameters,
    blocks: (run.block_parameters ?? [run.parameters]).map((count) => FLOAT * count),
    save: saveOf(events),
  };
}

/** From the times of single steps where the run has them, and otherwise from the means of a second. */
function deviationOf(events: readonly Event[], times: readonly TimesEvent[]): number {
  const ends = events.flatMap((event) => event.kind === "step" ? [{ step: event.step, t: event.t }] : []);
  const single = ends.slice(1).flatMap(({ step, t }, i) => step === ends[i].step + 1 ? [t - ends[i].t] : []);
  if (single.length >= LEAST) return spreadOf(single.slice(single.length >> 2));
  const steps = times.reduce((sum, event) => sum + event.steps, 0) / times.length;
  const means = times.map((event) => (event.compute_s + event.optimizer_s) / event.steps);
  return means.length >= LEAST ? spreadOf(means) * Math.sqrt(steps) : 0;
}

const LEAST = 8;
/** The quartiles of a normal distribution are so many standard deviations apart. */
const QUARTILES = 1.349;

/** A save or an evaluation between two steps leaves the quartiles alone. */
function spreadOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b),
    at = (share: number) => sorted[Math.floor(share * sorted.length)];
  return (at(0.75) - at(0.25)) / QUARTILES;
}

function saveOf(events: readonly Event[]): RecordedStep["save"] {
  const saves = events.flatMap((event) => event.kind === "save" ? [event] : []);
  if (saves.length === 0) return null;
  const mean = (of: "stall_s" | "seconds" | "bytes") =>
    saves.reduce((sum, save) => sum + save[of], 0) / saves.length;
  return { stall: mean("stall_s"), seconds: mean("seconds"), bytes: mean("bytes") };
}
