import { assertEquals, assertMatch } from "@std/assert";
import { judgeMemory } from "../../../../core/cluster/doctor/memory.ts";

const GIB = 2 ** 30;

Deno.test("memory is judged by what the job may take, and the limit is named", () => {
  const judged = (free: number, machineFree = 200 * GIB) =>
    judgeMemory({ total: 256 * GIB, free, machineFree })[0];
  assertEquals([200, 2, 1, 0.4].map((free) => judged(free * GIB).state), ["good", "good", "warn", "bad"]);
  assertMatch(judged(GIB).said, /control group/);
  assertMatch(judged(GIB).fix!, /--mem/);
  assertMatch(judged(GIB, GIB).fix!, /another node/);
});
