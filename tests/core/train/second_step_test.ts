import { assertEquals } from "@std/assert";
import { beforeSecondStep, isRoomy } from "../../../core/train/epoch.ts";
import type { Trainer } from "../../../core/train/trainer.ts";

Deno.test("what waits for the first step is done before the second, once", () => {
  const called: number[] = [];
  let step = 0;
  const run = {
    saver: { ready: () => void called.push(step) },
    pass: { onGpu: true },
    localRanks: 1,
  } as unknown as Trainer;
  const before = beforeSecondStep(run);
  for (step = 1; step <= 4; step++) before();
  assertEquals(called, [2]);
});

Deno.test("where the kernel does not say what a step took, freed memory is not kept", () => {
  assertEquals(isRoomy(NaN, 1, Infinity), false);
});

Deno.test("freed memory is kept where all ranks of a machine could take as much again", () => {
  assertEquals([isRoomy(10, 1, 10), isRoomy(10, 1, 9), isRoomy(10, 4, 40), isRoomy(10, 4, 39)], [
    true,
    false,
    true,
    false,
  ]);
});
