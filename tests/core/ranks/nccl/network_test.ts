// The variables that a choice of network means to NCCL.
import { assert, assertEquals } from "@std/assert";
import { type NetworkOptions, networkVariables } from "../../../../core/ranks/nccl/part.ts";
import { assertSentence } from "../../../sentences.ts";

const of = (more: Partial<NetworkOptions> = {}) =>
  networkVariables({
    network: "auto",
    env: {},
    nodes: 2,
    adapters: ["mlx5_0"],
    debugFile: "logs/rank-3.log",
    ...more,
  });

Deno.test("auto leaves NCCL to itself, and says nothing", () => {
  assertEquals(of(), { set: {}, notes: [] });
});

Deno.test("infiniband turns the adapters on, and keeps the rest off Docker's bridge", () => {
  const { set, notes: said } = of({ network: "infiniband" });
  assertEquals(set, { NCCL_IB_DISABLE: "0", NCCL_SOCKET_IFNAME: "^docker,lo" });
  assertEquals(said, ["For NCCL: NCCL_IB_DISABLE=0 NCCL_SOCKET_IFNAME=^docker,lo."]);
});

Deno.test("ethernet turns the adapters off; on one node the loopback stays allowed", () => {
  assertEquals(of({ network: "ethernet", nodes: 1 }).set, { NCCL_IB_DISABLE: "1" });
});

Deno.test("a variable that the user has set stays, and is named where it says otherwise", () => {
  const env = { NCCL_IB_DISABLE: "1" };
  const { set, notes: said } = of({ network: "infiniband", env });
  assertEquals(set, { NCCL_SOCKET_IFNAME: "^docker,lo" });
  assertSentence("core/ranks/nccl/network: environment kept nccl_ib_disable", said[1]);
});

Deno.test("NCCL's own messages go to the rank's file, if there are any", () => {
  assertEquals(of({ env: { NCCL_DEBUG: "INFO" } }).set, { NCCL_DEBUG_FILE: "logs/rank-3.log" });
  assertEquals(of({ env: { NCCL_DEBUG: "INFO", NCCL_DEBUG_FILE: "mine" } }).set, {});
});

Deno.test("infiniband without an adapter is said", () => {
  const { notes: said } = of({ network: "infiniband", adapters: [] });
  assert(said[1].includes("no InfiniBand adapter"), said[1]);
});
