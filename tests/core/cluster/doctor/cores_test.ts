import { assertEquals, assertMatch } from "@std/assert";
import { type CoresFacts, gatherCores, judgeCores } from "../../../../core/cluster/doctor/system.ts";
import { assertSentence } from "../../../sentences.ts";

const FACTS: CoresFacts = {
  usable: 8,
  cpuset: "0-7",
  online: 64,
  sharing: 1,
  workers: 8,
  mentioned: false,
  spin: { cores: "cpuset", turns: 30_000 },
};
const judged = (more: Partial<CoresFacts>) => judgeCores({ ...FACTS, ...more })[0];

Deno.test("one core with 8 workers asked is one line that says both, and what to ask for", () => {
  const line = judged({ usable: 1, cpuset: "3", mentioned: true });
  assertEquals(line.state, "warn");
  assertSentence("core/cluster/doctor/cores: core cpuset may", line.said);
  assertMatch(line.fix!, /--cpus-per-task.*ncpus.*--bind-to none.*--num-workers 1/);
});

Deno.test("one core of many is a warning whoever asked; one core of one is what there is", () => {
  assertEquals(judged({ usable: 1 }).state, "warn");
  assertEquals(judged({ usable: 1, online: 1 }).state, "good");
});

Deno.test("more ranks than cores are a warning, as many are not", () => {
  assertEquals([8, 9].map((sharing) => judged({ sharing }).state), ["good", "warn"]);
});

Deno.test("a default that is cut to the cores is no warning", () => {
  assertEquals(judged({ usable: 4 }).state, "good");
});

Deno.test("this machine's cores are counted", () => {
  const { usable, online } = gatherCores(8, false, 1);
  assertEquals(usable >= 1 && online >= usable, true);
});

Deno.test("a good line says how threads wait, and for whom", () => {
  assertSentence("core/cluster/doctor/cores: cores cpuset threads", judged({}).said);
  assertMatch(
    judged({ spin: { cores: "busy", turns: 1000 } }).said,
    /spin briefly .* others compute on these cores too$/,
  );
});
