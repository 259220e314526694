import { assertEquals, assertMatch } from "@std/assert";
import { judgeClock } from "../../../../core/cluster/doctor/system.ts";

const NOW = 1_800_000_000;

Deno.test("a file server's clock is told when it is more than two seconds off", () => {
  const ahead = (ahead: number) => judgeClock({ now: NOW, servers: [{ folder: "/nfs", ahead }] })[0];
  assertEquals([0, 1.9, -1.9, 5, -5].map((s) => ahead(s).state), ["good", "good", "good", "warn", "warn"]);
  assertMatch(ahead(-5).said, /\/nfs get times that are 5 s behind/);
});

Deno.test("judgeClock names the year of a clock that is years behind", () => {
  assertMatch(judgeClock({ now: 1000, servers: [] })[0].said, /1970/);
});
