import { assertEquals, assertMatch } from "@std/assert";
import {
  gatherLimits,
  judgeLimits,
  limitIn,
  type LimitsFacts,
} from "../../../../core/cluster/doctor/system.ts";
import { assertSentence } from "../../../sentences.ts";

const FACTS: LimitsFacts = {
  files: 65536,
  memlock: "unlimited",
  processes: "unlimited",
  fileSize: "unlimited",
  shm: { total: 2 ** 36, free: 2 ** 36 },
  adapters: [],
  localWorld: 4,
};
const judged = (more: Partial<LimitsFacts>) => judgeLimits({ ...FACTS, ...more })[0];

Deno.test("ample limits are one good line", () => {
  assertSentence("core/cluster/doctor/limits: open files unlimited", judged({}).said);
});

Deno.test("locked memory matters where there is InfiniBand", () => {
  const memlock = 64 * 2 ** 10;
  assertEquals(judged({ memlock }).state, "good");
  const line = judged({ memlock, adapters: ["mlx5_0"] });
  assertEquals(line.state, "warn");
  assertMatch(line.fix!, /ulimit -l unlimited/);
});

Deno.test("a container's /dev/shm of 64 MiB is a warning for several ranks", () => {
  const shm = { total: 2 ** 26, free: 2 ** 26 };
  assertEquals([1, 4].map((localWorld) => judged({ shm, localWorld }).state), ["good", "warn"]);
  assertMatch(judged({ shm }).fix!, /--shm-size/);
  assertMatch(judged({ shm: null }).said, /there is no \/dev\/shm/);
});

Deno.test("few files, few processes and small files are each told", () => {
  const lines = judgeLimits({ ...FACTS, files: 256, processes: 100, fileSize: 2 ** 20 });
  assertEquals(lines.map(({ state }) => state), ["warn", "warn", "warn"]);
});

Deno.test("limits are read as Linux writes them", () => {
  const table = "Limit                     Soft Limit           Hard Limit           Units\n" +
    "Max open files            1024                 524288               files\n" +
    "Max locked memory         unlimited            unlimited            bytes\n";
  assertEquals(["Max open files", "Max locked memory", "Max nothing"].map((name) => limitIn(table, name)), [
    1024,
    "unlimited",
    null,
  ]);
  assertEquals(typeof gatherLimits(1).files, "number");
});
