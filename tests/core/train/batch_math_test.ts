import { assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { placeInEpoch, planBatches, stepsInAll } from "../../../core/train/batches.ts";
import { loggedSteps } from "../../../core/train/epoch.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

const wanted = { batch_size: 16, global_batch_size: 0, grad_accum: 1 };

Deno.test("the global batch is batch x ranks x accumulation", () => {
  const plan = planBatches({ ...wanted, grad_accum: 3 }, 1000, 2);
  assertEquals([plan.micro, plan.accumulation, plan.global, plan.stepsPerEpoch], [16, 3, 96, 11]);
  assertSentence("core/train/batch_math: batch ranks accumulated", plan.note);
});

Deno.test("accumulation is derived from a global batch, rounded up", () => {
  const plan = planBatches({ ...wanted, global_batch_size: 100 }, 1000, 2);
  assertEquals([plan.accumulation, plan.global, plan.stepsPerEpoch], [4, 100, 10]);
});

Deno.test("a global batch smaller than a rank's batch is taken in one go", () => {
  const plan = planBatches({ ...wanted, global_batch_size: 5 }, 1000, 1);
  assertEquals([plan.accumulation, plan.global, plan.stepsPerEpoch], [1, 5, 200]);
});

Deno.test("a batch larger than the data becomes the whole of it, and the line of the batch says so", () => {
  const planned = (more: Partial<typeof wanted>, samples: number, ranks: number) => {
    const { micro, accumulation, global, stepsPerEpoch, note } = planBatches(
      { ...wanted, ...more },
      samples,
      ranks,
    );
    return [micro, accumulation, global, stepsPerEpoch, / \(that is .*\)$/.exec(note)?.[0]];
  };
  const whole = (asked: number) => sentenceNamed("core/train/batch_math: whole training set", { asked });
  assertEquals(planned({}, 16, 1), [16, 1, 16, 1, undefined]);
  assertEquals(planned({}, 15, 1), [15, 1, 15, 1, whole(16)]);
  assertEquals(planned({}, 15, 4), [4, 1, 15, 1, whole(64)]);
  assertEquals(planned({ grad_accum: 6 }, 32, 1), [16, 2, 32, 1, whole(96)]);
  assertEquals(planned({ global_batch_size: 90 }, 32, 2), [16, 1, 32, 1, whole(90)]);
  assertEquals(planned({ global_batch_size: 40, grad_accum: 9 }, 33, 2), [16, 2, 33, 1, whole(40)]);
  const error = assertThrows(() => planBatches(wanted, 3, 4), UserError, "3 samples for 4 ranks");
  assertEquals(error.kind, "data");
});

Deno.test("a place in an epoch is counted by samples, at its end and after data of another size too", () => {
  const at = (epoch: number, stepInEpoch: number, samples: number, batch_size: number) => {
    const place = placeInEpoch(
      { epoch, stepInEpoch, samples },
      planBatches({ ...wanted, batch_size }, 70, 1),
      70,
    );
    return [place.stepInEpoch, place.samples];
  };
  assertEquals(at(2, 3, 164, 8), [3, 164]);
  assertEquals(at(2, 3, 164, 16), [1, 156]);
  assertEquals(at(2, 3, 164, 6), [4, 164]);
  assertEquals(at(1, 9, 140, 32), [3, 140]);
  assertEquals(at(1, 0, 70, 32), [0, 70]);
  assertEquals(at(1, 5, 20, 8), [5, 20]);
});

Deno.test("the steps of a run end with the epochs, or with --max-steps", () => {
  const plan = { stepsPerEpoch: 30 };
  assertEquals(stepsInAll({ epochs: 4, max_steps: 0 }, plan), 120);
  assertEquals(stepsInAll({ epochs: 4, max_steps: 3 }, plan), 3);
  assertEquals(stepsInAll({ epochs: 4, max_steps: 500 }, plan), 120);
});

Deno.test("one step each interval is written down, the last one too, and of a run that is shorter ten or all", () => {
  const logged = (max_steps: number, log_interval: number) => {
    const is = loggedSteps({ epochs: 1000, max_steps, log_interval }, { stepsPerEpoch: 50 });
    return Array.from({ length: max_steps }, (_, i) => i + 1).filter(is);
  };
  assertEquals(logged(350, 100), [100, 200, 300, 350]);
  assertEquals(logged(100, 100), [100]);
  assertEquals(logged(3, 100), [1, 2, 3]);
  assertEquals(logged(25, 100), [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 25]);
  assertEquals(logged(99, 100).length, 11);
});
