import { assertEquals, assertMatch } from "@std/assert";
import { gatherSystem, judgeSystem } from "../../../../core/cluster/doctor/system.ts";

const on = (glibc: string | null) => judgeSystem({ glibc, kernel: "3.10.0", arch: "x86_64" })[0];

Deno.test("glibc 2.28 is the floor: 2.17 of an old cluster is refused with what to do", () => {
  assertEquals(["2.17", "2.27", "2.28", "2.36"].map((v) => on(v).state), ["bad", "bad", "good", "good"]);
  assertMatch(on("2.17").fix!, /container/);
  assertEquals(on(null).state, "bad");
});

Deno.test("this machine's own glibc is read, and is good", () => {
  const facts = gatherSystem();
  assertMatch(facts.glibc!, /^2\.\d+/);
  assertEquals(judgeSystem(facts)[0].state, "good");
});
