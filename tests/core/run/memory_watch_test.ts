// Memory that nears its limit: what is said while there is time, and what that tells when there is no end.
import { assert, assertEquals } from "@std/assert";
import { lastShortage, openMemoryWatch } from "../../../core/run/system.ts";
import type { Event } from "../../../core/run/events.ts";
import { assertSentence } from "../../sentences.ts";

const GIB = 2 ** 30;

Deno.test("the last twentieth of a limit is told once, then every five minutes, and anew after it was well", () => {
  let at = 0, used = 10 * GIB;
  const watch = openMemoryWatch(() => ({ of: "job", limit: 24 * GIB, used }), () => at);
  const told: [number, boolean][] = [];
  const go = (seconds: number, to: number) => {
    used = to * GIB;
    for (const end = at + seconds; at < end; at += 0.05) {
      const said = watch.due(7);
      if (said) told.push([Math.round(at), said.first]);
    }
  };
  go(10, 10);
  go(10, 22.7);
  assertEquals(told, []);
  go(400, 23.1);
  assertEquals(told, [[20, true], [320, false]]);
  go(10, 20);
  go(10, 23.5);
  assertEquals(told.at(-1)![1], true);
  at += 1000;
  const { event } = watch.due(9)!;
  assertSentence("core/run/memory_watch: memory nearly used", event.message);
  assertEquals([event.about, event.step, event.memory?.used], ["memory", 9, 23.5 * GIB]);
});

Deno.test("limits are looked at every second, and five times as often when little is left", () => {
  const looks = (used: number) => {
    let count = 0, at = 0;
    const watch = openMemoryWatch(() => (count++, { of: "machine", limit: 100, used }), () => at);
    for (; at < 10; at += 0.05) watch.due(1);
    return count;
  };
  assert(looks(50) <= 11 && looks(90) >= 40);
});

Deno.test("a log that ends on short memory says so; one that has an end, or was well again for long, does not", () => {
  const run = { kind: "run", t: 1 } as unknown as Event;
  const short: Event = { kind: "warning", t: 100, about: "memory", message: "m", step: 3 };
  const later = (t: number): Event => ({ kind: "save", t } as unknown as Event);
  const exit = { kind: "exit", t: 101 } as unknown as Event;
  assertEquals(lastShortage([run, short, later(150)]), short);
  for (
    const events of [[], [run, short, exit], [run, short, later(900)], [short, run, later(101)], [
      run,
      later(5),
    ]]
  ) {
    assertEquals(lastShortage(events), null);
  }
});
