// Turns a run's events into rows of history, one a step, for the outputs that keep a table: W&B and CSV.
import { type Event, readEvents, type RunPosition } from "../run/event_log.ts";
import type { EpochPosition } from "../run/output.ts";
import { eachScalar, slowClock } from "./scalars.ts";

export type RowValues = Map<string, string>;

export interface HistoryRow {
  readonly step: number;
  readonly values: RowValues;
}

export interface HistoryRows {
  event(event: Event): void;
  /** Without a row of that step the next row takes the values. */
  add(step: number, t: number, values: RowValues): void;
  flush(): void;
  readonly last: number;
  runtime(t: number): number;
  restart(): void;
}

interface RowsOptions {
  put(row: HistoryRow): void;
  readonly pace: EpochPosition;
  /** The server has rows up to this step. */
  readonly after: number;
  readonly last: number;
  readonly held: HistoryRow | null;
  /** Earlier attempts took these seconds. */
  readonly runtime: number;
  readonly began: number;
}

export function openHistoryRows({ put, pace, after, began, ...given }: RowsOptions): HistoryRows {
  let { held, runtime, last } = given;
  let carried: RowValues = new Map(); // for the next row
  let ahead: { step: number; t: number; values: RowValues }[] = []; // they preceded the rows of earlier steps
  const slow = slowClock();
  let before = began;

  /** Differences are added up, so that a clock that is set back takes nothing away. */
  const pass = (t: number) => {
    if (t > before) runtime += t - before;
    before = t;
  };
  const flush = () => {
    if (held === null) return;
    const row = held;
    held = null;
    last = row.step;
    put(row);
  };
  const rowOf = (step: number, t: number): RowValues => {
    if (held !== null && held.step >= step) return held.values;
    flush();
    held = { step, values: carried };
    carried = new Map();
    held.values.set("_step", String(step))
      .set("_timestamp", shortSeconds(t))
      .set("_runtime", shortSeconds(runtime));
    for (const one of ahead.filter((one) => one.step <= step)) merge(held.values, one.values);
    ahead = ahead.filter((one) => one.step > step);
    return held.values;
  };
  /** Returns null where the server has the row. */
  const rowFor = (step: number, t: number): RowValues | null => {
    if (step <= after) return null;
    pass(t);
    return step <= last && held === null ? carried : rowOf(step, t);
  };
  const done = (step: number) => {
    if (held?.step === step) flush();
  };
  return {
    event(event) {
      if (event.kind === "times") { // the next row takes the times of many steps
        return putScalars(held?.values ?? carried, event);
      }
      if (event.kind !== "step" && event.kind !== "eval" && event.kind !== "epoch") return;
      const row = rowFor(event.step, event.t);
      if (row === null) return;
      switch (event.kind) {
        case "step":
          putScalars(row, event, slow(event.t));
          // An evaluation belongs into the row of the step before it: that of an epoch's last one, or any.
          return pace.within || endsEpoch(event.step, pace) ? undefined : done(event.step);
        case "eval":
          return putScalars(row, event);
        case "epoch":
          putScalars(row, event);
          return done(event.step);
      }
    },
    add(step, t, values) {
      if (held?.step === step) merge(held.values, values);
      else if (step > after) ahead.push({ step, t, values });
    },
    flush() {
      const waiting = ahead.at(-1);
      if (waiting) rowOf(Math.max(waiting.step, last + 1), waiting.t);
      flush();
    },
    get last() {
      return held?.step ?? last;
    },
    runtime(t) {
      pass(t);
      return runtime;
    },
    restart() {
      before = began;
    },
  };
}

function merge(row: RowValues, values: RowValues): void {
  for (const [name, value] of values) row.set(name, value);
}

function endsEpoch(step: number, pace: EpochPosition): boolean {
  const inEpoch = step - pace.step + pace.stepInEpoch;
  return inEpoch % pace.stepsPerEpoch === 0 || step === pace.maxSteps;
}

/** A kill took these rows from an output's file, so they come from the run's events. */
export function fillIn(rows: HistoryRows, { step, epoch }: RunPosition, events: string): void {
  const after = rows.last;
  if (after >= step) return;
  let found;
  try {
    found = readEvents(events);
  } catch {
    return; // the events are gone too
  }
  for (const event of found) {
    if (event.kind !== "step" && event.kind !== "eval" && event.kind !== "epoch") continue;
    if (event.step <= after || event.step > step) continue;
    if (event.kind !== "step" && event.epoch > epoch) continue; // it is repeated
    rows.event(event);
  }
}

/** A run that goes on evaluates its last step first: that step's row is not complete. */
export const waitsForEvaluation = (step: number, pace: EpochPosition): boolean =>
  pace.stepInEpoch > 0 && pace.step === step && endsEpoch(step, pace);

const IN_SECONDS: ReadonlySet<string> = new Set(["val/seconds", "train/epoch_seconds"]);
const IN_SHORT: ReadonlySet<string> = new Set(["epoch", "train/epoch_samples_per_s"]);

function putScalars(row: RowValues, event: Parameters<typeof eachScalar>[0], slow = true): void {
  const exact = event.kind === "eval" || event.kind === "epoch";
  eachScalar(event, (name, value) => {
    const text = IN_SECONDS.has(name) ? shortSeconds : exact && !IN_SHORT.has(name) ? String : shortNumber;
    row.set(name, text(value));
  }, slow);
}

/** Nine digits hold every bit of a 32-bit float in half the bytes of a double. */
const DIGITS = 9;

/** W&B writes NaN and infinities as bare words. */
export function shortNumber(x: number): string {
  const text = String(x);
  if (text.length <= DIGITS + 1 || Number.isInteger(x)) return text;
  const short = String(Number(x.toPrecision(DIGITS)));
  return short.length < text.length ? short : text;
}

const shortSeconds = (seconds: number): string => String(Math.round(seconds * 1000) / 1000);
