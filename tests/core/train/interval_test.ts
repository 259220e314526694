import { assert, assertEquals } from "@std/assert";
import { every } from "../../../core/train/pauses.ts";

const due = (text: string, stepsPerEpoch: number, steps: number, ahead = 0) => {
  const is = every(text, { stepsPerEpoch });
  const at = (done: number) => {
    const epoch = Math.floor((done - 1) / stepsPerEpoch);
    return is({ step: ahead + done, epoch, stepInEpoch: done - epoch * stepsPerEpoch });
  };
  return Array.from({ length: steps }, (_, i) => i + 1).filter(at);
};

Deno.test("an interval of steps falls on its multiples", () => {
  assertEquals(due("4steps", 10, 12), [4, 8, 12]);
  assertEquals(due("4", 10, 12), [4, 8, 12]);
});

Deno.test("an interval of epochs is counted in steps, and parts of an epoch too", () => {
  assertEquals(due("1ep", 5, 12), [5, 10]);
  assertEquals(due("0.5ep", 10, 12), [5, 10]);
  assertEquals(due("0.001ep", 10, 3), [1, 2, 3]);
});

Deno.test("an interval of epochs falls on their ends, though epochs before had other numbers of steps", () => {
  assertEquals(due("2ep", 5, 12, 3), [10]);
});

Deno.test("an interval of zero never comes", () => {
  assertEquals(due("0", 10, 100), []);
});

Deno.test("an interval of time comes when it has passed, and again only after as long", async () => {
  // Told with the clock beside it: whoever is kept waiting by a busy machine may ask late.
  const before = performance.now();
  const is = every("0.05s", { stepsPerEpoch: 10 });
  const begun = performance.now();
  const came: [at: number, now: number][] = [];
  while (came.length < 3) {
    const asked = performance.now(),
      answer = is({ step: 1, epoch: 0, stepInEpoch: 1 }),
      now = performance.now();
    const last = came.at(-1) ?? [before, begun];
    if (answer) came.push([asked, now]);
    if (answer) assert(now - last[0] >= 50, `again after ${now - last[0]} ms`);
    else assert(asked - last[1] < 50, `still not after ${asked - last[1]} ms`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
});
