// A step's event as numbers, from one thread to another: there is one each step, and to put a line together between two
// steps, with code that is not in the caches, takes ten times as long as it takes to write down ten numbers. May import
// event types.
import type { StepEvent } from "../event_types.ts";

/** What is written there; `words` are the same memory as the ring has it. */
export interface StepNumbers {
  readonly numbers: Float64Array<ArrayBuffer>;
  readonly words: Int32Array<ArrayBuffer>;
}

const NUMBERS = 11;
/** Of what a step need not have, none is ever that. */
const MISSING = -Infinity;

export function newStepNumbers(): StepNumbers {
  const numbers = new Float64Array(NUMBERS);
  return { numbers, words: new Int32Array(numbers.buffer) };
}

export function putStep({ numbers }: StepNumbers, e: StepEvent, t: number): void {
  numbers[0] = t;
  numbers[1] = e.step;
  numbers[2] = e.epoch;
  numbers[3] = e.loss;
  numbers[4] = e.lr;
  numbers[5] = e.grad_norm ?? MISSING;
  numbers[6] = e.samples_per_s ?? MISSING;
  numbers[7] = e.memory_bytes ?? MISSING;
  numbers[8] = e.loss_scale ?? MISSING;
  numbers[9] = e.skipped_steps ?? MISSING;
  numbers[10] = e.data_s ?? MISSING;
}

/** As the line of it would be read: without what is missing. */
export function takeStep({ numbers: n }: StepNumbers): StepEvent & { t: number } {
  const event: StepEvent & { t: number } = {
    t: n[0],
    kind: "step",
    step: n[1],
    epoch: n[2],
    loss: n[3],
    lr: n[4],
  };
  if (n[5] !== MISSING) event.grad_norm = n[5];
  if (n[6] !== MISSING) event.samples_per_s = n[6];
  if (n[7] !== MISSING) event.memory_bytes = n[7];
  if (n[8] !== MISSING) event.loss_scale = n[8];
  if (n[9] !== MISSING) event.skipped_steps = n[9];
  if (n[10] !== MISSING) event.data_s = n[10];
  return event;
}
