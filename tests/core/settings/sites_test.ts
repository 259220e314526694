// Sites: what their files hold, what a job gets from one, and what counts more.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { resolveSettings } from "../../../core/settings/resolve.ts";
import { cpuMasks, loadSite, ownSite, parseSite, SITE_NAMES } from "../../../core/settings/sites.ts";
import { madeParts } from "../../../scripts/site/made.ts";
import { sentence, withFile } from "./helpers.ts";
import { assertSentence } from "../../sentences.ts";

const site = (name: string) => loadSite(name, { kind: "default" });
const ask = (...argv: string[]) => resolveSettings({ argv, env: {}, job: { command: "train" } });
const file = (source: string) => parseSite(source, "mine", "mine.yaml");

/** The CPUs of each mask that srun would bind a task to. */
function cpusOf(word: string): number[][] {
  const [, masks] = /^--cpu-bind=mask_cpu:(.+)$/.exec(word)!;
  return masks.split(",").map((mask) => {
    const bits = BigInt(mask).toString(2).split("").reverse();
    return bits.flatMap((bit, cpu) => bit === "1" ? [cpu] : []);
  });
}

Deno.test("every file in presets/sites is a site that says where its facts are from, and what it leaves out", async () => {
  const folder = new URL("../../../presets/sites", import.meta.url);
  const files = [...Deno.readDirSync(folder)].map(({ name }) => name);
  assertEquals(files.sort(), SITE_NAMES.map((name) => `${name}.yaml`).sort());
  const part = (await madeParts()).get("sites")!;
  for (const name of SITE_NAMES) {
    const { about, sources, leftOut, gpu, cpu, scheduler } = site(name);
    assert(about.length > 20 && leftOut.length > 0 && gpu && cpu && scheduler === "slurm", name);
    for (const source of sources) {
      assertMatch(source, /^.+: https:\/\/\S+$/);
      const [address] = /https:\S+$/.exec(source)!;
      assertStringIncludes(part, address);
    }
  }
});

Deno.test("masks have an entry for each rank of a full node, share no core, and leave the reserved ones out", () => {
  let masked = 0;
  for (const name of SITE_NAMES) {
    const { config } = ask("--site", name);
    const { gpus, cpus, reserved } = site(name).gpu!;
    const word = config.cluster.srun_args.find((arg) => arg.startsWith("--cpu-bind=mask_cpu:"));
    assertEquals([config.distributed.gpus_per_node, config.cluster.cpus_per_task], [gpus, cpus / gpus], name);
    if (word === undefined) continue;
    masked++;
    const ranks = cpusOf(word), all = ranks.flat();
    assertEquals(ranks.length, gpus, name);
    assertEquals(new Set(all).size, all.length, `${name}: two ranks share a core`);
    assertEquals(all.filter((cpu) => reserved.includes(cpu)), [], name);
    assertEquals(all.length, cpus, name);
    for (const own of ranks) assertEquals(own.length, config.cluster.cpus_per_task, name);
    // Two ranks of one module of two GCDs are on one NUMA domain, of 16 cores.
    for (const own of ranks) assertEquals(new Set(own.map((cpu) => Math.floor(cpu / 8))).size, 1, name);
  }
  assertEquals(masked, 2); // LUMI and Frontier
});

Deno.test("the masks are LUMI's own, digit for digit", () => {
  const published = "fe000000000000,fe00000000000000,fe0000,fe000000,fe,fe00,fe00000000,fe0000000000";
  const word = ask("--site", "lumi").config.cluster.srun_args[0];
  assertEquals(word, `--cpu-bind=mask_cpu:${published.split(",").map((mask) => `0x${mask}`).join(",")}`);
  assertEquals(cpuMasks([[0, 64, 127]]), "--cpu-bind=mask_cpu:0x80000000000000010000000000000001");
});

Deno.test("a site counts more than a preset and less than anything that was typed", () => {
  const origin = (path: string, ...argv: string[]) => ask(...argv).originText(path);
  assertEquals(origin("cluster.partition", "--site", "lumi"), "site lumi");
  assertEquals(origin("cluster.partition", "--site", "lumi", "--partition", "dev-g"), "--partition");
  withFile("cluster: { site: lumi, partition: bench }\n", (path) => {
    const { config, originText } = ask("--config", path, "--preset", "multi-node");
    assertEquals([config.cluster.partition, config.distributed.gpus_per_node], ["bench", 8]);
    assertEquals(originText("cluster.partition"), `${path}:1:35`);
  });
  const env = { HPCTRAIN_CLUSTER_SITE: "leonardo", HPCTRAIN_CLUSTER_QOS: "boost_qos_dbg" };
  const { config } = resolveSettings({ argv: [], env, job: { command: "train" } });
  assertEquals([config.cluster.gres, config.cluster.qos], ["gpu:4", "boost_qos_dbg"]);
});

Deno.test("variables, lines and options that were typed come after the site's; other lists replace them", () => {
  withFile("cluster: { env: [NCCL_DEBUG=WARN], srun_args: [--label], modules: [mine] }\n", (path) => {
    const { cluster } = ask("--site", "frontier", "--config", path).config;
    assertEquals(cluster.env, ["NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3", "NCCL_DEBUG=WARN"]);
    assertEquals([cluster.srun_args.length, cluster.srun_args[1]], [2, "--label"]);
    assertEquals(cluster.modules, ["mine"]);
  });
});

Deno.test("without a job to make, a site's name changes nothing", () => {
  const { config, site } = resolveSettings({ argv: ["--site", "lumi"], env: {} });
  assertEquals([config.cluster.partition, config.distributed.gpus_per_node, site], ["", 0, null]);
});

Deno.test("fewer GPUs than a node has are asked for in the site's way, without masks", () => {
  const few = ask("--site", "lumi", "--gpus-per-node", "2").config.cluster;
  assertEquals([few.partition, few.mem, few.srun_args, few.sbatch_args, few.cpus_per_task], [
    ...["small-g", "", [], ["--mem-per-gpu=60G"], 7],
  ]);
  assertEquals(ask("--site", "jupiter", "--gpus-per-node", "2").config.cluster.gres, "gpu:2");
  assertEquals(ask("--site", "leonardo", "--gres", "gpu:1").config.distributed.gpus_per_node, 1);
  assertEquals(ask("--site", "lumi", "--preset", "single-gpu").config.distributed.gpus_per_node, 1);
  assertEquals(ask("--site", "lumi", "--layout", "task-per-node").config.cluster.srun_args, []);
});

Deno.test("ranks on CPUs are one a NUMA domain, and share its node's cores however many they are", () => {
  const ranks = (...argv: string[]) => {
    const { tasks_per_node, cpus_per_task } = ask("--device", "cpu", ...argv).config.cluster;
    return [tasks_per_node, cpus_per_task];
  };
  assertEquals(ranks("--site", "lumi"), [8, 16]);
  assertEquals(ranks("--site", "frontier"), [4, 14]);
  assertEquals(ranks("--site", "jupiter"), [4, 72]);
  assertEquals(ranks("--site", "perlmutter"), [8, 32]); // SLURM counts hyperthreads there
  assertEquals(ranks("--site", "leonardo", "--ntasks-per-node", "2"), [2, 56]);
  assertEquals(ranks("--site", "lumi", "--cpus-per-task", "4"), [8, 4]);
  const made = resolveSettings({ argv: ["--site", "lumi"], env: {}, job: { command: "generate-data" } });
  assertEquals([made.config.cluster.partition, made.config.distributed.gpus_per_node], ["standard", 0]);
});

Deno.test("an unknown site is refused with the nearest one, and a file of one's own has lines", () => {
  assertSentence("core/settings/sites: site unknown site", sentence(() => ask("--site", "lumy")));
  assertMatch(sentence(() => ask("--site", "cray")), /The sites are lumi, frontier, .*, leonardo\./);
  assertMatch(sentence(() => ask("--site", "no/such.yaml")), /^no\/such\.yaml: /);
  const wrong: [string, RegExp][] = [
    ["gpu: { gpus: 4 }", /^mine\.yaml:1: cpus is a whole number from 1 on\.$/],
    ["gpu:\n  gpus: 4\n  cpus: 64\n  partition: x", /^mine\.yaml:4: gpu has no "partition"/],
    [
      "cpu:\n  cpus: 64\n  cluster:\n    partion: x",
      /^mine\.yaml:4: cpu\.cluster has no "partion"\. Did you mean "partition"\?$/,
    ],
    [
      "cpu: { cpus: 64, cluster: { mem: a lot } }",
      /^mine\.yaml:1: cluster\.mem .* must be a size such as 64G/,
    ],
    ["about: nothing else", /^mine\.yaml:1: a site has a section "gpu:" or "cpu:", and this has none\.$/],
    ["gpu: { gpus: 2, cpus: 8, rank_cpus: [0-3] }", /rank_cpus has 1 lists, and the node 2 GPUs/],
    ["gpu: { gpus: 2, cpus: 8, rank_cpus: [0-3, 3-6] }", /gives CPU 3 to rank 1, and it is another rank's/],
    ["gpu: { gpus: 1, cpus: 8, reserved: 0, rank_cpus: [0-3] }", /gives CPU 0 to rank 0, and it is reserved/],
    ["gpu: { gpus: 1, cpus: 8, reserved: all }", /"all" is no list of CPUs such as 0-3,8/],
    ["gpu: { gpus: 1, cpus: 8, architecture: arm64 }", /architecture is x86_64 or aarch64, but got "arm64"/],
    ["cpu: [", /^mine\.yaml:1: it is no YAML/],
  ];
  for (const [source, says] of wrong) assertMatch(sentence(() => file(source)), says);
});

Deno.test("a file of one's own is a site like the others", () => {
  const source =
    "about: ours\ncluster: { account: abc }\ngpu: { gpus: 2, cpus: 20, rank_cpus: [0-9, 10-19], cluster: { partition: a100 } }\n";
  withFile(source, (path) => {
    const { config, site, originText } = ask("--site", path);
    assertEquals([site!.name, config.cluster.account, config.cluster.partition], ["run", "abc", "a100"]);
    assertEquals(config.cluster.srun_args, ["--cpu-bind=mask_cpu:0x3ff,0xffc00"]);
    assertEquals(originText("cluster.account"), "site run");
    assertSentence(
      "core/settings/sites: site run says",
      sentence(() => ask("--site", path, "--device", "cpu")),
    );
  });
});

Deno.test("a login node is known by a variable that the site documents, or by SLURM's name of the cluster", () => {
  assertEquals(ownSite({ NERSC_HOST: "perlmutter" })?.name, "perlmutter");
  assertEquals(ownSite({ CLUSTER_NAME: "daint" })?.name, "alps");
  assertEquals(ownSite({ CLUSTER_NAME: "other", NERSC_HOST: "cori" }), null);
  assertEquals(ownSite({}, "LUMI")?.name, "lumi");
  assertEquals(ownSite({}, "bed"), null);
});
