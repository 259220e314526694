import { assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { loggedSteps, placeInEpoch, planBatches, stepsInAll } from "../../../core/train/batches.ts";

const wanted = { batch_size: 16, global_batch_size: 0, grad_accum: 1 };

Deno.test("the global batch is batch x ranks x accumulation", () => {
  const plan = planBatches({ ...wanted, grad_accum: 3 }, 1000, 2);
  assertEquals([plan.micro, plan.accumulation, plan.global, plan.stepsPerEpoch], [16, 3, 96, 11]);
  assertEquals(plan.note, "Batch: 16 x 2 ranks x 3 accumulated = 96 samples a step, 11 steps an epoch");
});

Deno.test("accumulation is derived from a global batch, rounded up", () => {
  const plan = planBatches({ ...wanted, global_batch_size: 100 }, 1000, 2);
  assertEquals([plan.accumulation, plan.global, plan.stepsPerEpoch], [4, 100, 10]);
});

Deno.test("a global batch smaller than a rank's batch is taken in one go", () => {
  const plan = planBatches({ ...wanted, global_batch_size: 5 }, 1000, 1);
  assertEquals([plan.accumulation, plan.global, plan.stepsPerEpoch], [1, 5, 200]);
});

Deno.test("a batch as large as the data is one step an epoch, and one sample more is refused", () => {
  assertEquals(planBatches(wanted, 16, 1).stepsPerEpoch, 1);
  const error = assertThrows(() => planBatches(wanted, 15, 1), UserError, "--batch-size 15 or less");
  assertEquals(error.kind, "data");
});

Deno.test("what is advised instead of a batch larger than the data is accepted", () => {
  for (
    const over of [{ global_batch_size: 90 }, { grad_accum: 6 }, { global_batch_size: 40, grad_accum: 9 }]
  ) {
    const asked = { ...wanted, ...over };
    const error = assertThrows(() => planBatches(asked, 32, 2), UserError);
    const flags = [...error.message.matchAll(/--(batch-size|global-batch-size|grad-accum) (\d+)/g)];
    const advised = Object.fromEntries(flags.map(([, name, n]) => [name.replaceAll("-", "_"), Number(n)]));
    planBatches({ ...asked, ...advised }, 32, 2);
  }
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
