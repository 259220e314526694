import { assertEquals, assertMatch } from "@std/assert";
import { judgeMemory } from "../../../../core/cluster/doctor/system.ts";
import type { Limit } from "../../../../core/base/memory.ts";
import { assertSentence } from "../../../sentences.ts";

const GIB = 2 ** 30;

Deno.test("memory is judged by what the process may take, and the limit is named", () => {
  const judged = (free: number, by: Limit["of"] = "job", limit = 2 * free) =>
    judgeMemory({ total: 256 * GIB, free, by, limit })[0];
  assertEquals([200, 2, 1, 0.4].map((free) => judged(free * GIB).state), ["good", "good", "warn", "bad"]);
  assertSentence("core/cluster/doctor/memory: gib free limit", judged(GIB).said);
  assertMatch(judged(GIB).fix!, /--mem/);
  assertMatch(judged(GIB, "machine").fix!, /another node/);
  assertMatch(judged(GIB, "address space").fix!, /ulimit -v/);
});
