import { assertEquals, assertMatch } from "@std/assert";
import { gatherNetwork, judgeNetwork, type NetworkFacts } from "../../../../core/cluster/doctor/network.ts";

const NODE: NetworkFacts = {
  hostname: "node1",
  resolved: ["10.0.0.1"],
  interfaces: [{ name: "eth0", address: "10.0.0.1" }, { name: "ib0", address: "10.1.0.1" }],
  adapters: [{ name: "mlx5_0 port 1", state: "ACTIVE", rate: "200 Gb/sec (4X HDR)" }],
  unknown: [],
  nodes: 4,
  asked: "auto",
  misnamed: [],
};
const judged = (more: Partial<NetworkFacts>) => judgeNetwork({ ...NODE, ...more })[0];

Deno.test("interfaces and active adapters are one good line", () => {
  const { state, said } = judged({});
  assertEquals([state, said], ["good", "eth0 10.0.0.1, ib0 10.1.0.1, mlx5_0 port 1 (200 Gb/sec (4X HDR))"]);
});

Deno.test("no address but the loopback is bad for several nodes only", () => {
  assertEquals([1, 2].map((nodes) => judged({ nodes, interfaces: [] }).state), ["good", "bad"]);
});

Deno.test("an adapter whose every port is down is a warning, with the state", () => {
  const line = judged({ adapters: [{ name: "mlx5_0 port 1", state: "DOWN", rate: "" }] });
  assertEquals(line.state, "warn");
  assertMatch(line.said, /mlx5_0 port 1 is DOWN/);
});

Deno.test("--network infiniband without an adapter is a warning", () => {
  assertMatch(judged({ adapters: [], asked: "infiniband" }).said, /shows no adapter/);
});

Deno.test("nodes that are not known by name are told, four at most", () => {
  const line = judged({ unknown: ["a", "b", "c", "d", "e"] });
  assertMatch(line.said, /5 nodes .*: a, b, c, d, \.\.\.$/);
});

Deno.test("a variable that names an interface which is not here is a warning; exclusions and prefixes are not", async () => {
  const misnamed = async (NCCL_SOCKET_IFNAME: string) =>
    (await gatherNetwork([], 1, "auto", { NCCL_SOCKET_IFNAME, PATH: "" })).misnamed.length;
  assertEquals(await Promise.all(["ib99", "=ib99", "^docker", "lo", "10.0.0.0/8"].map(misnamed)), [
    1,
    1,
    0,
    0,
    0,
  ]);
  assertMatch(
    judged({ misnamed: [{ variable: "NCCL_SOCKET_IFNAME", value: "ib9" }] }).fix!,
    /Unset NCCL_SOCKET_IFNAME/,
  );
});

Deno.test("a name that nobody knows is found out, with the machine's own programs", async () => {
  const PATH = Deno.env.get("PATH")!;
  const { unknown } = await gatherNetwork(["localhost", "no-such-host.invalid"], 2, "auto", { PATH });
  assertEquals(unknown, ["no-such-host.invalid"]);
});
