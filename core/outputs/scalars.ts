// The numbers of an event under the names that every output has them: "train/loss", "val/r2/omega_m".
import {
  type EpochEvent,
  type EvalEvent,
  type Event,
  EVENT_FIELDS,
  type EventField,
  type StepEvent,
  type SystemEvent,
  type TimesEvent,
} from "../run/events.ts";

export type PutScalar = (name: string, value: number) => void;

/** Steps have `slow` fields this often. */
const SLOW_S = 1;
const STEP_FIELDS = Object.entries<EventField>(EVENT_FIELDS.step).map(([field, { wandb, slow = false }]) => ({
  field: field as keyof typeof EVENT_FIELDS.step,
  name: wandb ?? field,
  slow,
}));
const TIMES_FIELDS = Object.entries<EventField>(EVENT_FIELDS.times).map(([field, { unit, wandb }]) => ({
  field: field as keyof typeof EVENT_FIELDS.times,
  name: wandb ?? field,
  perStep: unit === "seconds",
}));

/** True where a step's `slow` fields are due. */
export function slowClock(): (t: number) => boolean {
  let last = -Infinity;
  return (t) => {
    const due = t - last >= SLOW_S || t < last;
    if (due) last = t;
    return due;
  };
}

/** Times come in milliseconds a step. */
export function eachScalar(
  event: StepEvent | TimesEvent | EvalEvent | EpochEvent,
  put: PutScalar,
  slow = true,
): void {
  switch (event.kind) {
    case "step":
      put("epoch", event.epoch);
      for (const [name, value] of Object.entries(event.losses ?? {})) put(`train/loss/${name}`, value);
      for (const { field, name, slow: isSlow } of STEP_FIELDS) {
        const value = event[field];
        if (typeof value === "number" && (slow || !isSlow)) put(name, value);
      }
      return;
    case "times":
      if (!(event.steps > 0)) return;
      for (const { field, name, perStep } of TIMES_FIELDS) {
        const value = event[field];
        if (typeof value === "number") put(name, perStep ? 1000 * value / event.steps : value);
      }
      return;
    case "eval":
      put("epoch", event.epoch);
      put("val/loss", event.val_loss);
      for (const [name, value] of Object.entries(event.metrics)) put(`val/${name}`, value);
      return put("val/seconds", event.seconds);
    case "epoch":
      put("epoch", event.epoch);
      put("train/epoch_loss", event.loss);
      for (const [name, value] of Object.entries(event.metrics)) put(`train/${name}`, value);
      put("train/epoch_seconds", event.seconds);
      if (event.samples_per_s !== undefined) put("train/epoch_samples_per_s", event.samples_per_s);
  }
}

export const hasScalars = (event: Event): event is Event & { kind: "step" | "times" | "eval" | "epoch" } =>
  event.kind === "step" || event.kind === "times" || event.kind === "eval" || event.kind === "epoch";

const NOT_MEASURED = ["t", "step", "rank"];

/** GPUs have their rank's number; other values of ranks beyond 0 have the rank before their name. */
export function eachSystemScalar(event: SystemEvent, put: PutScalar): void {
  const { rank = 0 } = event;
  const prefix = rank > 0 ? `rank.${rank}.` : "";
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
}
