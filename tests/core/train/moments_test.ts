// The named moments of a run, and who watches them.
import { assertEquals, assertStrictEquals } from "@std/assert";
import { momentsFor, unwatched } from "../../../core/train/moments.ts";
import { accounting, phases } from "../../../core/train/epoch.ts";
import { COMPUTE, COPY, OPTIMIZER, REST, SAVE } from "../../../core/run/account.ts";

Deno.test("a moment's observers come in their order, and the first promise among them is what is waited for", () => {
  const did: string[] = [], first = Promise.resolve();
  const at = momentsFor([
    { waiting: (step) => void did.push(`a ${step}`), saved: () => void did.push("saved") },
    null,
    { waiting: (step) => (did.push(`b ${step}`), first) },
    { waiting: () => (did.push("c"), null) },
    { waiting: () => (did.push("d"), Promise.resolve()) },
  ]);
  assertStrictEquals(at.waiting(3), first);
  at.saved();
  assertEquals(did, ["a 3", "b 3", "c", "d", "saved"]);
});

Deno.test("a moment that nobody watches is the empty function, and one that somebody watches alone is his", () => {
  const fed = () => {};
  const at = momentsFor([{ fed }]);
  assertStrictEquals(at.fed, fed);
  assertStrictEquals(at.stepped, unwatched.stepped);
});

Deno.test("a step's time is compute until its gradient is whole, then the optimizer's and the save's in turn", () => {
  const laps: number[] = [], words: string[] = [];
  const at = momentsFor([
    phases({ phase: (name) => void words.push(name), step: (n) => void words.push(`step ${n}`) }),
    accounting({ lap: (part) => void laps.push(part) }, false),
  ]);
  at.waiting(0);
  at.stepping(0, false);
  at.fed(1);
  for (const moment of [at.reduced, at.clipped, at.held, at.updated]) moment();
  at.stepped(1);
  at.arrived(); // a CPU has waited for nothing
  at.told();
  at.ahead();
  assertEquals(laps, [REST, COPY, COMPUTE, OPTIMIZER, SAVE, OPTIMIZER, REST, COPY]);
  assertEquals(words, ["data.next", "forward", "step 1"]);
});
