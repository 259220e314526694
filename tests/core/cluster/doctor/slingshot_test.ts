import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import {
  gatherSlingshot,
  judgeSlingshot,
  type SlingshotFacts,
} from "../../../../core/cluster/doctor/slingshot.ts";
import { inTemp } from "../../../integration/program.ts";

const ENV = { NCCL_SOCKET_IFNAME: "hsn", FI_MR_CACHE_MONITOR: "userfaultfd" };
const LUMI: SlingshotFacts = {
  interfaces: ["hsn0", "hsn1", "hsn2", "hsn3"],
  gpus: "hip",
  nodes: 2,
  plugin: "/opt/aws-ofi-rccl/lib/librccl-net.so",
  env: ENV,
};
const judged = (more: Partial<SlingshotFacts>) => judgeSlingshot({ ...LUMI, ...more });

Deno.test("another network, and ranks on CPUs, have no word of Slingshot", () => {
  assertEquals(judged({ interfaces: [] }), []);
  assertEquals(judged({ gpus: null }), []);
  assertEquals(judged({}).map(({ state }) => state), ["good"]);
});

Deno.test("on Slingshot each setting that is missing or known to hang is a line with what to write", () => {
  const [plugin, names, level] = judged({ plugin: null, env: { NCCL_NET_GDR_LEVEL: "PHB" } });
  assertEquals([plugin, names, level].map(({ state }) => state), ["warn", "warn", "warn"]);
  assertMatch(`${plugin.said} ${plugin.fix}`, /no plugin .*librccl-net\.so.*sockets.*aws-ofi-rccl/);
  assertMatch(
    `${names.said} ${names.fix}`,
    /NCCL_SOCKET_IFNAME is not set.*export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3\./,
  );
  assertMatch(`${level.said} ${level.fix}`, /NCCL_NET_GDR_LEVEL is "PHB".*hung.*Unset/);
  const [monitor] = judged({ env: { NCCL_SOCKET_IFNAME: "hsn0,hsn1" } });
  assertMatch(`${monitor.said} ${monitor.fix}`, /FI_MR_CACHE_MONITOR is not set.*=userfaultfd/);
  // HPE's own settings for NVIDIA's GPUs have it.
  assertEquals(
    judged({ gpus: "cuda", env: { ...ENV, NCCL_NET_GDR_LEVEL: "PHB" } }).map(({ state }) => state),
    ["good"],
  );
});

Deno.test("on one node what several would want is a hint", () => {
  const lines = judged({ nodes: 1, plugin: null, env: {} });
  assertEquals(lines.map(({ state }) => state), ["good", "good"]);
  assertMatch(lines[0].said, /\(with several nodes\)\. Load the site's module/);
});

Deno.test("the plugin is found in the loader's folders, or named", () =>
  inTemp((folder) => {
    const all = ["lo", "hsn1", "hsn0", "hsn0", "eth0"].map((name) => ({ name }));
    const of = (env: Record<string, string>) => gatherSlingshot("hip", 2, env, all);
    assertEquals([of({}).interfaces, of({}).plugin], [["hsn0", "hsn1"], null]);
    Deno.writeTextFileSync(join(folder, "librccl-net-ofi.so"), "");
    assertEquals(of({ LD_LIBRARY_PATH: `/nowhere:${folder}` }).plugin, join(folder, "librccl-net-ofi.so"));
    assertEquals(of({ NCCL_NET_PLUGIN: "ofi" }).plugin, "ofi");
  }));

Deno.test("of the environment the facts have the variables that are judged, and nothing else", () => {
  const env = {
    ...ENV,
    WANDB_API_KEY: "canary",
    LD_LIBRARY_PATH: "/nowhere",
    HTTPS_PROXY: "http://u:canary@proxy",
  };
  assertEquals(gatherSlingshot("hip", 2, env, [{ name: "hsn0" }]).env, ENV);
});
