// Turns a run's events into W&B's rows of history, summary and system metrics.
import {
  type EpochEvent,
  type EvalEvent,
  type Event,
  EVENT_FIELDS,
  type EventField,
  type RanksEvent,
  type StepEvent,
  type SystemEvent,
  type TimesEvent,
} from "../../run/events.ts";
import type { EpochPosition } from "../../run/output.ts";
import type { Item } from "./records.ts";
import { TIME_PARTS } from "../../run/account.ts";

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

/** Rows have `slow` fields this often. */
const SLOW_S = 1;
const STEP_FIELDS = Object.entries<EventField>(EVENT_FIELDS.step).map(([field, { wandb, slow = false }]) => ({
  field: field as keyof typeof EVENT_FIELDS.step,
  name: wandb ?? field,
  slow,
}));

export function openHistoryRows({ put, pace, after, began, ...given }: RowsOptions): HistoryRows {
  let { held, runtime, last } = given;
  let carried: RowValues = new Map(); // for the next row
  let ahead: { step: number; t: number; values: RowValues }[] = []; // they preceded the rows of earlier steps
  let slowAt = -Infinity;
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
        return putTimes(held?.values ?? carried, event);
      }
      if (event.kind !== "step" && event.kind !== "eval" && event.kind !== "epoch") return;
      const row = rowFor(event.step, event.t);
      if (row === null) return;
      switch (event.kind) {
        case "step": {
          const slow = event.t - slowAt >= SLOW_S || event.t < slowAt;
          if (slow) slowAt = event.t;
          putStep(row, event, slow);
          // The evaluation after an epoch's last step belongs into that step's row.
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

export function endsEpoch(step: number, pace: EpochPosition): boolean {
  const inEpoch = step - pace.step + pace.stepInEpoch;
  return inEpoch % pace.stepsPerEpoch === 0 || step === pace.maxSteps;
}

function putStep(row: RowValues, event: StepEvent, slow: boolean): void {
  row.set("epoch", String(event.epoch));
  for (const { field, name, slow: isSlow } of STEP_FIELDS) {
    const value = event[field];
    if (typeof value === "number" && (slow || !isSlow)) row.set(name, shortNumber(value));
  }
}

function putTimes(row: RowValues, event: TimesEvent): void {
  if (!(event.steps > 0)) return;
  for (const [field, { unit, wandb }] of Object.entries<EventField>(EVENT_FIELDS.times)) {
    const value = event[field as keyof typeof EVENT_FIELDS.times];
    if (typeof value !== "number") continue;
    row.set(wandb ?? field, shortNumber(unit === "seconds" ? 1000 * value / event.steps : value));
  }
}

function putEvaluation(row: RowValues, event: EvalEvent): void {
  row.set("epoch", String(event.epoch)).set("val/loss", String(event.val_loss));
  for (const [name, value] of Object.entries(event.metrics)) row.set(`val/${name}`, String(value));
  row.set("val/seconds", shortSeconds(event.seconds));
}

function putEpoch(row: RowValues, event: EpochEvent): void {
  row.set("epoch", String(event.epoch)).set("train/epoch_loss", String(event.loss));
  for (const [name, value] of Object.entries(event.metrics)) row.set(`train/${name}`, String(value));
  row.set("train/epoch_seconds", shortSeconds(event.seconds));
  if (event.samples_per_s !== undefined) {
    row.set("train/epoch_samples_per_s", shortNumber(event.samples_per_s));
  }
}

/** Nine digits hold every bit of a 32-bit float in half the bytes of a double. */
const DIGITS = 9;

/** W&B writes NaN and infinities as bare words. */
function shortNumber(x: number): string {
  const text = String(x);
  if (text.length <= DIGITS + 1 || Number.isInteger(x)) return text;
  const short = String(Number(x.toPrecision(DIGITS)));
  return short.length < text.length ? short : text;
}

const shortSeconds = (seconds: number): string => String(Math.round(seconds * 1000) / 1000);

export interface WandbSummary {
  seen(row: HistoryRow): void;
  set(name: string, json: string): void;
  changed(all?: boolean): Item[];
}

export function openWandbSummary(): WandbSummary {
  const values: RowValues = new Map();
  let touched = new Set<string>();
  let best = Infinity;
  const set = (name: string, json: string) => {
    if (values.get(name) === json) return;
    values.set(name, json);
    touched.add(name);
  };
  return {
    set,
    seen({ step, values: row }) {
      for (const [name, json] of row) if (!json.startsWith('{"_type":"histogram"')) set(name, json);
      const loss = Number(row.get("val/loss") ?? NaN);
      if (!Number.isFinite(loss) || loss >= best) return;
      best = loss;
      set("best/step", String(step));
      set("best/epoch", row.get("epoch") ?? "null");
      for (const [name, json] of row) {
        if (name.startsWith("val/") && name !== "val/seconds") set(`best/${name.slice(4)}`, json);
      }
    },
    changed(all = false) {
      const names = all ? [...values.keys()] : [...touched];
      touched = new Set();
      return names.map((name) => ({ key: [name], json: values.get(name) ?? "null" }));
    },
  };
}

const NOT_MEASURED = ["t", "step", "rank"];

/** GPUs have their rank's number; other values of ranks beyond 0 have the rank before their name. */
export function systemItems(event: SystemEvent): Item[] {
  const { rank = 0 } = event;
  const prefix = rank > 0 ? `rank.${rank}.` : "";
  const items: Item[] = [];
  const put = (name: string, value: number) => items.push({ key: [name], json: shortNumber(value) });
  for (const [field, value] of Object.entries(event)) {
    if (typeof value !== "number" || NOT_MEASURED.includes(field)) continue;
    const { wandb: name = field, per = 1 } = (EVENT_FIELDS.system as Record<string, EventField>)[field] ?? {};
    if (name === null) continue;
    put(name.includes("#") ? name.replace("#", String(rank)) : prefix + name, value / per);
  }
  const share = (part?: number, whole?: number) =>
    part === undefined || !whole ? undefined : 100 * part / whole;
  const memory = share(event.host_memory_bytes, event.host_memory_total_bytes);
  const gpu = share(event.gpu_memory_bytes, event.gpu_memory_total_bytes);
  if (memory !== undefined) put(`${prefix}memory_percent`, memory);
  if (gpu !== undefined) put(`gpu.${rank}.memoryAllocated`, gpu);
  return items;
}

export function rankItems(event: RanksEvent): Item[] {
  return TIME_PARTS.flatMap((part) =>
    (event[`${part}_s`] ?? []).map((s, rank) => ({
      key: [`rank.${rank}.${part}_ms`],
      json: shortNumber(1000 * s / event.steps),
    }))
  );
}
