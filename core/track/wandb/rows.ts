// A run's events as rows of history: one for a step, in rising order, never split. May import event types, numbers.ts.
import type { EpochEvent, EvalEvent, Event, StepEvent, TimesEvent } from "../event_types.ts";
import { shortNumber, shortSeconds } from "./numbers.ts";
import type { Pace } from "./types.ts";

/** Values by their names, as JSON text. */
export type Values = Map<string, string>;

export interface Row {
  readonly step: number;
  readonly values: Values;
}

export interface Rows {
  /** A step, an evaluation, the end of an epoch; others are passed over. */
  event(event: Event): void;
  /** Values of a step from elsewhere: they are in its row, or in the next one where it has none. */
  add(step: number, t: number, values: Values): void;
  /** Writes what is held back. */
  flush(): void;
  /** The step of the last row. */
  readonly last: number;
  /** Seconds that the run has taken. */
  runtime(t: number): number;
  /** Counts time from when the run went on: what was told until now is of before. */
  restart(): void;
}

export interface RowsOptions {
  /** Takes a row that is complete. */
  put(row: Row): void;
  readonly pace: Pace;
  /** Nothing is written of steps up to this one: they are where they belong. */
  readonly after: number;
  /** The step of the last row in the file. */
  readonly last: number;
  /** A row that is not complete: an evaluation of its step is to come. */
  readonly held: Row | null;
  /** Seconds that the run has taken so far, and when it went on. */
  readonly runtime: number;
  readonly began: number;
}

/** What changes slowly, or is noise from step to step, is in a row of a step this often. */
const SLOW_S = 1;
/** Numbers of a step: whether they are in every row. */
const IN_EVERY_ROW: Readonly<Record<Exclude<keyof StepEvent, "kind" | "step" | "epoch">, boolean>> = {
  loss: true,
  lr: true,
  grad_norm: true,
  samples_per_s: false,
  memory_bytes: false,
  loss_scale: false,
  skipped_steps: false,
  data_s: false,
};
/** Names are put together once, not in each step. */
const STEP_FIELDS = Object.entries(IN_EVERY_ROW).map(([field, quick]) => ({
  field: field as keyof typeof IN_EVERY_ROW,
  name: `train/${field}`,
  quick,
}));
const NOT_MEASURED = ["t", "kind", "step", "epoch"];

export function openRows({ put, pace, after, began, ...given }: RowsOptions): Rows {
  let { held, runtime, last } = given;
  let late: Values = new Map(); // of a step whose row is written
  let early: { step: number; t: number; values: Values }[] = []; // told before what comes before them
  let slowAt = -Infinity;
  let before = began; // when the last event was

  /** Counts time as it passes, so that a clock that is set back takes nothing away. */
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
  const rowOf = (step: number, t: number): Values => {
    if (held !== null && held.step >= step) return held.values;
    flush();
    held = { step, values: late };
    late = new Map();
    held.values.set("_step", String(step))
      .set("_timestamp", shortSeconds(t))
      .set("_runtime", shortSeconds(runtime));
    for (const one of early.filter((one) => one.step <= step)) merge(held.values, one.values);
    early = early.filter((one) => one.step > step);
    return held.values;
  };
  /** The row that values of a step belong into; null where the server has it. */
  const rowFor = (step: number, t: number): Values | null => {
    if (step <= after) return null;
    pass(t);
    return step <= last && held === null ? late : rowOf(step, t);
  };
  const done = (step: number) => {
    if (held?.step === step) flush();
  };
  return {
    event(event) {
      if (event.kind === "times") { // of many steps: whichever row comes next tells it
        return putTimes(held?.values ?? late, event);
      }
      if (event.kind !== "step" && event.kind !== "eval" && event.kind !== "epoch") return;
      const row = rowFor(event.step, event.t);
      if (row === null) return;
      switch (event.kind) {
        case "step": {
          const slow = event.t - slowAt >= SLOW_S || event.t < slowAt;
          if (slow) slowAt = event.t;
          putStep(row, event, slow);
          // An evaluation follows the last step of an epoch, and belongs into its row.
          return endsEpoch(event.step, pace) ? undefined : done(event.step);
        }
        case "eval":
          return putEvaluation(row, event);
        case "epoch":
          putEpoch(row, event);
          return done(event.step);
      }
    },
    add(step, t, values) {
      if (held?.step === step) merge(held.values, values);
      else if (step > after) early.push({ step, t, values });
    },
    flush() {
      const waiting = early.at(-1);
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

function merge(row: Values, values: Values): void {
  for (const [name, value] of values) row.set(name, value);
}

export function endsEpoch(step: number, pace: Pace): boolean {
  const inEpoch = step - pace.step + pace.stepInEpoch;
  return inEpoch % pace.stepsPerEpoch === 0 || step === pace.maxSteps;
}

function putStep(row: Values, event: StepEvent, slow: boolean): void {
  row.set("epoch", String(event.epoch));
  for (const { field, name, quick } of STEP_FIELDS) {
    const value = event[field];
    if (typeof value === "number" && (quick || slow)) row.set(name, shortNumber(value));
  }
}

/** What a step takes, in milliseconds, and by which parts. */
function putTimes(row: Values, event: TimesEvent): void {
  if (!(event.steps > 0)) return; // before the first step, or after the last
  for (const [name, value] of Object.entries(event)) {
    if (typeof value !== "number" || NOT_MEASURED.includes(name) || name === "steps" || name === "seconds") {
      continue;
    }
    const part = /^(.*(?<!per))_s$/.exec(name)?.[1];
    if (part === undefined) row.set(`time/${name}`, shortNumber(value));
    else row.set(`time/${part}_ms`, shortNumber(1000 * value / event.steps));
  }
}

function putEvaluation(row: Values, event: EvalEvent): void {
  row.set("epoch", String(event.epoch)).set("val/loss", String(event.val_loss));
  for (const [name, value] of Object.entries(event.metrics)) row.set(`val/${name}`, String(value));
  row.set("val/seconds", shortSeconds(event.seconds));
}

function putEpoch(row: Values, event: EpochEvent): void {
  row.set("epoch", String(event.epoch)).set("train/epoch_loss", String(event.loss));
  for (const [name, value] of Object.entries(event.metrics)) row.set(`train/${name}`, String(value));
  row.set("train/epoch_seconds", shortSeconds(event.seconds));
  if (event.samples_per_s !== undefined) {
    row.set("train/epoch_samples_per_s", shortNumber(event.samples_per_s));
  }
}
