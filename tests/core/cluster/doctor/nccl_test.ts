import { assertEquals, assertMatch } from "@std/assert";
import { judgeNccl } from "../../../../core/cluster/doctor/libraries.ts";

const found = (version: string | null, more: Record<string, unknown> = {}) =>
  judgeNccl({
    kind: "cuda",
    found: { path: "/x/libnccl.so.2", from: "beside libtorch", version, against: null, why: "", ...more },
  });

Deno.test("doctor has no line about NCCL where nothing was looked for", () =>
  assertEquals(judgeNccl({ kind: "cuda", found: null }), []));

Deno.test("versions with a known fault are warned of, and those beside them are not", () => {
  const states = ["2.17.1", "2.18.1", "2.18.3", "2.28.9", "2.29.2", "2.29.3"].map((v) => found(v)[0].state);
  assertEquals(states, ["good", "warn", "good", "good", "warn", "good"]);
  const restarts = ["2.27.7", "2.28.3", "2.28.7", "2.28.8"].map((v) => found(v)[0]);
  assertEquals(restarts.map(({ state }) => state), ["good", "warn", "warn", "warn"]);
  assertMatch(restarts[1].said, /^2\.28\.3, .*restart within their process/);
  assertMatch(found("2.18.1")[0].fix!, /HPCTRAIN_NCCL=.*NCCL_PROTO=\^LL128/);
});

Deno.test("what is known on this kind of machine is told", () => {
  const [line] = found("2.28.9", { against: "its ranks can wait for one another for ever on ARM" });
  assertEquals(line.state, "warn");
  assertMatch(line.said, /on ARM/);
});

Deno.test("one that can't be used is bad, none at all a warning: one rank can train", () => {
  assertEquals(found(null, { why: "it is version 2.10.0, and 2.14 is the oldest to use" })[0].state, "bad");
  assertEquals(found(null, { path: null })[0].state, "warn");
});
