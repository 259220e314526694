import { assertEquals } from "@std/assert";
import { decodeEvent, encodeEvent, type StepEvent } from "../../../../core/run/events.ts";
import { newStepNumbers, putStep, takeStepEvent } from "../../../../core/run/writer/ring.ts";

const least: StepEvent = { kind: "step", step: 7, epoch: 2, loss: 0.125, lr: 1e-3 };
const all: StepEvent = {
  ...least,
  ...{ grad_norm: 3.5, samples_per_s: 64123.4, memory_bytes: 2 ** 40 + 1 },
  ...{ loss_scale: 65536, skipped_steps: 0, data_s: 0.000125 },
};

/** Through the numbers, and through a line as it is in the file. */
function both(event: StepEvent): StepEvent[] {
  const numbers = newStepNumbers();
  putStep(numbers, event, 1795336868.977);
  return [takeStepEvent(numbers), decodeEvent(encodeEvent(event, 1795336868.977)) as StepEvent];
}

Deno.test("a step's event comes out of its numbers as out of its line, with all it may have and with least", () => {
  for (const event of [all, least]) {
    const [numbers, line] = both(event);
    assertEquals(numbers, { t: 1795336868.977, ...event } as StepEvent);
    assertEquals(numbers, line);
  }
});

Deno.test("what is no number stays what it was", () => {
  for (const value of [NaN, Infinity, -Infinity]) {
    assertEquals(both({ ...least, loss: value })[0].loss, value);
  }
  for (const value of [NaN, Infinity]) assertEquals(both({ ...least, grad_norm: value })[0].grad_norm, value);
});

Deno.test("what a step has is not what the one before had", () => {
  const numbers = newStepNumbers();
  putStep(numbers, all, 1);
  putStep(numbers, least, 2);
  assertEquals(takeStepEvent(numbers), { ...least, t: 2 });
});
