import { assertAlmostEquals, assertEquals, assertNotEquals } from "@std/assert";
import { packParameters } from "../../../core/train/arena.ts";
import { createEma } from "../../../core/train/weight_average.ts";
import { fill_, toNumbers } from "../../../ffi/make.ts";
import { randn } from "../../../ffi/ops.ts";
import { open } from "./rig.ts";

open();

const DECAY = 0.9;
function made() {
  const arena = packParameters([["a", randn([3, 5])], ["b", randn([7])]], "cpu");
  return { arena, ema: createEma(arena, DECAY) };
}

Deno.test("after n updates the average is decay^n of the first weights and the rest of the later ones", () => {
  const { arena, ema } = made();
  fill_(arena.flat, 5);
  ema.reset();
  let expected = 5;
  for (const value of [1, 7, -2, 4]) {
    fill_(arena.flat, value);
    ema.update();
    expected = DECAY * expected + (1 - DECAY) * value;
  }
  for (const x of toNumbers(ema.average)) assertAlmostEquals(x, expected, 1e-6);
});

Deno.test("swap puts the averages where the model sees them, and a second swap puts everything back", () => {
  const { arena, ema } = made();
  fill_(arena.flat, 2);
  ema.update();
  const trained = toNumbers(arena.flat), average = toNumbers(ema.average);
  assertNotEquals(trained, average);
  ema.swap();
  assertEquals([toNumbers(arena.flat), toNumbers(ema.average)], [average, trained]);
  assertEquals(toNumbers(arena.parameters[1]), average.slice(16, 23));
  ema.swap();
  assertEquals([toNumbers(arena.flat), toNumbers(ema.average)], [trained, average]);
});
